import { exportArchive, importArchive } from './archive/archive-command.ts';
import {
  type CommandResult,
  type OperatorCommand,
  type RunCommand,
  UsageError,
} from './command.ts';
import { importNpubcashCommand } from './import-npubcash/import-npubcash-command.ts';
import { name } from './name-command.ts';
import { trace } from './trace/trace-command.ts';
import { treasury } from './treasury-command.ts';
import { user } from './user-command.ts';

const COMMANDS: readonly OperatorCommand[] = [
  trace,
  user,
  name,
  treasury,
  exportArchive,
  importArchive,
  importNpubcashCommand,
];

export const COMMAND_NAMES: readonly string[] = COMMANDS.map(({ name }) => name);

export const COMMANDS_USAGE = COMMANDS.map(({ usage }) => usage).join('');

/** A command whose arguments were read. */
export interface ReadCommand {
  run: RunCommand;
}

/**
 * Reads a command.
 *
 * @param argv its name, then its arguments
 * @returns the command, or the usage to print instead
 */
export function readCommand(argv: readonly string[]): ReadCommand | CommandResult {
  const [name, ...args] = argv;
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    return wrongArguments('There is no such command.', COMMANDS_USAGE);
  }
  return readArguments(command.usage, args, () => ({ run: command.read(args) }));
}

/**
 * Reads the arguments of a command.
 *
 * @param usage its lines in the usage
 * @param read throws as {@link OperatorCommand.read} does
 * @returns what was read, or the usage to print instead
 */
export function readArguments<T>(
  usage: string,
  args: readonly string[],
  read: () => T,
): T | CommandResult {
  if (args.includes('--help') || args.includes('-h')) {
    return { exitCode: 0, stdout: usageText(usage), stderr: '' };
  }
  try {
    return read();
  } catch (error) {
    const isParseError =
      error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS_/.test(String(error.code));
    if (error instanceof UsageError || isParseError) {
      return wrongArguments(error.message, usage);
    }
    throw error;
  }
}

function wrongArguments(problem: string, usage: string): CommandResult {
  return { exitCode: 2, stdout: '', stderr: `${problem}\n\n${usageText(usage)}` };
}

function usageText(lines: string): string {
  return `Usage: nutpost <command>\n\n${lines}`;
}
