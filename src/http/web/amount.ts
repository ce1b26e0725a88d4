import { containsSecretKey } from './secret-key.ts';
import type { Message, TextKey } from './translation.ts';

export interface SatRange {
  minSat: number;
  maxSat: number;
}

export interface FiatRate {
  /** The code of the currency (ISO 4217). */
  currency: string;
  satsPerUnit: number;
}

/** Returns the amount in sats, or what is wrong with it. */
export function validateAmount(
  text: string,
  { minSat, maxSat }: SatRange,
  unit = '',
  rates: readonly FiatRate[] = [],
): number | Message {
  if (containsSecretKey(text)) {
    return { key: 'script.common.secretKey' };
  }
  const amount = parseAmountInSats(text, unit, rates);
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
  const trimmed = replaceFullWidth(text).trim();
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

/** Like {@link parseAmount}, but the text is in sats (`unit` is `sats` or empty) or in a currency. Returns sats. */
export function parseAmountInSats(
  text: string,
  unit: string,
  rates: readonly FiatRate[],
): number | TextKey {
  if (isSats(unit)) {
    return parseAmount(text);
  }
  const rate = rates.find(({ currency }) => currency === unit);
  if (rate === undefined) {
    return 'amount.noExchangeRate';
  }
  // One or two digits after the last separator are decimal places; three are a group.
  const [, whole = text, decimals = '0'] =
    /^(.*\d)[.,](\d{1,2})$/.exec(replaceFullWidth(text).trim()) ?? [];
  const amount = parseAmount(whole);
  if (typeof amount !== 'number') {
    return amount === 'amount.fraction' ? 'amount.decimals' : amount;
  }
  return Math.round((amount + Number(`0.${decimals}`)) * rate.satsPerUnit);
}

/** Replaces the wide digits and separators of Japanese and Chinese keyboards. NFKC alone would make `102` of `10²`. */
function replaceFullWidth(text: string): string {
  return text.replace(/[０-９．，]/g, (character) => character.normalize('NFKC'));
}

/** Returns whether amounts in the unit can be converted. */
export function hasUnit(unit: string, rates: readonly FiatRate[] = []): boolean {
  return isSats(unit) || rates.some(({ currency }) => currency === unit);
}

function isSats(unit: string): boolean {
  return unit === '' || unit === 'sats';
}

/** Such as `€1.29 or $1.41`. Small amounts get more digits. @param language BCP 47 */
export function formatInCurrencies(
  sats: number,
  rates: readonly FiatRate[],
  language: string,
): string {
  const digits = {
    minimumSignificantDigits: 2,
    maximumSignificantDigits: 2,
    roundingPriority: 'morePrecision',
  } as const;
  const amounts = rates.map(({ currency, satsPerUnit }) =>
    (sats / satsPerUnit).toLocaleString(language, { style: 'currency', currency, ...digits }),
  );
  return new Intl.ListFormat(language, { type: 'disjunction' }).format(amounts);
}
