import { normaliseMintUrl } from '../net/server-url.ts';
import { UsageError } from './command.ts';

// Parse the texts of options. `option` is the name with its dashes, for messages.

export function parseIntegerFrom(min: number, max: number) {
  return (text: string, option: string): number => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) {
      throw new UsageError(`${option} must be a number from ${min} to ${max} (got '${text}').`);
    }
    return value;
  };
}

/** Parses the number of lines to print. */
export const parseLimit = parseIntegerFrom(1, 99_999);

/** Parses one of these words, in upper or lower case. */
export function parseChoice<Choice extends string>(...choices: Choice[]) {
  return (text: string, option: string): Choice => {
    const choice = choices.find((name) => name.toLowerCase() === text.toLowerCase());
    if (choice === undefined) {
      throw new UsageError(`${option} must be one of ${choices.join(', ')} (got '${text}').`);
    }
    return choice;
  };
}

export function parseAmountSat(text: string, option: string): number {
  // All sats that will ever exist are a number of 16 digits.
  if (!/^[1-9]\d{0,15}$/.test(text)) {
    throw new UsageError(`${option} must be a whole number of sats (got '${text}').`);
  }
  return Number(text);
}

/** A line that cannot control a terminal. */
export const NOTE_PATTERN = /^\P{Cc}{1,500}$/u;

/** Parses a text about a user or a change, without white space around it. */
export function parseNote(text: string, option: string): string {
  const note = text.trim();
  if (!NOTE_PATTERN.test(note)) {
    throw new UsageError(`${option} must be one line of at most 500 characters.`);
  }
  return note;
}

/** Parses where a list that is ordered by time continues: the id of the last row before the page. */
export function parsePageId(text: string, option: string): number {
  if (!/^\d{1,15}$/.test(text)) {
    throw new UsageError(`${option} must be what the previous page printed (got '${text}').`);
  }
  return Number(text);
}

const TIME_PATTERN = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?$/;

/** Parses a UTC time. Returns milliseconds since 1970. */
export function parseTime(text: string, option: string): number {
  // JavaScript reads a date as UTC, but a date with a time as local time unless it ends in `Z`.
  const isLocalTime = text.includes('T') && !text.endsWith('Z');
  const timeMs = Date.parse(isLocalTime ? `${text}Z` : text);
  // JavaScript reads 31 February as 3 March.
  const isDate = timeMs >= 0 && new Date(timeMs).toISOString().startsWith(text.slice(0, 10));
  if (!TIME_PATTERN.test(text) || !isDate) {
    throw new UsageError(`${option} must be a UTC time such as 2026-08-01T12:00 (got '${text}').`);
  }
  return timeMs;
}

/** Parses the URL of a mint, also if this service would not connect to it. */
export function parseMintUrl(text: string, option: string): string {
  const mintUrl = normaliseMintUrl(text, { allowHttp: true });
  if (mintUrl === null) {
    throw new UsageError(`${option} must be a URL such as https://mint.example (got '${text}').`);
  }
  return mintUrl;
}
