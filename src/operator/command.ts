import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Db } from '../database/transaction.ts';
import type { AuditActor } from '../recipients/audit-store.ts';
import { parseRecipientAddress } from '../recipients/lightning-address.ts';
import type { TreasuryContext } from '../usernames/treasury.ts';
import { formatJson, joinLines } from './format.ts';
import type { CommandIo } from './process-io.ts';

/** What a command prints when it has finished. Exit codes: 0 success, 1 failure, 2 wrong arguments. */
export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** What a command has done: `json` for scripts (`--json`), `lines` for people. */
export interface CommandReport {
  isSuccess: boolean;
  json: object;
  lines: string[];
  /** Data, the rest of which `CommandIo.write` has written. The report itself then goes to standard error. */
  output?: string;
}

export interface CommandContext {
  config: Config;
  db: Db;
  /** Who runs the command, for the audit trail. */
  actor: AuditActor;
  /** @throws OperatorError if the file of the treasury secret is damaged */
  openTreasury: () => TreasuryContext;
  clock: Clock;
}

export type CommandHandler<Context = CommandContext> = (
  context: Context,
  io: CommandIo,
) => Promise<CommandResult>;

export interface Command<Context = CommandContext> {
  /** One or two words, such as `user show`. */
  name: string;
  usage: string;
  /** @throws UsageError, or an error of `parseArgs` from node:util */
  parse(args: readonly string[]): CommandHandler<Context>;
}

interface CommandDefinition<
  Options extends OptionParsers,
  Operands extends readonly string[],
  Context,
> {
  name: string;
  usage: string;
  options?: Options;
  /** As in the usage, such as `<file>`. The text of an optional one, such as `[name]`, is empty if it is missing. */
  operands?: Operands;
  /** Called before the database is opened. @throws UsageError */
  parse: (
    options: ParsedOptions<Options & { json: 'flag' }>,
    operands: ParsedOperands<Operands>,
  ) => (context: Context, io: CommandIo) => Promise<CommandReport>;
}

/** Defines a command, which accepts `--json` beside its own options. */
export function defineCommand<
  Options extends OptionParsers = Record<never, 'flag'>,
  const Operands extends readonly string[] = [],
  Context = CommandContext,
>(definition: CommandDefinition<Options, Operands, Context>): Command<Context> {
  const { name, usage, options = {} as Options, operands = [] as unknown as Operands } = definition;
  return {
    name,
    usage,
    parse: (args) => {
      const parsed = parseArguments(args, { ...options, json: 'flag' }, operands);
      const run = definition.parse(parsed.options, parsed.operands);
      const isJson = Boolean(parsed.options.json);
      return async (context, io) => renderReport(await run(context, io), isJson);
    },
  };
}

/** The arguments are wrong, or ask for the usage. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** What to print instead of running the command. */
  readonly result: CommandResult;

  constructor(message: string, result = { exitCode: 2, stdout: '', stderr: `${message}\n` }) {
    super(message);
    this.result = result;
  }
}

/** How to parse the text of each option; `flag` for options without one. */
export type OptionParsers = Readonly<
  Record<string, 'flag' | ((text: string, option: string) => unknown)>
>;

/** A missing option is null, or false if it is a flag. */
type ParsedOptions<Options extends OptionParsers> = {
  readonly [Name in keyof Options]: Options[Name] extends (...args: never[]) => infer Value
    ? Value | null
    : boolean;
};

type ParsedOperands<Operands extends readonly string[]> = {
  readonly [Index in keyof Operands]: string;
};

/** @throws UsageError, or an error of `parseArgs` from node:util */
export function parseArguments<
  Options extends OptionParsers,
  const Operands extends readonly string[],
>(args: readonly string[], options: Options, operands: Operands) {
  const types = Object.entries(options).map(([name, parser]) => {
    return [name, { type: parser === 'flag' ? 'boolean' : 'string' }] as const;
  });
  const { values, positionals } = parseArgs({
    args: [...args],
    options: Object.fromEntries(types),
    allowPositionals: operands.length > 0,
  });
  const texts = positionals.map((text) => text.trim());
  const isIncomplete = operands.slice(texts.length).some((name) => name.startsWith('<'));
  if (isIncomplete || texts.includes('') || texts.length > operands.length) {
    throw new UsageError(`Give ${operands.join(' and ')}, and nothing else but options.`);
  }
  const parsed = Object.entries(options).map(([name, parse]) => {
    const value = values[name];
    if (parse === 'flag') {
      return [name, value === true];
    }
    return [name, typeof value === 'string' ? parse(value, `--${name}`) : null];
  });
  return {
    options: Object.fromEntries(parsed) as ParsedOptions<Options>,
    operands: operands.map((_, index) => texts[index] ?? '') as ParsedOperands<Operands>,
  };
}

/** @throws UsageError with what to print, for `--help` and for wrong arguments */
export function parseOrExplain<T>(usageLines: string, args: readonly string[], parse: () => T): T {
  const text = `Usage: nutpost <command>\n\n${usageLines}`;
  if (args.includes('--help') || args.includes('-h')) {
    throw new UsageError('', { exitCode: 0, stdout: text, stderr: '' });
  }
  try {
    return parse();
  } catch (error) {
    const isParseError =
      error instanceof Error && 'code' in error && /^ERR_PARSE_ARGS_/.test(String(error.code));
    if (error instanceof UsageError || isParseError) {
      const { message } = error;
      throw new UsageError(message, { exitCode: 2, stdout: '', stderr: `${message}\n\n${text}` });
    }
    throw error;
  }
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

/** Only the lines of a failure go to standard error, unless the command has written data to standard output. */
function renderReport(report: CommandReport, isJson: boolean): CommandResult {
  const { isSuccess, json, lines, output } = report;
  const exitCode = isSuccess ? 0 : 1;
  const text = isJson ? formatJson(json) : joinLines(lines);
  if (output !== undefined) {
    return { exitCode, stdout: output, stderr: text };
  }
  return isSuccess || isJson
    ? { exitCode, stdout: text, stderr: '' }
    : { exitCode, stdout: '', stderr: text };
}
