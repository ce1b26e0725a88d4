import { expect } from 'vitest';
import type { Database } from '../../../src/database/database.ts';
import type { MintPolicy } from '../../../src/mints/mint-policy.ts';
import type { CommandContext, CommandResult } from '../../../src/operator/command.ts';
import { parseCommand } from '../../../src/operator/commands.ts';
import { waitForNotificationDelivery } from '../database/database-notifications.ts';
import { createMintPolicy } from '../mints/mint-policy.ts';
import { FakeTerminal } from './fake-terminal.ts';

export interface OperatorCommandOptions {
  clock?: () => number;
  reservedNames?: readonly string[];
  mintPolicy?: MintPolicy;
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
    mintPolicy = createMintPolicy(TEST_DEFAULT_MINT_URL, { allowPrivateNetworks: true }),
    terminal = new FakeTerminal(),
  }: OperatorCommandOptions = {},
): Promise<CommandResult> {
  const parsed = parseCommand(argv) ?? expect.fail('unknown command');
  const { db } = database;
  const openTreasury = () => ({ db, sealer: null, actor: TEST_ACTOR, clock });
  const context = createCommandContext({ db, clock, reservedNames, mintPolicy, openTreasury });
  const result = parsed.outcome === 'parsed' ? await parsed.value(context, terminal) : parsed.usage;
  await waitForNotificationDelivery(database);
  return result;
}

const TEST_ACTOR = { kind: 'command', systemUser: 'root' } as const;

export const TEST_DEFAULT_MINT_URL = 'https://default-mint.example';

export function createCommandContext(
  context: Pick<CommandContext, 'db' | 'clock' | 'openTreasury'> & Partial<CommandContext>,
): CommandContext {
  return {
    actor: TEST_ACTOR,
    reservedNames: [],
    allowHttpMints: true,
    publicOrigin: 'https://pay.example',
    usernameGraceMs: 30 * 24 * 60 * 60_000,
    mintPolicy: createMintPolicy(TEST_DEFAULT_MINT_URL, { allowPrivateNetworks: true }),
    recipientDefaults: { mintUrl: TEST_DEFAULT_MINT_URL, lockQuotes: false },
    alertTarget: null,
    ...context,
  };
}
