import { IntlMessageFormat } from 'intl-messageformat';
import type { ComponentChildren, VNode } from 'preact';
import type english from './texts/en.json';

// Used by the server and by the account page.

export type TextKey = keyof typeof english;

/** The texts of one language, as ICU messages. */
export type Texts = Record<TextKey, string>;

/** A text that is not translated yet. */
export interface Message {
  key: TextKey;
  values?: TextValues;
}

type TextValues = Record<string, string | number>;

/** Values may also be elements, and functions that create the elements for tags. */
type RichValues = Record<string, string | number | VNode | CreateElement>;
type CreateElement = (content: (string | VNode)[]) => VNode;

export interface Translator {
  /** BCP 47, such as `de`. */
  language: string;
  t: (key: TextKey, values?: TextValues) => string;
  /** Returns a text with elements in it. */
  rich: (key: TextKey, values: RichValues) => ComponentChildren;
}

export function createTranslator(language: string, texts: Readonly<Texts>): Translator {
  const formats = new Map<TextKey, IntlMessageFormat>();
  const getFormat = (key: TextKey) => {
    const format = formats.get(key) ?? new IntlMessageFormat(texts[key], language);
    formats.set(key, format);
    return format;
  };
  return {
    language,
    t: (key, values) => `${getFormat(key).format(values)}`,
    rich: (key, values) => getFormat(key).format<VNode>(values),
  };
}
