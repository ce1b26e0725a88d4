import { once } from 'node:events';
import * as nip19 from 'nostr-tools/nip19';
import type { Clock } from '../clock.ts';
import type { CommandConfig } from '../config.ts';
import type { Db } from '../database/transaction.ts';
import { OperatorError } from '../errors.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { AlertTarget } from '../net/alert-target.ts';
import { normaliseMintUrl } from '../net/server-url.ts';
import type { AuditActor } from '../recipients/audit-store.ts';
import { parseRecipientAddress } from '../recipients/lightning-address.ts';
import type { TreasuryContext } from '../usernames/treasury.ts';
import { formatJson, joinLines } from './format.ts';

/** What a command prints when it has finished. Exit codes: 0 success, 1 failure, 2 wrong arguments. */
export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface CommandContext {
  db: Db;
  /** Who runs the command, for the audit trail. */
  actor: AuditActor;
  /** The names in the setting USERNAME_RESERVED. */
  reservedNames: readonly string[];
  /** @throws OperatorError if the file of the treasury secret is damaged */
  openTreasury: () => TreasuryContext;
  allowHttpMints: boolean;
  mintPolicy: MintPolicy;
  usernameGraceMs: number;
  /** The canonical origin, for links. */
  publicOrigin: string;
  /** What applies to users who chose nothing else. The mint is empty if DEFAULT_MINT_URL is not set. */
  recipientDefaults: { mintUrl: string; lockQuotes: boolean };
  /** Null if ALERT_URL is not set. */
  alertTarget: AlertTarget | null;
  clock: Clock;
}

export type CommandIo = Pick<ProcessIo, 'stdin' | 'signal' | 'write' | 'reportProgress'>;

export type CommandHandler = (context: CommandContext, io: CommandIo) => Promise<CommandResult>;

export interface OperatorCommand {
  name: string;
  usage: string;
  /** Called before the database is opened. @throws UsageError, or an error of `parseArgs` from node:util */
  parse(args: string[]): CommandHandler;
}

/** A command that opens the database itself, or needs none. */
export interface ConfigCommand {
  name: string;
  usage: string;
  /** @throws UsageError, or an error of `parseArgs` from node:util */
  parse(args: string[]): {
    run: (config: CommandConfig, io: CommandIo) => Promise<CommandReport>;
    isJson: boolean;
  };
}

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `usage`: what to print instead of running the command, for `--help` and for wrong arguments. */
export type ParsedArguments<T> =
  | { outcome: 'parsed'; value: T }
  | { outcome: 'usage'; usage: CommandResult };

export function parseArguments<T>(
  usageLines: string,
  args: readonly string[],
  parse: () => T,
): ParsedArguments<T> {
  const text = `Usage: nutpost <command>\n\n${usageLines}`;
  if (args.includes('--help') || args.includes('-h')) {
    return { outcome: 'usage', usage: { exitCode: 0, stdout: text, stderr: '' } };
  }
  try {
    return { outcome: 'parsed', value: parse() };
  } catch (error) {
    const isParseError =
      error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS_/.test(String(error.code));
    if (error instanceof UsageError || isParseError) {
      const stderr = `${error.message}\n\n${text}`;
      return { outcome: 'usage', usage: { exitCode: 2, stdout: '', stderr } };
    }
    throw error;
  }
}

export function requireSingleOperand(operands: string[], usageMessage: string): string {
  const [operand = '', ...others] = operands;
  if (operand.trim() === '' || others.length > 0) {
    throw new UsageError(usageMessage);
  }
  return operand.trim();
}

/** Parses an amount, by default `--amount`. Returns null if the option is missing. */
export function parseAmountSat(text: string | undefined, option = '--amount'): number | null {
  if (text === undefined) {
    return null;
  }
  // All sats that will ever exist are a number of 16 digits.
  if (!/^[1-9]\d{0,15}$/.test(text)) {
    throw new UsageError(`${option} must be a whole number of sats (got '${text}').`);
  }
  return Number(text);
}

/** Returns the first operand of a command that has several actions. Throws UsageError for options of another action. */
export function parseAction<Action extends string>(
  optionsByAction: Readonly<Record<Action, readonly string[]>>,
  text: string | undefined,
  values: Readonly<Record<string, unknown>>,
): Action {
  const actions = Object.keys(optionsByAction) as Action[];
  const action = actions.find((name) => name === text);
  if (action === undefined) {
    throw new UsageError(`Give one of these actions: ${actions.join(', ')}.`);
  }
  const isWrong = (option: string) =>
    option !== 'json' && !optionsByAction[action].includes(option);
  const wrongOption = Object.keys(values).find(isWrong);
  if (wrongOption !== undefined) {
    throw new UsageError(`--${wrongOption} is not for \`${action}\`.`);
  }
  return action;
}

/** Returns the npub of a key in hex, and any other text unchanged. 64 hexadecimal digits are always a key. */
export function encodeHexKey(text: string): string {
  return /^[0-9a-f]{64}$/i.test(text) ? nip19.npubEncode(text.toLowerCase()) : text;
}

