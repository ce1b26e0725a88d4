import { randomUUID } from 'node:crypto';
import {
  getDecodedTokenBinary,
  getEncodedToken,
  normalizeProofAmounts,
  PaymentRequest,
  pointFromHex,
} from '@cashu/cashu-ts';
import { z } from 'zod';
import type { Keyset, Proof } from '../../mints/ecash.ts';
import { normaliseMintUrl } from '../../net/server-url.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { sumAmounts } from './proofs.ts';

/** Usual tokens have fewer proofs: 140 take about 20 KB. Mints accept 1000 in one request. */
export const MAX_TOKEN_PROOFS = 256;

/** The reasons are sentences for the client that quote nothing from the token. */
export type TokenParseResult =
  | { outcome: 'read'; proofs: Proof[]; faceValueSat: number }
  | { outcome: 'rejected'; reason: string }
  /** The mint may have added the keyset after its keysets were read. */
  | { outcome: 'unknown_keyset'; reason: string };

type TokenRejection = Exclude<TokenParseResult, { outcome: 'read' }>;

const MALFORMED_TOKEN = rejectToken('The token cannot be read; it is damaged or incomplete.');
const BAD_AMOUNT = rejectToken('The token has an amount that is not a whole number of sats.');
const NOT_SAT = rejectToken('The token is not in sat.');

/**
 * Parses a `cashuA` or `cashuB` token (NUT-00), in base64 or base64url, with or without padding and the prefix
 * `cashu:`. Accepts only tokens of one mint, in sat, without spending conditions. Expands short keyset ids (NUT-02).
 * Does not check whether the proofs are spent or whether their DLEQ proofs are valid.
 *
 * @param requirements.mintUrl the only accepted mint, normalised
 * @param requirements.allowHttp whether the mint's URL may be plain http, for development
 * @param requirements.keysets all keysets of the mint, in every unit
 */
export function parseToken(
  text: string,
  requirements: { mintUrl: string; allowHttp: boolean; keysets: readonly Keyset[] },
): TokenParseResult {
  const { mintUrl, allowHttp, keysets } = requirements;
  const token = decodeToken(text);
  if ('outcome' in token) {
    return token;
  }
  if (token.mints.some((mint) => normaliseMintUrl(mint, { allowHttp }) !== mintUrl)) {
    return rejectToken(`The token is from another mint; only ecash from ${mintUrl} is accepted.`);
  }
  if (token.unit !== 'sat') {
    return NOT_SAT;
  }
  const proofs = parseProofs(token.proofs, keysets);
  if ('outcome' in proofs) {
    return proofs;
  }
  const faceValueSat = sumAmounts(proofs);
  if (!Number.isSafeInteger(faceValueSat)) {
    return BAD_AMOUNT;
  }
  if (new Set(proofs.map(({ secret }) => secret)).size < proofs.length) {
    return rejectToken('The token contains the same proof twice.');
  }
  // Spending conditions make the secret a JSON list (NUT-10).
  if (proofs.some(({ secret }) => Array.isArray(tryParseJson(secret)))) {
    return rejectToken('The token is locked; it cannot be spent here.');
  }
  return proofs.every(({ C }) => isPoint(C))
    ? { outcome: 'read', proofs, faceValueSat }
    : MALFORMED_TOKEN;
}

/**
 * Returns the secrets of a token's proofs, which show whether the token was used before.
 *
 * @returns null if the text is not a token, or has more proofs than are accepted
 */
export function parseTokenSecrets(text: string): string[] | null {
  const token = decodeToken(text);
  if ('outcome' in token || token.proofs.length > MAX_TOKEN_PROOFS) {
    return null;
  }
  const { success, data } = z.array(proofSchema.pick({ secret: true })).safeParse(token.proofs);
  return success ? data.map(({ secret }) => secret) : null;
}

/**
 * Encodes a `cashuB` token in sat (NUT-00).
 *
 * @param proofs unspent, with hex keyset ids
 */
export function encodeToken(mintUrl: string, proofs: readonly Proof[]): string {
  const proofsWithoutDleq = proofs.map(({ id, amount, secret, C }) => ({ id, amount, secret, C }));
  return getEncodedToken({
    mint: mintUrl,
    unit: 'sat',
    proofs: normalizeProofAmounts(proofsWithoutDleq),
  });
}

/**
 * Encodes a single-use payment request for a username, in sat for one mint (NUT-18). The payment request has no
 * transport, because the client sends the token in its next HTTP request (NUT-24).
 *
 * @returns `creqA...` in base64url without padding, because cdk's wallet accepts nothing else
 */
