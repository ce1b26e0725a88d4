import { once } from 'node:events';
import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { OperatorError } from '../errors.ts';
import type { TreasuryContext } from '../usernames/treasury.ts';
import { formatJson, joinLines } from './format.ts';

/** What a command prints after it has finished. Exit codes: 0 success, 1 failure, 2 wrong arguments. */
export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface CommandContext {
  db: Db;
  reservedNames: readonly string[];
  /** @throws OperatorError if the file of the treasury secret is damaged */
  openTreasury: () => TreasuryContext;
  allowHttpMints: boolean;
  clock: Clock;
}

export type CommandIo = Pick<ProcessIo, 'stdin' | 'signal' | 'write' | 'reportProgress'>;

export type CommandHandler = (context: CommandContext, io: CommandIo) => Promise<CommandResult>;

export interface OperatorCommand {
  name: string;
  usage: string;
  /** Runs before the database is opened. @throws UsageError, or an error of `parseArgs` from node:util */
  parse(args: string[]): CommandHandler;
}

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Calls `parse`. Returns the usage text instead for `--help` and for wrong arguments. */
export function parseArguments<T>(
  usageLines: string,
  args: readonly string[],
  parse: () => T,
): T | CommandResult {
  const usage = `Usage: nutpost <command>\n\n${usageLines}`;
  if (args.includes('--help') || args.includes('-h')) {
    return { exitCode: 0, stdout: usage, stderr: '' };
  }
  try {
    return parse();
  } catch (error) {
    const isParseError =
      error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS_/.test(String(error.code));
    if (error instanceof UsageError || isParseError) {
      return { exitCode: 2, stdout: '', stderr: `${error.message}\n\n${usage}` };
    }
    throw error;
  }
}

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
export function parseAmountSat(text: string | undefined): number | null {
  if (text === undefined) {
    return null;
  }
  if (!/^[1-9]\d{0,15}$/.test(text)) {
    throw new UsageError(`--amount must be a whole number of sats (got '${text}').`);
  }
  return Number(text);
}

export interface CommandReport {
  isSuccess: boolean;
  json: object;
  lines: string[];
}

/** Prints the report for scripts (`--json`) on standard output, or for people: a failure on standard error. */
export function createReportResult(
  { isSuccess, json, lines }: CommandReport,
  isJson: boolean,
): CommandResult {
  const text = isJson ? formatJson(json) : joinLines(...lines);
  return isSuccess || isJson
    ? { exitCode: isSuccess ? 0 : 1, stdout: text, stderr: '' }
    : { exitCode: 1, stdout: '', stderr: text };
}

const PROGRESS_INTERVAL_MS = 10_000;

export class ProcessIo {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #closeController = new AbortController();
  #lastProgressAtMs: number;

  constructor(streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>) {
    this.#streams = streams;
    // A terminal shows the first progress line immediately.
    this.#lastProgressAtMs = streams.stderr.isTTY ? -Infinity : performance.now();
    streams.stdout.on('error', (error: NodeJS.ErrnoException) => {
      const problem =
        error.code === 'EPIPE' ? 'was closed' : `could not be written (${error.message})`;
      this.#closeController.abort(
        new OperatorError(`Standard output ${problem} before the command finished.`),
      );
    });
  }

  /** Null if standard input is a terminal. */
  get stdin(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  /** Aborted when standard output is closed or its disk is full. */
  get signal(): AbortSignal {
    return this.#closeController.signal;
  }

  /** Resolves when standard output can take more. @throws the abort reason of `signal` */
  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#streams.stdout.write(text)) {
      await once(this.#streams.stdout, 'drain', { signal: this.signal }).catch(() => {
        this.signal.throwIfAborted();
      });
    }
  }

  /** Shows a line of progress, unless the last one is recent. */
  reportProgress(line: string): void {
    if (performance.now() - this.#lastProgressAtMs >= PROGRESS_INTERVAL_MS) {
      this.#lastProgressAtMs = performance.now();
      this.#streams.stderr.write(`${line}\n`);
    }
  }
}
