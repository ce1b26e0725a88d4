import type { ExpectedOutput } from './examples.ts';

/** Values that differ between runs, with their placeholders. Later patterns may match earlier placeholders. */
const VOLATILE_PATTERNS: readonly [RegExp, string][] = [
  [/\bnpub1[0-9a-z]*(…|\.\.\.)?/g, '<npub>'],
  [/\blnbc[0-9a-z]+(…|\.\.\.)?/g, '<invoice>'],
  [/\b(cashu[AB]|creq[AB]|eyJ)[\w.=-]*…?/g, '<token>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?/g, '<time>'],
  [/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uuid>'],
  [/[\w.-]+-\d+-<uuid>/g, '<process>'],
  [/\b[0-9a-f]{64,66}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{6,}…/g, '<hex>'],
  [/\b\d[\d,.]* (ms|s|min|h|days?)\b/g, '<duration>'],
  [/\((in )?<duration>( ago)?\)/g, '(<relative time>)'],
  [/\b[12]\d{9}\b/g, '<unix seconds>'],
];

function replaceVolatileValues(text: string): string {
  return VOLATILE_PATTERNS.reduce(
    (result, [pattern, placeholder]) => result.replace(pattern, placeholder),
    text.trimEnd(),
  );
}

export function normaliseOutput(printed: string, { language }: ExpectedOutput): string {
  return `${replaceVolatileValues(language === 'json' ? formatJson(printed) : printed)}\n`;
}

export function buildExpectedPattern({ language, text }: ExpectedOutput): RegExp {
  const documented = replaceVolatileValues(language === 'json' ? formatJson(text) : text);
  const linePatterns = documented
    .split('\n')
    .map((line) => (/^[ \t]*(\.\.\.|…)$/.test(line) ? '(.*\n)*?' : `${RegExp.escape(line)}\n`));
  return new RegExp(`^${linePatterns.join('')}$`);
}

function formatJson(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2);
}
