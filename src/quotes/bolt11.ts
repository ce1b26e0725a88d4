import { bech32 } from '@scure/base';
import { MAX_QUOTE_LIFETIME_SECONDS } from './limits.ts';

export interface DecodedInvoice {
  /** 64 hex characters. */
  paymentHash: string;
  /** Null if the payer chooses the amount. */
  amountMsat: number | null;
  createdAtSeconds: number;
  expiresAtSeconds: number;
}

/** Decodes a BOLT 11 invoice without checking its signature. Returns null if the invoice is invalid. */
export function decodeInvoice(request: string): DecodedInvoice | null {
  const decoded = bech32.decodeUnsafe(request, NO_LENGTH_LIMIT);
  const amountGroups = HUMAN_READABLE_PART.exec(decoded?.prefix ?? '')?.groups;
  if (decoded === undefined || amountGroups === undefined) {
    return null;
  }
  const amountMsat = parseAmountMsat(amountGroups);
  const fields = parseTaggedFields(decoded.words);
  if (amountMsat === 'invalid' || fields === null || !Number.isSafeInteger(fields.expirySeconds)) {
    return null;
  }
  const { paymentHash, expirySeconds } = fields;
  const createdAtSeconds = wordsToNumber(decoded.words, 0, TIMESTAMP_WORDS);
  const expiresAtSeconds = createdAtSeconds + expirySeconds;
  return { paymentHash, amountMsat, createdAtSeconds, expiresAtSeconds };
}

const NO_LENGTH_LIMIT = false;
const HUMAN_READABLE_PART = /^ln(?:bcrt|bc|tbs|tb|sb)(?:(?<value>\d+)(?<multiplier>[munp])?)?$/;
const MSAT_PER_BITCOIN = 100_000_000_000n;
const MAX_AMOUNT_MSAT = 21_000_000n * MSAT_PER_BITCOIN;
const MULTIPLIER_DIVISORS: Readonly<Record<string, bigint>> = {
  m: 1_000n,
  u: 1_000_000n,
  n: 1_000_000_000n,
  p: 1_000_000_000_000n,
};

function parseAmountMsat(groups: Record<string, string | undefined>): number | null | 'invalid' {
  const { value, multiplier = '' } = groups;
  if (value === undefined) {
    return null;
  }
  const scaledMsat = BigInt(value) * MSAT_PER_BITCOIN;
  const divisor = MULTIPLIER_DIVISORS[multiplier] ?? 1n;
  const amountMsat = scaledMsat / divisor;
  const isValid = scaledMsat % divisor === 0n && amountMsat <= MAX_AMOUNT_MSAT;
  return isValid ? Number(amountMsat) : 'invalid';
}

// Words are bech32 characters of five bits.
const TIMESTAMP_WORDS = 7;
const SIGNATURE_WORDS = 104;
const FIELD_HEADER_WORDS = 3; // one for the type of a field, two for its length
const FIELD_TYPE_PAYMENT_HASH = 1;
const FIELD_TYPE_EXPIRY = 6;
const DEFAULT_EXPIRY_SECONDS = 3600;

/** Returns null if a field is longer than the invoice or the payment hash is missing. Uses the first of repeated fields. */
function parseTaggedFields(words: readonly number[]) {
  const fieldsEnd = words.length - SIGNATURE_WORDS;
  let paymentHash: string | null = null;
  let expirySeconds: number | null = null;
  let fieldStart = TIMESTAMP_WORDS;
  while (fieldStart < fieldsEnd) {
    const type = words[fieldStart] ?? 0;
    const valueStart = fieldStart + FIELD_HEADER_WORDS;
    const valueEnd = valueStart + wordsToNumber(words, fieldStart + 1, valueStart);
    if (valueEnd > fieldsEnd) {
      return null;
    }
    if (type === FIELD_TYPE_PAYMENT_HASH && paymentHash === null) {
      const hash = bech32.fromWordsUnsafe(words.slice(valueStart, valueEnd));
      if (hash?.length !== 32) {
        return null;
      }
      paymentHash = Buffer.from(hash).toString('hex');
    } else if (type === FIELD_TYPE_EXPIRY) {
      expirySeconds ??= wordsToNumber(words, valueStart, valueEnd);
    }
    fieldStart = valueEnd;
  }
  return fieldStart === fieldsEnd && paymentHash !== null
    ? { paymentHash, expirySeconds: expirySeconds ?? DEFAULT_EXPIRY_SECONDS }
    : null;
}

function wordsToNumber(words: readonly number[], start: number, end: number): number {
  return words.slice(start, end).reduce((number, word) => number * 32 + word, 0);
}

/** A larger `expiry` is in milliseconds, which some mints return by mistake. */
const MAX_PLAUSIBLE_UNIX_SECONDS = 100_000_000_000;

/**
 * Returns when a new quote expires: at the mint's `expiry` (NUT-23) if that is later than the creation of the invoice,
 * otherwise when the invoice expires. For "no expiry", cdk returns 0 and Nutshell null.
 */
export function resolveQuoteExpirySeconds(
  mintExpiry: number | null,
  { createdAtSeconds, expiresAtSeconds }: DecodedInvoice,
  nowSeconds: number,
): number {
  const unitsPerSecond = Number(mintExpiry) > MAX_PLAUSIBLE_UNIX_SECONDS ? 1000 : 1;
  const mintExpirySeconds = Math.floor(Number(mintExpiry) / unitsPerSecond);
  const expirySeconds = mintExpirySeconds > createdAtSeconds ? mintExpirySeconds : expiresAtSeconds;
  return Math.min(expirySeconds, nowSeconds + MAX_QUOTE_LIFETIME_SECONDS);
}
