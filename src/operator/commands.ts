import type { CommandConfig } from '../config.ts';
import { openExistingDatabase } from '../database/database.ts';
import { createTreasurySealer } from '../usernames/usernames-module.ts';
import { exportCommand, importCommand } from './archive/archive-commands.ts';
import {
  type CommandHandler,
  type CommandIo,
  type CommandResult,
  type OperatorCommand,
  parseArguments,
} from './command.ts';
import { importNpubcashCommand } from './import-npubcash/import-npubcash-command.ts';
import { traceCommand } from './trace/trace-command.ts';
import { treasuryCommand } from './treasury-command.ts';
import { userCommand } from './user-command.ts';
import { nameCommand } from './username-command.ts';

const COMMANDS: readonly OperatorCommand[] = [
  traceCommand,
  userCommand,
  nameCommand,
  treasuryCommand,
  exportCommand,
  importCommand,
  importNpubcashCommand,
];

export const COMMANDS_USAGE = COMMANDS.map(({ usage }) => usage).join('');

/** Returns the command to run, or the usage text to print instead; null for an unknown command. */
export function parseCommand([name, ...args]: readonly string[]):
  | CommandHandler
  | CommandResult
  | null {
  const command = COMMANDS.find((each) => each.name === name);
  return command ? parseArguments(command.usage, args, () => command.parse(args)) : null;
}

/** @throws OperatorError if the database does not exist or cannot be opened */
export async function runOperatorCommand(
  config: CommandConfig,
  run: CommandHandler,
  io: CommandIo,
): Promise<CommandResult> {
  const database = await openExistingDatabase(config.database, () => undefined);
  const { db } = database;
  const clock = Date.now;
  try {
    return await run(
      {
        db,
        reservedNames: config.usernames.reserved,
        openTreasury: () => ({ db, sealer: createTreasurySealer(config), clock }),
        allowHttpMints: config.allowPrivateNetworks,
        clock,
      },
      io,
    );
  } finally {
    await database.close();
  }
}
