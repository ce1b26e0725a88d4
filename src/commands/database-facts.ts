import { type OperatorCommand, UsageError } from './command.ts';

/**
 * Prints the state of the database as JSON. `nutpost doctor` has it run by the service that has opened an
 * embedded database; the usage does not list it.
 */
export const databaseFacts: OperatorCommand = {
  name: 'database-facts',
  usage: '',
  read: ([mintUrl]) => {
    if (mintUrl === undefined) {
      throw new UsageError('The URL of a mint is missing.');
    }
    return async ({ store }) => {
      const facts = await store.examination.examine(mintUrl);
      return { exitCode: 0, stdout: JSON.stringify(facts), stderr: '' };
    };
  },
};
