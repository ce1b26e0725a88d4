import { VERSION } from '../../src/config.ts';
import type { Database } from '../../src/database/database.ts';
import type { CommandResult } from '../../src/operator/command.ts';
import { readCommand } from '../../src/operator/commands.ts';
import { Store } from '../../src/store.ts';
import { allHeard } from './heard.ts';
import { TestTerminal } from './test-terminal.ts';

/** How an operator's commands are run on a database, without a process for each. */
export interface OperatorOptions {
  clock?: () => number;
  reservedNames?: readonly string[];
  /** Where it speaks and listens meanwhile. */
  terminal?: TestTerminal;
}

/**
 * Runs a command of the operator, given by its name and its arguments; all who listen have heard of what it
 * changed then.
 */
export async function operate(
  database: Database,
  argv: readonly string[],
  { clock = Date.now, reservedNames = [], terminal = new TestTerminal() }: OperatorOptions = {},
): Promise<CommandResult> {
  const command = readCommand(argv);
  const store = new Store(database.db);
  const defaults = { treasury: null, allowHttpMints: true, version: VERSION };
  const parts = { store, clock, reservedNames, ...defaults };
  const result = 'run' in command ? await command.run(parts, terminal) : command;
  await allHeard(database);
  return result;
}
