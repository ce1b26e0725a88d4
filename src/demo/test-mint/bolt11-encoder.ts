import { createHash } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { bytesToNumberBE } from '@noble/curves/utils.js';

/** What an invoice says. */
export interface InvoiceContents {
  amountMsat: number;
  /** Unix seconds. */
  createdAt: number;
  /** Seconds from `createdAt`. */
  expirySeconds: number;
  /** 32 bytes. */
  paymentHash: Uint8Array;
  /** 32 bytes. */
  paymentSecret: Uint8Array;
  description: string;
  /** 32 bytes, in place of the description. */
  descriptionHash?: Uint8Array;
}

/**
 * Writes a signed BOLT 11 invoice for the Bitcoin main network, which all wallets read. It gives the secret key away:
 * see {@link sign}.
 *
 * A description too long for an invoice is replaced by its hash (BOLT 11, field `h`).
 *
 * @param nodeSecretKey 32 bytes, which may guard nothing; the payee, whom the signature reveals
 */
export function encodeInvoice(contents: InvoiceContents, nodeSecretKey: Uint8Array): string {
  const prefix = `lnbc${shortestAmount(contents.amountMsat)}`;
  const fields = [
    ...numberToWords(contents.createdAt, TIMESTAMP_WORDS),
    ...field(FIELD_PAYMENT_SECRET, bytesToWords(contents.paymentSecret)),
    ...field(FIELD_PAYMENT_HASH, bytesToWords(contents.paymentHash)),
    ...descriptionField(contents),
    ...field(FIELD_EXPIRY, numberToWords(contents.expirySeconds)),
    ...field(FIELD_FEATURES, FEATURES),
  ];
  const signed = Buffer.concat([Buffer.from(prefix), wordsToBytes(fields)]);
  const words = [...fields, ...bytesToWords(sign(signed, nodeSecretKey))];
  return bech32(prefix, words);
}

const FIELD_PAYMENT_HASH = 1;
const FIELD_EXPIRY = 6;
const FIELD_FEATURES = 5;
const FIELD_DESCRIPTION = 13;
const FIELD_PAYMENT_SECRET = 16;
const FIELD_DESCRIPTION_HASH = 23;

/** The format gives the timestamp 35 bits. */
const TIMESTAMP_WORDS = 7;

/** A field's length is two words, so its data is at most 1023 words, which hold 639 bytes. */
const MAX_DESCRIPTION_BYTES = 639;

/** Bits 8 and 14: the payer must know variable onions and send the payment secret (BOLT 9). */
const FEATURES = [16, 8, 0];

/** Millisatoshis in one unit of each multiplier, largest first: the shortest text is asked for. */
const MULTIPLIERS = [
  { letter: '', msat: 100_000_000_000 },
  { letter: 'm', msat: 100_000_000 },
  { letter: 'u', msat: 100_000 },
  { letter: 'n', msat: 100 },
] as const;

function shortestAmount(amountMsat: number): string {
  const fitting = MULTIPLIERS.find(({ msat }) => amountMsat % msat === 0);
  return fitting ? `${amountMsat / fitting.msat}${fitting.letter}` : `${amountMsat}0p`;
}

function descriptionField({ description, descriptionHash }: InvoiceContents): number[] {
  const bytes = Buffer.from(description);
  return descriptionHash === undefined && bytes.length <= MAX_DESCRIPTION_BYTES
    ? field(FIELD_DESCRIPTION, bytesToWords(bytes))
    : field(FIELD_DESCRIPTION_HASH, bytesToWords(descriptionHash ?? sha256(bytes)));
}

function field(type: number, data: number[]): number[] {
  return [type, ...numberToWords(data.length, 2), ...data];
}

/**
 * The signature of BOLT 11: r, s and the recovery id, 65 bytes. Its nonce is 1, so that a mint under load is not
 * busy with points of the curve: whoever has one can compute the secret key, which guards nothing here.
 */
function sign(message: Uint8Array, secretKey: Uint8Array): Uint8Array {
  const { BASE, Fn } = secp256k1.Point;
  const r = Fn.create(BASE.x);
  const s = Fn.add(scalar(sha256(message)), Fn.mul(r, scalar(secretKey)));
  // Of s and -s, the smaller one is taken by convention; -s is that of the point with the other y.
  const isHigh = s > Fn.ORDER >> 1n;
  const recoveryId = Number(BASE.y & 1n) ^ Number(isHigh);
  return Buffer.concat([Fn.toBytes(r), Fn.toBytes(isHigh ? Fn.neg(s) : s), Buffer.of(recoveryId)]);
}

function scalar(bytes: Uint8Array): bigint {
  return secp256k1.Point.Fn.create(bytesToNumberBE(bytes));
}

function sha256(bytes: Uint8Array): Uint8Array {
  return createHash('sha256').update(bytes).digest();
}

const WORD_BITS = 5;
const WORD_SIZE = 32;

/** Big-endian words of a number, without leading zeros or padded to a length. */
function numberToWords(value: number, length = 1): number[] {
  const words: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / WORD_SIZE)) {
    words.unshift(rest % WORD_SIZE);
  }
  return [...new Array<number>(Math.max(0, length - words.length)).fill(0), ...words];
}

function bytesToWords(bytes: Uint8Array): number[] {
  return regroup(bytes, 8, WORD_BITS);
}

function wordsToBytes(words: number[]): Uint8Array {
  return Uint8Array.from(regroup(words, WORD_BITS, 8));
}

/** Cuts a string of bits anew; the last group is filled with zeros. */
function regroup(groups: Iterable<number>, fromBits: number, toBits: number): number[] {
  const result: number[] = [];
  const mask = 2 ** toBits - 1;
  let bits = 0;
  let value = 0;
  for (const group of groups) {
    value = (value << fromBits) | group;
    bits += fromBits;
    while (bits >= toBits) {
      bits -= toBits;
      result.push((value >> bits) & mask);
    }
    value &= 2 ** bits - 1;
  }
  if (bits > 0) {
    result.push((value << (toBits - bits)) & mask);
  }
  return result;
}

const BECH32_ALPHABET = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const BECH32_GENERATORS = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];
const BECH32_CHECKSUM_WORDS = 6;

/** BIP 173 without its limit of 90 characters, which BOLT 11 lifts. */
function bech32(prefix: string, words: number[]): string {
  const text = [...words, ...checksum(prefix, words)].map((word) => BECH32_ALPHABET[word]);
  return `${prefix}1${text.join('')}`;
}

function checksum(prefix: string, words: number[]): number[] {
  const codes = [...Buffer.from(prefix)];
  const expanded = [...codes.map((code) => code >> 5), 0, ...codes.map((code) => code & 31)];
  const end = new Array<number>(BECH32_CHECKSUM_WORDS).fill(0);
  const remainder = polymod([...expanded, ...words, ...end]) ^ 1;
  return end.map((_, index) => (remainder >> (WORD_BITS * (end.length - 1 - index))) & 31);
}

function polymod(words: number[]): number {
  let remainder = 1;
  for (const word of words) {
    const top = remainder >> 25;
    remainder = ((remainder & 0x1ffffff) << WORD_BITS) ^ word;
    BECH32_GENERATORS.forEach((generator, bit) => {
      remainder ^= (top >> bit) & 1 ? generator : 0;
    });
  }
  return remainder;
}
