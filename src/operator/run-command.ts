import type { Config } from '../config.ts';
import { VERSION } from '../config.ts';
import { openExistingDatabase } from '../database/database.ts';
import { Store } from '../store.ts';
import { createSealer } from '../usernames/create-usernames.ts';
import { Treasury } from '../usernames/treasury.ts';
import type { CommandResult, Terminal } from './command.ts';
import type { ReadCommand } from './commands.ts';

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
