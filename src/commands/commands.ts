import {
  type CommandResult,
  type OperatorCommand,
  type RunCommand,
  UsageError,
} from './command.ts';
import { databaseFacts } from './database-facts.ts';
import { exportArchive } from './export.ts';
import { importArchive } from './import.ts';
import { importNpubcash } from './import-npubcash.ts';
import { name } from './name.ts';
import { trace } from './trace.ts';
import { treasury } from './treasury.ts';
import { user } from './user.ts';

/** Every command of the operator that works on the database. */
const COMMANDS: readonly OperatorCommand[] = [
  trace,
  user,
  name,
  treasury,
  exportArchive,
  importArchive,
  importNpubcash,
  databaseFacts,
];

/** Their names, as the command line knows them. */
export const COMMAND_NAMES: readonly string[] = COMMANDS.map(({ name }) => name);

/** Their part of the usage. */
export const COMMANDS_USAGE = COMMANDS.map(({ usage }) => usage).join('');

/** A command that was understood and is not run yet. */
export interface ReadCommand {
  /** As it was given: the name, then its arguments. They may be secret. */
  argv: readonly string[];
  name: string;
  run: RunCommand;
}

/**
 * Understands a command.
 *
 * @param argv its name, then its arguments
 * @returns the command, or what to tell whoever gave it: the usage, asked for or not
 */
export function readCommand(argv: readonly string[]): ReadCommand | CommandResult {
  const [name, ...args] = argv;
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    return misunderstood('There is no such command.', COMMANDS_USAGE);
  }
  const read = understand(command.usage, args, () => ({ run: command.read(args) }));
  return 'run' in read ? { argv, name: command.name, run: read.run } : read;
}

/**
 * Understands the arguments of a command.
 *
 * @param usage its lines in the usage
 * @param read throws as {@link OperatorCommand.read} does
 * @returns what was read, or what to tell whoever gave it: the usage, asked for or not
 */
export function understand<T>(
  usage: string,
  args: readonly string[],
  read: () => T,
): T | CommandResult {
  if (args.includes('--help') || args.includes('-h')) {
    return { exitCode: 0, stdout: usageOf(usage), stderr: '' };
  }
  try {
    return read();
  } catch (error) {
    if (isMisuse(error)) {
      return misunderstood(error.message, usage);
    }
    throw error;
  }
}

function misunderstood(problem: string, usage: string): CommandResult {
  return { exitCode: 2, stdout: '', stderr: `${problem}\n\n${usageOf(usage)}` };
}

function usageOf(lines: string): string {
  return `Usage: nutpost <command>\n\n${lines}`;
}

function isMisuse(error: unknown): error is Error {
  return (
    error instanceof UsageError ||
    (error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS_/.test(String(error.code)))
  );
}
