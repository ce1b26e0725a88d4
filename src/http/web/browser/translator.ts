import { createTranslator } from '../translation.ts';
import { texts } from './texts.ts';

/** Translates the texts of the account page and of the page for collecting. */
export const { language, t, rich } = createTranslator(document.documentElement.lang, texts);

/** Returns a text such as `Nov 29, 2026, 11:04 AM`. */
export function formatTime(ms: number): string {
  return new Date(ms).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'short' });
}

/** Returns the URL of another page, for a username, in the language that the user chose. */
export function link(path: string, name = ''): string {
  const lang = new URLSearchParams(location.search).get('lang') ?? '';
  const parameters = Object.entries({ name, lang }).filter(([, value]) => value !== '');
  return parameters.length === 0 ? path : `${path}?${new URLSearchParams(parameters)}`;
}
