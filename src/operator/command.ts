import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import type { TreasuryContext } from '../usernames/treasury.ts';
import type { ProcessIo } from './command-io.ts';
import { formatJson, joinLines } from './format.ts';

/** The exit code of a command, and what to print after it has finished. */
export interface CommandResult {
  /** 0: success. 1: failure. 2: wrong arguments. */
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface CommandContext {
  db: Db;
  reservedNames: readonly string[];
  /** @throws OperatorError if the file of the treasury secret is damaged */
  openTreasury: () => TreasuryContext;
  /** Whether this service sends requests to mints over plain http, which is for development. */
  allowHttpMints: boolean;
  clock: Clock;
}

export type CommandIo = Pick<ProcessIo, 'stdin' | 'signal' | 'write' | 'reportProgress'>;

export type CommandHandler = (context: CommandContext, io: CommandIo) => Promise<CommandResult>;

export interface OperatorCommand {
  name: string;
  /** The lines of the usage text, each indented and with a line break. */
  usage: string;
  /**
   * Parses the arguments. Runs before the database is opened.
   *
   * @throws UsageError, or an error of `parseArgs` from node:util
   */
  parse(args: string[]): CommandHandler;
}

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Returns the only operand, trimmed. @throws UsageError unless there is exactly one operand */
export function requireSingleOperand(
  [operand = '', ...others]: string[],
  usageMessage: string,
): string {
  if (operand.trim() === '' || others.length > 0) {
    throw new UsageError(usageMessage);
  }
  return operand.trim();
}

/** At most 16 digits, as many as in 2,100,000,000,000,000 (all sats that will ever exist). */
const AMOUNT_SAT_PATTERN = /^[1-9]\d{0,15}$/;

export function parseAmountSat(text: string): number {
  if (!AMOUNT_SAT_PATTERN.test(text)) {
    throw new UsageError(`--amount must be a whole number of sats (got '${text}').`);
  }
  return Number(text);
}

/** Prints an object as JSON on standard output. Prints the text of a failed command on standard error. */
export function createCommandResult(isSuccess: boolean, output: string | object): CommandResult {
  if (typeof output === 'string' && !isSuccess) {
    return { exitCode: 1, stdout: '', stderr: output };
  }
  const stdout = typeof output === 'string' ? output : formatJson(output);
  return { exitCode: isSuccess ? 0 : 1, stdout, stderr: '' };
}

export interface CommandReport {
  isSuccess: boolean;
  /** For scripts (`--json`). */
  json: object;
  /** For people. */
  lines: string[];
}

export function createReportResult(
  { isSuccess, json, lines }: CommandReport,
  isJson: boolean,
): CommandResult {
  return createCommandResult(isSuccess, isJson ? json : joinLines(...lines));
}
