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

/** Returns the placeholders and tags of a message, and the forms of each plural. */
function parseMessage(message: string, language: string) {
  const names = new Set<string>();
  const plurals: string[][] = [];
  JSON.stringify(new IntlMessageFormat(message, language).getAst(), (_key, node) => {
    const { type, value, options } = node ?? {};
    // Type 0 is text, and its value is a part of the message.
    if (typeof value === 'string' && type > 0) {
      names.add(value);
    }
    if (options !== undefined) {
      plurals.push(Object.keys(options));
    }
    return node;
  });
  return { placeholders: [...names].toSorted(), plurals };
}

it.each(languages)('$code has each text, with the same placeholders', ({ code, texts }) => {
  expect(Object.keys(texts)).toEqual(Object.keys(english));
  for (const [key, message] of Object.entries(english)) {
    const { placeholders, plurals } = parseMessage(message, 'en');
    const translated = parseMessage(texts[key] ?? '', code);
    expect(translated.placeholders, key).toEqual(placeholders);
    expect(translated.plurals.length, key).toBe(plurals.length);
  }
});

it.each(languages)('$code has the plural forms of its language', ({ code, texts }) => {
  const { pluralCategories } = new Intl.PluralRules(code).resolvedOptions();
  const forms = pluralCategories.includes('one') ? ['one', 'other'] : ['other'];
  for (const [key, message] of Object.entries(texts)) {
    for (const plural of parseMessage(message, code).plurals) {
      expect(plural, key).toEqual(forms);
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
