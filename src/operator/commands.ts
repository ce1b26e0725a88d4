import type { CommandConfig } from '../config.ts';
import { openExistingDatabase } from '../database/database.ts';
import { createTreasurySealer } from '../usernames/usernames-module.ts';
import { exportCommand, importCommand } from './archive/archive-commands.ts';
import {
  type CommandHandler,
  type CommandIo,
  type CommandResult,
  type OperatorCommand,
  UsageError,
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

export const COMMAND_NAMES: readonly string[] = COMMANDS.map(({ name }) => name);

export const COMMANDS_USAGE = COMMANDS.map(({ usage }) => usage).join('');

export interface ParsedCommand {
  run: CommandHandler;
}

/**
 * Parses a command line: the name of the command, then its arguments.
 *
 * @returns the command to run, or the usage text to print instead
 */
export function parseCommand([name, ...args]: readonly string[]): ParsedCommand | CommandResult {
  const command = COMMANDS.find((candidate) => candidate.name === name);
  return parseArguments(command?.usage ?? COMMANDS_USAGE, args, () => {
    if (command === undefined) {
      throw new UsageError(`Unknown command: ${name}`);
    }
    return { run: command.parse(args) };
  });
}

/**
 * Handles `--help` and wrong arguments of a command.
 *
 * @param parse throws the same errors as {@link OperatorCommand.parse}
 * @returns the result of `parse`, or the usage text to print instead
 */
export function parseArguments<T>(
  usage: string,
  args: readonly string[],
  parse: () => T,
): T | CommandResult {
  if (args.includes('--help') || args.includes('-h')) {
    return { exitCode: 0, stdout: formatUsage(usage), stderr: '' };
  }
  try {
    return parse();
  } catch (error) {
    const isParseError =
      error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS_/.test(String(error.code));
    if (error instanceof UsageError || isParseError) {
      return { exitCode: 2, stdout: '', stderr: `${error.message}\n\n${formatUsage(usage)}` };
    }
    throw error;
  }
}

function formatUsage(lines: string): string {
  return `Usage: nutpost <command>\n\n${lines}`;
}

/**
 * Runs an operator command on the database. The service may run at the same time.
 *
 * @throws OperatorError if the database does not exist or cannot be opened
 */
export async function runOperatorCommand(
  config: CommandConfig,
  command: ParsedCommand,
  io: CommandIo,
): Promise<CommandResult> {
  const database = await openExistingDatabase(config.database, () => undefined);
  try {
    const { db } = database;
    const clock = Date.now;
    const context = {
      db,
      reservedNames: config.usernames.reserved,
      openTreasury: () => ({ db, sealer: createTreasurySealer(config), clock }),
      allowHttpMints: config.allowPrivateNetworks,
      clock,
    };
    return await command.run(context, io);
  } finally {
    await database.close();
  }
}
