import { containsSecretKey } from './secret-key.ts';
import type { Message, TextKey } from './translation.ts';

export interface SatRange {
  minSat: number;
  maxSat: number;
}

/** Returns the amount in sats, or what is wrong with it. */
export function validateAmount(text: string, { minSat, maxSat }: SatRange): number | Message {
  if (containsSecretKey(text)) {
    return { key: 'script.common.secretKey' };
  }
  const amount = parseAmount(text);
  if (typeof amount !== 'number') {
    return { key: amount };
  }
  if (amount < minSat) {
    return { key: 'amount.tooSmall', values: { amount: minSat } };
  }
  return amount > maxSat ? { key: 'amount.tooLarge', values: { amount: maxSat } } : amount;
}

/** Digits in groups, such as `2.100`, `2,100`, `2’100`, `2 100` with any space, or `1,00,000` (India). */
const GROUPED_DIGITS = /^[1-9]\d{0,2}(?<separator>[\s.,'’])(?:\d{2,3}\k<separator>)*\d{3}$/;

/** Parses a whole number with or without separators between groups of digits. Returns the key of a text if it is none. */
export function parseAmount(text: string): number | TextKey {
  const trimmed = text.trim();
  if (/^\d+$/.test(trimmed) || GROUPED_DIGITS.test(trimmed)) {
    return Number(trimmed.replace(/\D/g, ''));
  }
  if (trimmed === '') {
    return 'amount.missing';
  }
  if (/^[-−]/.test(trimmed)) {
    return 'amount.negative';
  }
  return /^[\d\s.,'’]+$/.test(trimmed) ? 'amount.fraction' : 'amount.notDigits';
}
