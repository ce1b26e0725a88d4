import { bech32 } from '@scure/base';

/** Expiry of an invoice that names none (BOLT 11). */
const DEFAULT_EXPIRY_SECONDS = 3600;

/** The facts of a BOLT 11 invoice that this service relies on. */
export interface InvoiceFacts {
  /** 64 hex characters: what both ends of the payment know it by. */
  paymentHash: string;
  /** Null where the invoice leaves the amount to the payer. */
  amountMsat: number | null;
  /** Unix seconds. */
  createdAt: number;
  /** Unix seconds. */
  expiresAt: number;
}

/**
 * Reads a BOLT 11 payment request. Only what is relied on is put together: an invoice is read for each
 * that is handed out, and most of it is of no use here.
 *
 * @returns the facts, or null where the text is no valid invoice (checksum included)
 */
export function readInvoice(request: string): InvoiceFacts | null {
  const text = bech32.decodeUnsafe(request, false);
  const humanPart = HUMAN_PART.exec(text?.prefix ?? '')?.groups;
  if (text === undefined || humanPart === undefined) {
    return null;
  }
  const amountMsat = readAmount(humanPart);
  const fields = readFields(text.words);
  if (amountMsat === 'impossible' || fields === null) {
    return null;
  }
  const { createdAt, paymentHash, expirySeconds } = fields;
  const isKnown = paymentHash !== null && Number.isSafeInteger(expirySeconds);
  return isKnown
    ? { paymentHash, amountMsat, createdAt, expiresAt: createdAt + expirySeconds }
    : null;
}

/** The networks whose money an invoice can be for, and how much of it. */
const HUMAN_PART = /^ln(?:bcrt|bc|tbs|tb|sb)(?:(?<value>\d+)(?<multiplier>[munp])?)?$/;

const MSAT_PER_BITCOIN = 100_000_000_000n;

/** More than there is. */
const MAX_MSAT = 2_100_000_000_000_000_000n;

/** What a multiplier divides a bitcoin by. */
const DIVISORS: Readonly<Record<string, bigint>> = {
  m: 1_000n,
  u: 1_000_000n,
  n: 1_000_000_000n,
  p: 1_000_000_000_000n,
};

/** Null where it is left to the payer; impossible where there is no such amount. */
function readAmount({
  value,
  multiplier = '',
}: Record<string, string | undefined>): number | null | 'impossible' {
  if (value === undefined) {
    return null;
  }
  const total = BigInt(value) * MSAT_PER_BITCOIN;
  const divisor = DIVISORS[multiplier] ?? 1n;
  const amountMsat = total / divisor;
  return total % divisor === 0n && amountMsat <= MAX_MSAT ? Number(amountMsat) : 'impossible';
}

const TIMESTAMP_WORDS = 7;
const SIGNATURE_WORDS = 104;
const WORD_SIZE = 32;

/** A field has its type, its length in two words, and so many words. */
const FIELD_HEAD_WORDS = 3;

const FIELD_PAYMENT_HASH = 1;
const FIELD_EXPIRY = 6;

/** 32 bytes. */
const PAYMENT_HASH_WORDS = 52;

/**
 * Fields of bytes, of which wallets refuse those that are not filled up with zeros: `p`, `r`, `s`, `n`,
 * `h` and `m`. They pass that over in a description.
 */
const FIELDS_OF_BYTES: ReadonlySet<number> = new Set([FIELD_PAYMENT_HASH, 3, 16, 19, 23, 27]);

/** Of several fields of a type the first counts. Null where the words are no invoice's. */
function readFields(
  words: readonly number[],
): { createdAt: number; paymentHash: string | null; expirySeconds: number } | null {
  const end = words.length - SIGNATURE_WORDS;
  let paymentHash: string | null = null;
  let expirySeconds: number | null = null;
  let head = TIMESTAMP_WORDS;
  while (head < end) {
    const type = words[head] ?? 0;
    const start = head + FIELD_HEAD_WORDS;
    const next = start + numberOf(words, head + 1, start);
    if (next > end || (FIELDS_OF_BYTES.has(type) && !isFilledWithZeros(words, start, next))) {
      return null;
    }
    if (type === FIELD_PAYMENT_HASH && paymentHash === null) {
      if (next - start !== PAYMENT_HASH_WORDS) {
        return null;
      }
      paymentHash = Buffer.from(bech32.fromWords(words.slice(start, next))).toString('hex');
    } else if (type === FIELD_EXPIRY) {
      expirySeconds ??= numberOf(words, start, next);
    }
    head = next;
  }
  return head === end
    ? {
        createdAt: numberOf(words, 0, TIMESTAMP_WORDS),
        paymentHash,
        expirySeconds: expirySeconds ?? DEFAULT_EXPIRY_SECONDS,
      }
    : null;
}

/** The number that words are, the greatest first; beyond what can be held exactly, about that. */
function numberOf(words: readonly number[], start: number, end: number): number {
  let number = 0;
  for (let index = start; index < end; index += 1) {
    number = number * WORD_SIZE + (words[index] ?? 0);
  }
  return number;
}

/** Five bits to a word and eight to a byte: whether what is left over is less than a word, and nothing. */
function isFilledWithZeros(words: readonly number[], start: number, end: number): boolean {
  const bitsLeft = ((end - start) * 5) % 8;
  return bitsLeft < 5 && ((words[end - 1] ?? 0) & (2 ** bitsLeft - 1)) === 0;
}
