import type { CommandResult, Terminal } from './commands/command.ts';
import type { ReadCommand } from './commands/commands.ts';
import type { Config } from './config.ts';
import { openExistingDatabase } from './database/database.ts';
import { openLog } from './log.ts';
import { MintRateLimiter } from './mint/mint-rate-limiter.ts';
import { GuardedFetch } from './net/guarded-fetch.ts';
import { Store } from './store/store.ts';
import { createTreasury } from './treasury.ts';
import { VERSION } from './version.ts';

/**
 * Runs a command of the operator on the database, with or without a running service.
 *
 * @throws OperatorError if there is no database, or it cannot be opened
 */
export async function runOperatorCommand(
  config: Config,
  command: ReadCommand,
  terminal: Terminal,
): Promise<CommandResult> {
  const { allowPrivateNetworks, usernames } = config;
  const database = await openExistingDatabase(config.database, () => undefined);
  const store = new Store(database.db);
  const clock = Date.now;
  const fetch = new GuardedFetch({ allowPrivateNetworks });
  // A command prints its own results; the service continues with the swaps that it leaves open.
  const log = openLog('silent');
  const monotonicMs = () => performance.now();
  const limiter = new MintRateLimiter({ store: store.mints, monotonicMs, log });
  const treasury = createTreasury({ config, store, fetch, limiter, clock, monotonicMs, log });
  try {
    const parts = {
      store,
      reservedNames: usernames.reserved,
      treasury: treasury?.treasury ?? null,
      allowHttpMints: allowPrivateNetworks,
      version: VERSION,
      clock,
    };
    return await command.run(parts, terminal);
  } finally {
    // A swap continues for as long as its requests may take.
    await treasury?.idle();
    await fetch.close();
    await database.close();
  }
}
