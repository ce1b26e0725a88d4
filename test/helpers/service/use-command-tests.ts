import { requestJson } from '../recipients/recipient-client.ts';
import { type OperatorCommandOptions, runOperatorCommand } from './run-operator-command.ts';
import { useTestEnvironment } from './test-environment.ts';

/** Starts a service for tests of operator commands. */
export function useCommandTests() {
  const environment = useTestEnvironment();
  let testCount = 0;
  return {
    environment,
    /** Call it before each test. Returns a user whom no other test uses. */
    prepareTest: () => {
      testCount += 1;
      const { db } = environment.database;
      return { db, wallet: environment.newWallet(), name: `alice${testCount}` };
    },
    run: (argv: readonly string[], options?: OperatorCommandOptions) =>
      runOperatorCommand(environment.database, argv, options),
    isPayable: async (address: string): Promise<boolean> => {
      const { body } = await requestJson(environment.origin, `/.well-known/lnurlp/${address}`);
      return body.tag === 'payRequest';
    },
  };
}
