import type { ExpectedOutput } from './examples.ts';

/** What differs from run to run, and what stands for it in a comparison; the order counts. */
const PASSING: readonly [RegExp, string][] = [
  [/\bnpub1[0-9a-z]*(…|\.\.\.)?/g, '<npub>'],
  [/\blnbc[0-9a-z]+(…|\.\.\.)?/g, '<invoice>'],
  [/\b(cashu[AB]|creq[AB]|eyJ)[\w.=-]*…?/g, '<token>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?/g, '<time>'],
  [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uuid>'],
  [/[\w.-]+-\d+-<uuid>/g, '<process>'],
  [/\b[0-9a-f]{64,66}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{6,}…/g, '<hex>'],
  [/\b\d[\d,.]* (ms|s|min|h|days?)\b/g, '<span>'],
  [/\((in )?<span>( ago)?\)/g, '(<when>)'],
  [/\b[12]\d{9}\b/g, '<seconds>'],
];

/** A line that stands for any number of lines. */
const ANY_LINES = /^[ \t]*(\.\.\.|…)$/;

/** Text in which what passes (times, keys, invoices, ids) is one and the same. */
function withoutPassing(text: string): string {
  return PASSING.reduce((so, [pattern, name]) => so.replace(pattern, name), text.trimEnd());
}

/** What was printed, made comparable with what a document shows of it. */
export function comparable(printed: string, { language }: ExpectedOutput): string {
  return `${withoutPassing(language === 'json' ? pretty(printed) : printed)}\n`;
}

/** A pattern of what a document shows, in which a line of three dots matches any lines. */
export function expected({ language, text }: ExpectedOutput): RegExp {
  const shown = withoutPassing(language === 'json' ? pretty(text) : text);
  const lines = shown
    .split('\n')
    .map((line) => (ANY_LINES.test(line) ? '(.*\n)*?' : `${RegExp.escape(line)}\n`));
  return new RegExp(`^${lines.join('')}$`);
}

function pretty(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2);
}
