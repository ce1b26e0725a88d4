import type { Config } from '../../config.ts';
import type { Db } from '../../database/transaction.ts';
import { OperatorError } from '../../errors.ts';
import { redact } from '../../redaction.ts';
import { type CommandContext, UsageError } from '../command.ts';
import { parseCommand } from '../commands.ts';
import type { CommandIo } from '../process-io.ts';

/** What the page may run: what reads a few rows, and changes of members, names and blocks. */
const COMMANDS = [
  'doctor',
  'trace',
  'stats',
  'audit',
  'user list',
  'user show',
  'user block',
  'user unblock',
  'name show',
  'name reserve',
  'name release',
  'name assign',
  'member list',
  'member add',
  'member remove',
];

/** Others could show ids that are as good as money, read files of the server, or read all payments, which blocks SQLite. */
const OPTION = /^--(?:reason|name)(?:=|$)/;

/** Creates what runs the commands of the operator page. */
export function createOperatorPage({ config, db }: { config: Config; db: Db }) {
  return {
    keys: config.operatorKeys,
    runCommand: async (pubkey: string, argv: readonly string[]) => {
      const isOffered = COMMANDS.some((command) => `${argv.join(' ')} `.startsWith(`${command} `));
      const hasOtherOption = argv.some(
        (argument) => argument.startsWith('-') && !OPTION.test(argument),
      );
      if (!isOffered || hasOtherOption) {
        return null;
      }
      const actor = { kind: 'operator', pubkey } as const;
      const context = { config, db, actor, clock: Date.now };
      const { exitCode, stdout, stderr } = await runOrExplain(argv, context);
      return { exitCode, output: redact(stdout + stderr) };
    },
  };
}

async function runOrExplain(argv: readonly string[], context: CommandContext) {
  try {
    return await parseCommand(argv)(context, NO_IO);
  } catch (error) {
    if (error instanceof UsageError) {
      return error.result;
    }
    if (error instanceof OperatorError) {
      return { exitCode: 1, stdout: '', stderr: error.message };
    }
    throw error;
  }
}

/** None of the commands reads or writes more than its result. */
const NO_IO: CommandIo = {
  stdin: null,
  write: async () => undefined,
  reportProgress: () => undefined,
};
