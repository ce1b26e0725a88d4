import type { Database } from '../../src/database/database.ts';
import type { CommandResult } from '../../src/operator/command.ts';
import { parseCommand } from '../../src/operator/commands.ts';
import { Store } from '../../src/store.ts';
import { waitForNotifications } from './notification-barrier.ts';
import { TestTerminal } from './test-terminal.ts';

/** Runs operator commands on a database without a separate process. */
export interface OperatorCommandOptions {
  clock?: () => number;
  reservedNames?: readonly string[];
  /** Input and output of the command. */
  terminal?: TestTerminal;
}

/**
 * Runs an operator command, given by name and arguments, and waits until all listeners are notified of
 * its changes.
 */
export async function runOperatorCommand(
  database: Database,
  argv: readonly string[],
  {
    clock = Date.now,
    reservedNames = [],
    terminal = new TestTerminal(),
  }: OperatorCommandOptions = {},
): Promise<CommandResult> {
  const command = parseCommand(argv);
  const store = new Store(database.db);
  const defaults = { treasury: null, allowHttpMints: true };
  const context = { store, clock, reservedNames, ...defaults };
  const result = 'run' in command ? await command.run(context, terminal) : command;
  await waitForNotifications(database);
  return result;
}