/** Parses an npub or a key in hex. Returns null for other texts. */
export function parsePubkey(text: string): string | null {
  const parsed = parseRecipientAddress(encodeHexKey(text));
  return parsed.kind === 'pubkey' ? parsed.pubkey : null;
}

/** A line that cannot control a terminal. */
export const NOTE_PATTERN = /^\P{Cc}{1,500}$/u;

/** Parses a text about a user or a change, without white space around it. Returns null if the option is missing. */
export function parseNote(option: string, text: string | undefined): string | null {
  const note = text?.trim();
  if (note !== undefined && !NOTE_PATTERN.test(note)) {
    throw new UsageError(`${option} must be one line of at most 500 characters.`);
  }
  return note ?? null;
}

/** Parses `--page` of a list that is ordered by time. Returns the id of the last row before the page, or null. */
export function parsePageId(text: string | undefined): number | null {
  if (text !== undefined && !/^\d{1,15}$/.test(text)) {
    throw new UsageError(`--page must be what the previous page printed (got '${text}').`);
  }
  return text === undefined ? null : Number(text);
}

/** Parses `--limit`, the number of lines to print. */
export function parseLimit(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) {
    throw new UsageError(`--limit must be a number from 1 to 99999 (got '${text}').`);
  }
  return Number(text);
}

const TIME_PATTERN = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?$/;

/** Parses the UTC time of an option. Returns milliseconds since 1970; null if the option is missing. */
export function parseTime(option: string, text: string | undefined): number | null {
  if (text === undefined) {
    return null;
  }
  // JavaScript reads a date as UTC, but a date with a time as local time unless it ends in `Z`.
  const isLocalTime = text.includes('T') && !text.endsWith('Z');
  const timeMs = Date.parse(isLocalTime ? `${text}Z` : text);
  if (!TIME_PATTERN.test(text) || Number.isNaN(timeMs)) {
    throw new UsageError(`${option} must be a UTC time such as 2026-08-01T12:00 (got '${text}').`);
  }
  return timeMs;
}

/** Parses `--mint`, also if this service would not connect to the mint. Returns null if the option is missing. */
export function parseMintOption(text: string | undefined): string | null {
  const mintUrl = text === undefined ? null : normaliseMintUrl(text, { allowHttp: true });
  if (text !== undefined && mintUrl === null) {
    throw new UsageError(`--mint must be the URL of a mint (got '${text}').`);
  }
  return mintUrl;
}

/** What a command has done: `json` for scripts (`--json`), `lines` for people. */
export interface CommandReport {
  isSuccess: boolean;
  json: object;
  lines: string[];
}

/**
 * Reports a page of a list. There are more rows than `limit` if the list continues after it.
 *
 * @param name of the rows, in the plural
 * @param toPageOption returns what `--page` takes to continue the list after a row
 */
export function reportPage<Row>(
  rows: readonly Row[],
  { name, limit, nowMs }: { name: string; limit: number; nowMs: number },
  toPageOption: (row: Row) => string,
  toLines: (row: Row) => string | string[],
): CommandReport {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  const nextPage = last && toPageOption(last);
  const lines = page.length === 0 ? [`No ${name}.`] : page.flatMap(toLines);
  if (nextPage !== undefined) {
    lines.push(`There are more: repeat the command with --page ${nextPage}`);
  }
  return { isSuccess: true, json: { nowMs, [name]: page, nextPage }, lines };
}

/** Renders a report. Only the lines of a failure go to standard error. */
export function renderReport(report: CommandReport, isJson: boolean): CommandResult {
  const exitCode = report.isSuccess ? 0 : 1;
  if (isJson) {
    return { exitCode, stdout: formatJson(report.json), stderr: '' };
  }
  const text = joinLines(...report.lines);
  return { exitCode, stdout: report.isSuccess ? text : '', stderr: report.isSuccess ? '' : text };
}

const PROGRESS_INTERVAL_MS = 10_000;

export class ProcessIo {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #outputFailure = new AbortController();
  #lastProgressAtMs: number;

  constructor(streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>) {
    this.#streams = streams;
    // A terminal shows the first progress line immediately.
    this.#lastProgressAtMs = streams.stderr.isTTY ? -Infinity : performance.now();
    streams.stdout.on('error', (error: NodeJS.ErrnoException) => {
      const problem =
        error.code === 'EPIPE' ? 'was closed' : `could not be written (${error.message})`;
      const message = `Standard output ${problem} before the command finished.`;
      this.#outputFailure.abort(new OperatorError(message));
    });
  }

  /** Null if standard input is a terminal. */
  get stdin(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  /** Aborted when standard output is closed or its disk is full. */
  get signal(): AbortSignal {
    return this.#outputFailure.signal;
  }

  /** Resolves when standard output can take more. @throws the abort reason of `signal` */
  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#streams.stdout.write(text)) {
      await once(this.#streams.stdout, 'drain', { signal: this.signal }).catch(() => {
        // `once` rejects with another error than the abort reason.
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
