import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { IntlMessageFormat } from 'intl-messageformat';
import { expect, it } from 'vitest';
import english from '../../../../src/http/web/texts/en.json' with { type: 'json' };

const DIRECTORY = path.join(import.meta.dirname, '../../../../src/http/web/texts');

const files = await readdir(DIRECTORY);
const languages = await Promise.all(
  files.map(async (file) => {
    const texts: Record<string, string> = JSON.parse(
      await readFile(path.join(DIRECTORY, file), 'utf8'),
    );
    return { code: path.basename(file, '.json'), texts };
  }),
);

/** Returns the placeholders and tags of a message. */
function findPlaceholders(message: string, language: string): string[] {
  const names = new Set<string>();
  JSON.stringify(new IntlMessageFormat(message, language).getAst(), (_key, node) => {
    const { type, value, options } = node ?? {};
    // Type 0 is text, and its value is a part of the message. Options are those of a plural.
    if (typeof value === 'string' && type > 0) {
      names.add(options === undefined ? value : `${value} (plural)`);
    }
    return node;
  });
  return [...names].toSorted();
}

it.each(languages)('$code has each text, with the same placeholders', ({ code, texts }) => {
  expect(Object.keys(texts)).toEqual(Object.keys(english));
  for (const [key, message] of Object.entries(english)) {
    const placeholders = findPlaceholders(message, 'en');
    expect(findPlaceholders(texts[key] ?? '', code), key).toEqual(placeholders);
  }
});

it.each(languages)('$code has each plural form of its language', ({ code, texts }) => {
  const { pluralCategories } = new Intl.PluralRules(code).resolvedOptions();
  for (const [key, message] of Object.entries(texts)) {
    const plurals = message.match(/, plural, .*?\}\}/g) ?? [];
    for (const plural of plurals) {
      for (const form of ['other', ...pluralCategories.filter((name) => name === 'one')]) {
        expect(plural, key).toContain(`${form} {`);
      }
    }
  }
});

it.each(languages)('$code has only simple placeholders in texts of payment pages', ({ texts }) => {
  const simple = Object.entries(texts).filter(([key]) =>
    /^script\.(?:common|payment|invoice)\./.test(key),
  );
  for (const [key, message] of simple) {
    expect(message, key).not.toMatch(/[<>#']|\{\w+[^\w}]/);
  }
});
