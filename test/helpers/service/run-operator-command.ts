import { readCommandConfig } from '../../../src/config.ts';
import type { Database } from '../../../src/database/database.ts';
import {
  type CommandContext,
  type CommandHandler,
  type CommandResult,
  UsageError,
} from '../../../src/operator/command.ts';
import { parseCommand } from '../../../src/operator/commands.ts';
import { waitForNotificationDelivery } from '../database/database-notifications.ts';
import { FakeTerminal } from './fake-terminal.ts';

export interface OperatorCommandOptions {
  clock?: () => number;
  /** Settings, beside those of {@link createCommandContext}. */
  env?: Record<string, string>;
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
  { clock = Date.now, env = {}, terminal = new FakeTerminal() }: OperatorCommandOptions = {},
): Promise<CommandResult> {
  const { db } = database;
  const context = createCommandContext({ db, clock }, env);
  const result = await runOrExplain(argv, (run) => run(context, terminal));
  await waitForNotificationDelivery(database);
  return result;
}

/** Returns what the command prints, which is its usage if the arguments are wrong. */
export async function runOrExplain(
  argv: readonly string[],
  use: (run: CommandHandler) => Promise<CommandResult>,
): Promise<CommandResult> {
  try {
    return await use(parseCommand(argv));
  } catch (error) {
    if (error instanceof UsageError) {
      return error.result;
    }
    throw error;
  }
}

export const TEST_DEFAULT_MINT_URL = 'https://default-mint.example';

export function createCommandContext(
  context: Pick<CommandContext, 'db' | 'clock'>,
  env: Record<string, string> = {},
): CommandContext {
  const config = readCommandConfig({
    DEFAULT_MINT_URL: TEST_DEFAULT_MINT_URL,
    PUBLIC_ORIGINS: 'https://pay.example',
    ALLOW_PRIVATE_NETWORKS: 'true',
    ...env,
  });
  return { systemUser: 'root', config, ...context };
}
