import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyRequest } from 'fastify';
import type { TranslateMessage } from '../../notifications/message-text.ts';
import { removeSecretKeys } from './secret-key.ts';
import german from './texts/de.json' with { type: 'json' };
import english from './texts/en.json' with { type: 'json' };
import spanish from './texts/es.json' with { type: 'json' };
import french from './texts/fr.json' with { type: 'json' };
import japanese from './texts/ja.json' with { type: 'json' };
import portuguese from './texts/pt.json' with { type: 'json' };
import { createTranslator, type Texts, type Translator } from './translation.ts';

/** The language of a page. */
export interface PageLanguage extends Translator {
  /** Returns the URL of another page in the same language. */
  link: (path: string) => string;
  /** The same page in each language. */
  choices: { code: string; name: string; href: string }[];
  texts: Readonly<Texts>;
}

/** By BCP 47 code. */
const LANGUAGES = {
  en: prepareLanguage('en', english),
  de: prepareLanguage('de', german),
  es: prepareLanguage('es', spanish),
  fr: prepareLanguage('fr', french),
  ja: prepareLanguage('ja', japanese),
  pt: prepareLanguage('pt', portuguese),
};

/**
 * Each page parses and repeats its query for each language, which takes seconds for the longest URL of a request. The
 * longest payment link has about 3,300 characters.
 */
const MAX_URL_LENGTH = 4_000;

export const LANGUAGE_CODES = Object.keys(LANGUAGES) as (keyof typeof LANGUAGES)[];

function prepareLanguage(code: string, texts: Texts) {
  const name = new Intl.DisplayNames(code, { type: 'language' }).of(code) ?? code;
  return { ...createTranslator(code, texts), name, texts };
}

/** Chooses the language by the parameter `lang`, which the links of the page keep, or else by the browser's settings. */
export function choosePageLanguage({ url, headers }: FastifyRequest): PageLanguage {
  const { query } = splitUrl(url.length > MAX_URL_LENGTH ? '' : removeSecretKeys(url));
  const parameter = new URLSearchParams(query).get('lang');
  const chosen = LANGUAGE_CODES.find((code) => code === parameter);
  const code = chosen ?? negotiateLanguage(headers['accept-language']);
  return {
    ...LANGUAGES[code],
    link: (path) => (chosen === undefined ? path : setLanguage(path, chosen)),
    choices: LANGUAGE_CODES.map((choice) => ({
      code: choice,
      name: LANGUAGES[choice].name,
      href: setLanguage(`?${query}`, choice),
    })),
  };
}

/** Translates a message to a recipient. */
export const translateMessage: TranslateMessage = (language, key, values) =>
  LANGUAGES[LANGUAGE_CODES.find((code) => code === language) ?? 'en'].t(key, values);

/** Ignores regions, as in `de-AT`. Returns English if the browser prefers no language of the pages. */
function negotiateLanguage(header = '') {
  return negotiate(header.toLowerCase().replaceAll(/-\w+/g, ''), LANGUAGE_CODES) ?? 'en';
}

/** Sets the parameter `lang` of a path, of a query, or of both. */
function setLanguage(url: string, code: string): string {
  const { path, query } = splitUrl(url);
  const parameters = new URLSearchParams(query);
  parameters.set('lang', code);
  return `${path}?${parameters}`;
}

/** Works for any path of a request, such as `//[`, which is not a valid relative URL. */
function splitUrl(url: string): { path: string; query: string } {
  const [path = '', ...rest] = url.split('?');
  return { path, query: rest.join('?') };
}
