import type { Clock } from '../clock.ts';
import type { Store } from '../store.ts';
import type { Treasury } from '../usernames/treasury.ts';
import { joinLines, toJsonOutput } from './format.ts';

/** What a command prints at its end, and its exit code. */
export interface CommandResult {
  /** 0: done. 1: not done. 2: wrong arguments. */
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface CommandContext {
  store: Store;
  /** `USERNAME_RESERVED`. */
  reservedNames: readonly string[];
  /** Null without a treasury secret. */
  treasury: Treasury | null;
  /** Whether this service sends requests to mints over plain http (development). */
  allowHttpMints: boolean;
  clock: Clock;
}

export interface CommandIo {
  /** Writes to standard output. Resolves when the stream can take more. */
  write(text: string): Promise<void>;
  /** Shows one line of progress, without a line break. Drops lines that come too fast. */
  reportProgress(line: string): void;
  /** Standard input; null if it is a terminal. */
  stdin: AsyncIterable<Uint8Array> | null;
  /** Aborted when standard output is closed. */
  signal: AbortSignal;
}

export type CommandHandler = (context: CommandContext, io: CommandIo) => Promise<CommandResult>;

/** An operator command: `nutpost <name> <arguments>`. */
export interface OperatorCommand {
  name: string;
  /** The lines of the usage text, each indented and with a line break. */
  usage: string;
  /**
   * Parses the arguments, before the database is opened.
   *
   * @throws UsageError, or an error of `parseArgs` from node:util
   */
  parse(args: string[]): CommandHandler;
}

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Returns the only operand, trimmed. @throws UsageError if the number of operands is not one */
export function requireSingleOperand(
  [operand = '', ...others]: string[],
  usageMessage: string,
): string {
  if (operand.trim() === '' || others.length > 0) {
    throw new UsageError(usageMessage);
  }
  return operand.trim();
}

/** Prints an object as JSON on standard output, and text on standard output (success) or standard error (failure). */
export function createCommandResult(isSuccess: boolean, output: string | object): CommandResult {
  const exitCode = isSuccess ? 0 : 1;
  if (typeof output === 'object') {
    return { exitCode, stdout: `${JSON.stringify(toJsonOutput(output), null, 2)}\n`, stderr: '' };
  }
  return isSuccess
    ? { exitCode, stdout: output, stderr: '' }
    : { exitCode, stdout: '', stderr: output };
}

/** What a command found or did, for scripts and for people. */
export interface CommandReport {
  isSuccess: boolean;
  json: object;
  lines: string[];
}

export function createReportResult(
  { isSuccess, json, lines }: CommandReport,
  isJson: boolean,
): CommandResult {
  return createCommandResult(isSuccess, isJson ? json : joinLines(...lines));
}
