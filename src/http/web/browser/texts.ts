import type { TextKey, Texts } from '../translation.ts';

/** Those that the page needs, in its language. */
export const texts: Texts = JSON.parse(document.getElementById('texts')?.textContent ?? '{}');

/**
 * Returns a text of the scripts in the page's language. These have only simple placeholders, so that payment pages need no
 * library.
 */
export function getText(key: TextKey, values: Record<string, string | number> = {}): string {
  return texts[key].replaceAll(/\{(\w+)\}/g, (_, name: string) => `${values[name]}`);
}

/** Formats a number as the texts of the page do. */
export function formatNumber(number: number): string {
  return number.toLocaleString(document.documentElement.lang);
}