export function encodePaymentRequest(amountSat: number, mintUrl: string): string {
  const id = randomUUID();
  const isSingleUse = true;
  return new PaymentRequest(undefined, id, amountSat, 'sat', [mintUrl], 'Username', isSingleUse)
    .toEncodedCreqA()
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

const TOKEN_PATTERN = /^(?:cashu:(?:\/\/)?)?cashu([AB])([A-Za-z0-9+/_-]+)={0,2}$/;
const SHORT_KEYSET_ID_PATTERN = /^01[0-9a-f]{14}$/;
const COMPRESSED_POINT_PATTERN = /^0[23][0-9a-f]{64}$/;
const scalarSchema = z.string().regex(/^[0-9a-f]{64}$/i);

/** The contents of a token of either version, not yet validated. */
type DecodedToken = { mints: string[]; unit: string; proofs: unknown[] };

/** `cashuA` is JSON with proofs grouped by mint. Older tokens have no unit and are in sat. */
const tokenV3Schema = z.object({
  token: z.array(z.object({ mint: z.string(), proofs: z.array(z.unknown()) })),
  unit: z.string().nullish(),
});

/** `cashuB`, as cashu-ts decodes it. */
const tokenV4Schema = z.object({ mint: z.string(), unit: z.string() });

const proofSchema = z.object({
  id: z.string(),
  // cashu-ts writes amounts as strings in JSON.
  amount: z
    .union([z.number(), z.string().regex(/^\d{1,16}$/)])
    .transform(Number)
    .pipe(z.int().positive()),
  // Encoding text with a lone surrogate would change the secret.
  secret: z
    .string()
    .min(1)
    .refine((secret) => secret.isWellFormed()),
  C: z.string().toLowerCase().regex(COMPRESSED_POINT_PATTERN),
  // A DLEQ without `r` cannot be checked (NUT-12).
  dleq: z.object({ e: scalarSchema, s: scalarSchema, r: scalarSchema }).nullish(),
});

function decodeToken(text: string): DecodedToken | TokenRejection {
  const [, version, encoded] = TOKEN_PATTERN.exec(text.trim()) ?? [];
  if (version === undefined || encoded === undefined) {
    return rejectToken('This is not a Cashu token; it must start with cashuA or cashuB.');
  }
  const bytes = Buffer.from(encoded, 'base64url');
  try {
    return version === 'A' ? decodeTokenV3(bytes) : decodeTokenV4(bytes);
  } catch {
    // The message of a decoding error may quote the token.
    return MALFORMED_TOKEN;
  }
}

function decodeTokenV3(bytes: Uint8Array): DecodedToken {
  const { token, unit } = tokenV3Schema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  return {
    mints: token.map(({ mint }) => mint),
    unit: unit ?? 'sat',
    proofs: token.flatMap(({ proofs }) => proofs),
  };
}

/** Converts the token to its binary form, which cashu-ts decodes without the mint's keysets. */
function decodeTokenV4(bytes: Uint8Array): DecodedToken {
  const token = getDecodedTokenBinary(Buffer.concat([Buffer.from('crawB'), bytes]));
  const { mint, unit } = tokenV4Schema.parse(token);
  const proofs = token.proofs.map((each) => ({ ...each, amount: each.amount.toNumberUnsafe() }));
  return { mints: [mint], unit, proofs };
}

function parseProofs(
  untrustedProofs: readonly unknown[],
  keysets: readonly Keyset[],
): Proof[] | TokenRejection {
  const count = untrustedProofs.length;
  if (count === 0) {
    return rejectToken('The token contains no ecash.');
  }
  if (count > MAX_TOKEN_PROOFS) {
    return rejectToken(`The token has ${count} proofs; at most ${MAX_TOKEN_PROOFS} are accepted.`);
  }
  const proofs: Proof[] = [];
  for (const untrusted of untrustedProofs) {
    const proof = parseProof(untrusted, keysets);
    if ('outcome' in proof) {
      return proof;
    }
    proofs.push(proof);
  }
  return proofs;
}

function parseProof(untrusted: unknown, keysets: readonly Keyset[]): Proof | TokenRejection {
  const { success, data, error } = proofSchema.safeParse(untrusted);
  if (!success) {
    return error.issues.every(({ path }) => path[0] === 'amount') ? BAD_AMOUNT : MALFORMED_TOKEN;
  }
  const { amount, secret, C, dleq } = data;
  const id = resolveKeysetId(data.id, keysets);
  return typeof id === 'string' ? { id, amount, secret, C, ...(dleq && { dleq }) } : id;
}

function resolveKeysetId(id: string, keysets: readonly Keyset[]): string | TokenRejection {
  const hexId = id.toLowerCase();
  const exactMatch = keysets.find((keyset) => keyset.id === id || keyset.id === hexId);
  const isShort = SHORT_KEYSET_ID_PATTERN.test(hexId);
  const shortIdMatches = keysets.filter((keyset) => isShort && keyset.id.startsWith(hexId));
  const keyset = exactMatch ?? shortIdMatches[0];
  if (keyset === undefined) {
    return { outcome: 'unknown_keyset', reason: 'The token uses an unknown keyset.' };
  }
  if (exactMatch === undefined && shortIdMatches.length > 1) {
    return rejectToken('The keyset id of the token is ambiguous.');
  }
  return keyset.unit === 'sat' ? keyset.id : NOT_SAT;
}

function isPoint(hex: string): boolean {
  try {
    pointFromHex(hex);
    return true;
  } catch {
    return false;
  }
}

function rejectToken(reason: string): TokenRejection {
  return { outcome: 'rejected', reason };
}
