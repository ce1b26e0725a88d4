import type { CommandResult, Terminal } from './commands/command.ts';
import type { ReadCommand } from './commands/commands.ts';
import type { Config } from './config.ts';
import { openExistingDatabase } from './database/database.ts';
import { Store } from './store/store.ts';
import { createSealer } from './treasury.ts';
import { Treasury } from './usecases/treasury.ts';
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
  const database = await openExistingDatabase(config.database, () => undefined);
  const store = new Store(database.db);
  const clock = Date.now;
  const sealer = createSealer(config);
  try {
    const parts = {
      store,
      reservedNames: config.usernames.reserved,
      treasury: sealer && new Treasury({ store, sealer, clock }),
      allowHttpMints: config.allowPrivateNetworks,
      version: VERSION,
      clock,
    };
    return await command.run(parts, terminal);
  } finally {
    await database.close();
  }
}
