import { createTranslator } from '../translation.ts';
import { texts } from './texts.ts';

/** Translates the texts of the account page and of the page for collecting. */
export const { language, t, rich } = createTranslator(document.documentElement.lang, texts);

/** Returns the URL of another page in the language that the user chose. */
export function link(path: string): string {
  const chosen = new URLSearchParams(location.search).get('lang');
  return chosen === null ? path : `${path}?${new URLSearchParams({ lang: chosen })}`;
}
