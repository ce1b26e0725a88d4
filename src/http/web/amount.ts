import { html } from 'htm/preact';
import type { ComponentChildren } from 'preact';
import { Sats } from './elements.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';

export interface SatRange {
  minSat: number;
  maxSat: number;
}

/** Returns the amount in sats, or what is wrong with it. */
export function validateAmount(
  text: string,
  { minSat, maxSat }: SatRange,
): number | ComponentChildren {
  if (containsSecretKey(text)) {
    return SECRET_KEY_WARNING;
  }
  const amount = parseAmount(text);
  if (typeof amount !== 'number') {
    return amount.problem;
  }
  if (amount < minSat) {
    return html`The amount must be at least <${Sats} amount=${minSat} />.`;
  }
  return amount > maxSat ? html`The amount must be at most <${Sats} amount=${maxSat} />.` : amount;
}

/** Digits in groups, such as `2.100`, `2,100`, `2’100`, `2 100` with any space, or `1,00,000` (India). */
const GROUPED_DIGITS = /^[1-9]\d{0,2}(?<separator>[\s.,'’])(?:\d{2,3}\k<separator>)*\d{3}$/;

/** Parses a whole number with or without separators between groups of digits. */
export function parseAmount(text: string): number | { problem: string } {
  const trimmed = text.trim();
  if (/^\d+$/.test(trimmed) || GROUPED_DIGITS.test(trimmed)) {
    return Number(trimmed.replace(/\D/g, ''));
  }
  if (trimmed === '') {
    return { problem: 'Enter an amount.' };
  }
  if (/^[-−]/.test(trimmed)) {
    return { problem: 'The amount must not be negative.' };
  }
  return /^[\d\s.,'’]+$/.test(trimmed)
    ? { problem: 'Enter a whole number of sats, without decimal places.' }
    : { problem: 'Enter the amount in digits only, without letters or signs.' };
}
