import { bech32 } from '@scure/base';

/** Of an invoice without an expiry (BOLT 11). */
const DEFAULT_EXPIRY_SECONDS = 3600;

/** The facts of a BOLT 11 invoice that this service uses. */
export interface InvoiceFacts {
  /** 64 hex characters. */
  paymentHash: string;
  /** Null if the payer chooses the amount. */
  amountMsat: number | null;
  /** Unix seconds. */
  createdAt: number;
  /** Unix seconds. */
  expiresAt: number;
}

/** Reads the facts of a BOLT 11 invoice; null if the text is not one, or its checksum is wrong. */
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

const HUMAN_PART = /^ln(?:bcrt|bc|tbs|tb|sb)(?:(?<value>\d+)(?<multiplier>[munp])?)?$/;

const MSAT_PER_BITCOIN = 100_000_000_000n;

/** 21 million bitcoin. */
const MAX_MSAT = 2_100_000_000_000_000_000n;

const DIVISORS: Readonly<Record<string, bigint>> = {
  m: 1_000n,
  u: 1_000_000n,
  n: 1_000_000_000n,
  p: 1_000_000_000_000n,
};

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

/** The type of a field, and its length in two words. */
const FIELD_HEAD_WORDS = 3;

const FIELD_PAYMENT_HASH = 1;
const FIELD_EXPIRY = 6;

const PAYMENT_HASH_BYTES = 32;

/** Of several fields of a type the first counts. Null if the fields do not fit. */
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
    if (next > end) {
      return null;
    }
    if (type === FIELD_PAYMENT_HASH && paymentHash === null) {
      const hash = bech32.fromWordsUnsafe(words.slice(start, next));
      if (hash?.length !== PAYMENT_HASH_BYTES) {
        return null;
      }
      paymentHash = Buffer.from(hash).toString('hex');
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

function numberOf(words: readonly number[], start: number, end: number): number {
  let number = 0;
  for (let index = start; index < end; index += 1) {
    number = number * WORD_SIZE + (words[index] ?? 0);
  }
  return number;
}

/** Some mints return milliseconds; no date in seconds is this large before the year 5000. */
const LARGEST_SECONDS = 100_000_000_000;

/** Bounds the time that a mint's wild value can make a quote watched. */
const LONGEST_LIFE_SECONDS = 365 * 24 * 60 * 60;

/**
 * Returns when a new quote expires: the mint's `expiry`, or that of its invoice if the mint gives none (cdk sends 0,
 * Nutshell may send null; NUT-23) or one before the invoice was created.
 *
 * @param expiry the mint's field: Unix seconds, or milliseconds by mistake
 * @returns Unix seconds
 */
export function quoteExpiresAt(expiry: number | null, invoice: InvoiceFacts): number {
  const latest = invoice.createdAt + LONGEST_LIFE_SECONDS;
  const seconds = Math.floor(
    Number(expiry) > LARGEST_SECONDS ? Number(expiry) / 1000 : Number(expiry),
  );
  return Math.min(seconds > invoice.createdAt ? seconds : invoice.expiresAt, latest);
}
