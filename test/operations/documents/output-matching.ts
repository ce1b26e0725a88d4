import type { ExpectedOutput } from './examples.ts';

/** Values that differ between runs, and their placeholders. The order matters. */
const VOLATILE_PATTERNS: readonly [RegExp, string][] = [
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

/** A line that matches any number of lines. */
const ANY_LINES = /^[ \t]*(\.\.\.|…)$/;

/** Replaces values that differ between runs (times, keys, invoices, ids) with placeholders. */
function replaceVolatileValues(text: string): string {
  return VOLATILE_PATTERNS.reduce(
    (result, [pattern, placeholder]) => result.replace(pattern, placeholder),
    text.trimEnd(),
  );
}

/** Normalises printed output for the comparison with {@link buildExpectedPattern}. */
export function normaliseOutput(printed: string, { language }: ExpectedOutput): string {
  return `${replaceVolatileValues(language === 'json' ? formatJson(printed) : printed)}\n`;
}

/** Returns a pattern for output as shown in a document. A line of three dots matches any lines. */
export function buildExpectedPattern({ language, text }: ExpectedOutput): RegExp {
  const shown = replaceVolatileValues(language === 'json' ? formatJson(text) : text);
  const lines = shown
    .split('\n')
    .map((line) => (ANY_LINES.test(line) ? '(.*\n)*?' : `${RegExp.escape(line)}\n`));
  return new RegExp(`^${lines.join('')}$`);
}

function formatJson(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2);
}
