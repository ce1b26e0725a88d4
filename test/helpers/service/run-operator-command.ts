import { expect } from 'vitest';
import type { Database } from '../../../src/database/database.ts';
import type { CommandResult } from '../../../src/operator/command.ts';
import { parseCommand } from '../../../src/operator/commands.ts';
import { waitForNotificationDelivery } from '../database/database-notifications.ts';
import { FakeTerminal } from './fake-terminal.ts';

export interface OperatorCommandOptions {
  clock?: () => number;
  reservedNames?: readonly string[];
  terminal?: FakeTerminal;
}

/**
 * Runs an operator command in this process, and waits until all listeners are notified of its changes.
 *
 * @param argv the command's name, then its arguments
 */
export async function runOperatorCommand(
  database: Database,
  argv: readonly string[],
  {
    clock = Date.now,
    reservedNames = [],
    terminal = new FakeTerminal(),
  }: OperatorCommandOptions = {},
): Promise<CommandResult> {
  const parsed = parseCommand(argv) ?? expect.fail('unknown command');
  const { db } = database;
  const actor = { kind: 'command', systemUser: 'root' } as const;
  const openTreasury = () => ({ db, sealer: null, actor, clock });
  const context = { db, actor, clock, reservedNames, openTreasury, allowHttpMints: true };
  const result = parsed.outcome === 'parsed' ? await parsed.value(context, terminal) : parsed.usage;
  await waitForNotificationDelivery(database);
  return result;
}
