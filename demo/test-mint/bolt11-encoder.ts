import { createHash } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { bech32 } from '@scure/base';

export interface InvoiceContents {
  amountMsat: number;
  /** Unix seconds. */
  createdAt: number;
  /** Seconds from `createdAt`. */
  expirySeconds: number;
  /** 32 bytes. */
  paymentHash: Uint8Array;
  /** At most 639 bytes. */
  description: string;
  /** 32 bytes. Replaces the description. */
  descriptionHash?: Uint8Array;
}

/** Returns a signed BOLT 11 invoice for Bitcoin mainnet. Every wallet can decode it. */
export function encodeInvoice(contents: InvoiceContents): string {
  const prefix = `lnbc${encodeAmount(contents.amountMsat)}`;
  const words = [
    ...numberToWords(contents.createdAt, TIMESTAMP_WORDS),
    ...encodeField(FIELD_PAYMENT_SECRET, bech32.toWords(PAYMENT_SECRET)),
    ...encodeField(FIELD_PAYMENT_HASH, bech32.toWords(contents.paymentHash)),
    ...(contents.descriptionHash === undefined
      ? encodeField(FIELD_DESCRIPTION, bech32.toWords(Buffer.from(contents.description)))
      : encodeField(FIELD_DESCRIPTION_HASH, bech32.toWords(contents.descriptionHash))),
    ...encodeField(FIELD_EXPIRY, numberToWords(contents.expirySeconds)),
    ...encodeField(FIELD_FEATURES, FEATURES),
  ];
  const signature = bech32.toWords(sign(Buffer.concat([Buffer.from(prefix), wordsToBytes(words)])));
  return bech32.encode(prefix, [...words, ...signature], false);
}

/** Types of tagged fields (BOLT 11). */
const FIELD_PAYMENT_HASH = 1;
const FIELD_EXPIRY = 6;
const FIELD_FEATURES = 5;
const FIELD_DESCRIPTION = 13;
const FIELD_PAYMENT_SECRET = 16;
const FIELD_DESCRIPTION_HASH = 23;

/** Length of the timestamp, in 5-bit words. */
const TIMESTAMP_WORDS = 7;

/** Sets bits 8 and 14: the payer must support variable-length onions and payment secrets (BOLT 9). */
const FEATURES = [16, 8, 0];

/** The payment secret of the examples in BOLT 11. */
const PAYMENT_SECRET = new Uint8Array(32).fill(0x11);

/** Millisatoshis per unit of each multiplier, largest first. */
const MULTIPLIERS = { '': 100_000_000_000, m: 100_000_000, u: 100_000, n: 100 };

function encodeAmount(amountMsat: number): string {
  for (const [multiplier, msat] of Object.entries(MULTIPLIERS)) {
    if (amountMsat % msat === 0) {
      return `${amountMsat / msat}${multiplier}`;
    }
  }
  // A picobitcoin is a tenth of a millisatoshi.
  return `${amountMsat}0p`;
}

/**
 * Signs a message and returns r, s and the recovery id. Uses secret key 1 and nonce 1, so that signing needs no
 * slow curve multiplication. The key protects nothing.
 */
function sign(message: Uint8Array): Uint8Array {
  const { BASE, Fn } = secp256k1.Point;
  const hash = createHash('sha256').update(message).digest('hex');
  const r = Fn.create(BASE.x);
  const s = Fn.add(Fn.create(BigInt(`0x${hash}`)), r);
  const isHigh = s > Fn.ORDER >> 1n;
  const recoveryId = Number(BASE.y & 1n) ^ Number(isHigh);
  return Buffer.concat([Fn.toBytes(r), Fn.toBytes(isHigh ? Fn.neg(s) : s), Buffer.of(recoveryId)]);
}

/** Packs 5-bit words into bytes. Fills the last byte with zero bits. */
function wordsToBytes(words: readonly number[]): Uint8Array {
  const bits = words.map((word) => word.toString(2).padStart(5, '0')).join('');
  return Uint8Array.from(bits.match(/.{1,8}/g) ?? [], (byte) =>
    Number.parseInt(byte.padEnd(8, '0'), 2),
  );
}

function encodeField(type: number, data: number[]): number[] {
  return [type, ...numberToWords(data.length, 2), ...data];
}

/** Returns a number as at least `minLength` big-endian 5-bit words. */
function numberToWords(value: number, minLength = 1): number[] {
  const words: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 32)) {
    words.unshift(rest % 32);
  }
  return [...new Array<number>(Math.max(0, minLength - words.length)).fill(0), ...words];
}
