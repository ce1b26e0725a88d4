import type { CommandResult } from '../../src/commands/command.ts';
import { readCommand } from '../../src/commands/commands.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';

/** How an operator's commands are run on a database, without a process for each. */
export interface OperatorOptions {
  clock?: () => number;
  reservedNames?: readonly string[];
}

/** Runs a command of the operator, given by its name and its arguments. */
export async function operate(
  { db }: Database,
  argv: readonly string[],
  { clock = Date.now, reservedNames = [] }: OperatorOptions = {},
): Promise<CommandResult> {
  const command = readCommand(argv);
  return 'run' in command
    ? command.run({ store: new Store(db), clock, reservedNames, treasury: null })
    : command;
}
