import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import type { Clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Db } from '../database/transaction.ts';
import { parseRecipientAddress } from '../recipients/lightning-address.ts';
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
  systemUser: string;
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
  Operands extends OperandParsers,
  Context,
> {
  name: string;
  /** The arguments in the usage; by default, the operands. */
  synopsis?: string;
  description: string;
  options?: Options;
  operands?: Operands;
  /** Called before the database is opened. @throws UsageError */
  check?: (options: ParsedOptions<Options>, operands: ParsedOperands<Operands>) => void;
  run: (
    context: Context,
    options: ParsedOptions<Options & { json: 'flag' }>,
    operands: ParsedOperands<Operands>,
    io: CommandIo,
  ) => Promise<CommandReport>;
}

/** Defines a command, which accepts `--json` beside its own options. */
export function defineCommand<
  Options extends OptionParsers = Record<never, 'flag'>,
  const Operands extends OperandParsers = [],
  Context = CommandContext,
>(definition: CommandDefinition<Options, Operands, Context>): Command<Context> {
  const { name, description, check, run } = definition;
  const { options = {} as Options, operands = [] as unknown as Operands } = definition;
  const { synopsis = operands.map(([label]) => label).join(' ') } = definition;
  return {
    name,
    usage: formatUsage(`${name} ${synopsis}`.trimEnd(), description),
    parse: (args) => {
      const parsed = parseArguments(args, { ...options, json: 'flag' }, operands);
      check?.(parsed.options, parsed.operands);
      return async (context, io) => {
        const report = await run(context, parsed.options, parsed.operands, io);
        return renderReport(report, Boolean(parsed.options.json));
      };
    },
  };
}

/** Describes a command in the list of commands. */
export function formatUsage(command: string, description: string): string {
  const indent = ' '.repeat(11);
  const start = command.length <= 8 ? command.padEnd(9) : `${command}\n${indent}`;
  const lines = description.match(/\S.{0,87}(?= |$)/g) ?? [];
  return `  ${start}${lines.join(`\n${indent}`)}\n`;
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

/** Parses the text of an argument. `name`: of the option with its dashes, or of the operand, for messages. */
type ArgumentParser = (text: string, name: string) => unknown;

/** `flag`: the option has no text. */
export type OptionParsers = Readonly<Record<string, 'flag' | ArgumentParser>>;

/** The names are those in the usage, such as `<file>`. One like `[name]` is optional. */
type OperandParsers = readonly (readonly [name: string, parse: ArgumentParser])[];

/** A missing option is null, or false if it is a flag. */
type ParsedOptions<Options extends OptionParsers> = {
  readonly [Name in keyof Options]: Options[Name] extends (...args: never[]) => infer Value
    ? Value | null
    : boolean;
};

/** A missing operand is null. */
type ParsedOperands<Operands extends OperandParsers> = {
  readonly [Index in keyof Operands]:
    | ReturnType<Operands[Index][1]>
    | (Operands[Index][0] extends `[${string}` ? null : never);
};

/** @throws UsageError, or an error of `parseArgs` from node:util */
export function parseArguments<
  Options extends OptionParsers,
  const Operands extends OperandParsers,
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
  const isIncomplete = operands.slice(texts.length).some(([name]) => name.startsWith('<'));
  if (isIncomplete || texts.includes('') || texts.length > operands.length) {
    const names = operands.map(([name]) => name).join(' and ');
    throw new UsageError(`Give ${names}, and nothing else but options.`);
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
    operands: operands.map(([name, parse], index) => {
      const text = texts[index];
      return text === undefined ? null : parse(text, name);
    }) as ParsedOperands<Operands>,
  };
}

/** @throws UsageError with what to print, for `--help` and for wrong arguments */
export function parseOrExplain<T>(usageLines: string, args: readonly string[], parse: () => T): T {
  const text = `Usage: nutpost <command>\n\n${usageLines}\n${JSON_HINT}\n`;
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

/** The last line of each usage. */
export const JSON_HINT = 'All commands except serve and demo accept --json, for scripts.';

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
  const text = joinLines(isJson ? [formatJson(json, 2)] : lines);
  if (output !== undefined) {
    return { exitCode, stdout: output, stderr: text };
  }
  return isSuccess || isJson
    ? { exitCode, stdout: text, stderr: '' }
    : { exitCode, stdout: '', stderr: text };
}
