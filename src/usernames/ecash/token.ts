import {
  getDecodedTokenBinary,
  getEncodedToken,
  normalizeProofAmounts,
  pointFromHex,
} from '@cashu/cashu-ts';
import { z } from 'zod';
import { type Keyset, type Proof, sumOfAmounts } from '../../mints/ecash.ts';
import { normaliseMintUrl } from '../../mints/mint-url.ts';
import { parseJson } from '../../untrusted-text.ts';

/** A token of 20 KB has about 140 proofs as small as wallets make them; mints take 1000 at once. */
export const MAX_TOKEN_PROOFS = 256;

/** What became of a token. The reasons are for the payer, and tell nothing of the token. */
export type TokenReading =
  | { outcome: 'read'; proofs: Proof[]; faceValueSat: number }
  | { outcome: 'refused'; reason: string }
  /** Refused as well, unless the mint has a keyset that is not known here yet. */
  | { outcome: 'unknown_keyset'; reason: string };

/** What a token has to be. */
export interface ExpectedToken {
  /** Normalised: of this mint. */
  mintUrl: string;
  /** Whether plain http is accepted (development). */
  allowHttp: boolean;
  /** All that the mint has, in every unit. */
  keysets: readonly Keyset[];
}

/**
 * Reads a token that somebody pays with (NUT-00): `cashuA` or `cashuB`, in either alphabet of base64,
 * padded or not, with `cashu:` before it or not. It has to be of one mint, in sat, and without spending
 * conditions; short ids of keysets are given in full (NUT-02). Whether it was spent before only
 * the mint knows, and whether its evidence is right (NUT-12) is another question.
 */
export function readToken(text: string, expected: ExpectedToken): TokenReading {
  const token = decodeToken(text);
  if ('outcome' in token) {
    return token;
  }
  const proofs = mintFault(token, expected) ?? readProofs(token, expected.keysets);
  if ('outcome' in proofs) {
    return proofs;
  }
  return (
    repetitionFault(proofs) ??
    lockFault(proofs) ??
    pointFault(proofs) ?? { outcome: 'read', proofs, faceValueSat: sumOfAmounts(proofs) }
  );
}

/**
 * The secrets of a token's proofs, whatever mint, unit or terms it is of: by them it is known whether the
 * token was given before.
 *
 * @returns null where the text is no token, or one with more proofs than are ever taken
 */
export function secretsOf(text: string): string[] | null {
  const token = decodeToken(text);
  if ('outcome' in token || token.proofs.length > MAX_TOKEN_PROOFS) {
    return null;
  }
  const { success, data } = z.array(proofSchema.pick({ secret: true })).safeParse(token.proofs);
  return success ? data.map(({ secret }) => secret) : null;
}

/**
 * Encodes proofs for somebody else's wallet, as a `cashuB` token in sat (NUT-00).
 *
 * @param proofs of keysets with hex ids, free to be spent
 */
export function encodeToken(mintUrl: string, proofs: readonly Proof[]): string {
  const bare = proofs.map(({ id, amount, secret, C }) => ({ id, amount, secret, C }));
  return getEncodedToken({ mint: mintUrl, unit: 'sat', proofs: normalizeProofAmounts(bare) });
}

/** Why a token is not taken. */
type TokenFault = Exclude<TokenReading, { outcome: 'read' }>;

const UNREADABLE = refusal('The token cannot be read: it is damaged or not complete.');
const BAD_AMOUNT = refusal('The token has an amount that is not a whole number of sats.');
const NOT_SAT = refusal('The token is not in sat.');

const TOKEN = /^(?:cashu:(?:\/\/)?)?cashu([AB])([A-Za-z0-9+/_-]+)={0,2}$/;
const SHORT_KEYSET_ID = /^01[0-9a-f]{14}$/;
const COMPRESSED_POINT = /^0[23][0-9a-f]{64}$/;
const SCALAR = z.string().regex(/^[0-9a-f]{64}$/i);

/** What both versions come to, before anything in it is believed. */
interface DecodedToken {
  mints: string[];
  unit: string;
  proofs: unknown[];
}

/** `cashuA`: JSON, by mints; without a unit it is in sat, which was the only one once. */
const tokenASchema = z.object({
  token: z.array(z.object({ mint: z.string(), proofs: z.array(z.unknown()) })),
  unit: z.string().nullish(),
});

/** `cashuB` as cashu-ts gives it. */
const tokenBSchema = z.object({
  mint: z.string(),
  unit: z.string(),
  proofs: z.array(z.unknown()),
});

const proofSchema = z.object({
  id: z.string(),
  // What cashu-ts makes of amounts in JSON are strings.
  amount: z
    .union([z.number(), z.string().regex(/^\d{1,16}$/)])
    .transform(Number)
    .pipe(z.int().positive()),
  // What is no proper text is another secret after each encoding.
  secret: z
    .string()
    .min(1)
    .refine((secret) => secret.isWellFormed()),
  C: z.string().toLowerCase().regex(COMPRESSED_POINT),
  // Without `r` it could not be checked; where there is evidence, it has to be all there (NUT-12).
  dleq: z.object({ e: SCALAR, s: SCALAR, r: SCALAR }).nullish(),
});

function decodeToken(text: string): DecodedToken | TokenFault {
  const [, version, encoded] = TOKEN.exec(text.trim()) ?? [];
  if (version === undefined || encoded === undefined) {
    return refusal('This is not a Cashu token: it has to begin with cashuA or cashuB.');
  }
  const bytes = Buffer.from(encoded, 'base64url');
  try {
    return version === 'A' ? decodeTokenA(bytes) : decodeTokenB(bytes);
  } catch {
    // What a decoder says of what it met may quote it.
    return UNREADABLE;
  }
}

function decodeTokenA(bytes: Uint8Array): DecodedToken {
  const { token, unit } = tokenASchema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  return {
    mints: token.map(({ mint }) => mint),
    unit: unit ?? 'sat',
    proofs: token.flatMap(({ proofs }) => proofs),
  };
}

/** The binary form of the same token is what cashu-ts decodes without the keysets of its mint. */
function decodeTokenB(bytes: Uint8Array): DecodedToken {
  const token = getDecodedTokenBinary(Buffer.concat([Buffer.from('crawB'), bytes]));
  const { mint, unit } = tokenBSchema.parse(token);
  const proofs = token.proofs.map((proof) => ({
    ...proof,
    amount: proof.amount.toNumberUnsafe(),
  }));
  return { mints: [mint], unit, proofs };
}

function mintFault({ mints, unit }: DecodedToken, expected: ExpectedToken): TokenFault | null {
  const { mintUrl, allowHttp } = expected;
  if (mints.some((mint) => normaliseMintUrl(mint, { allowHttp }) !== mintUrl)) {
    return refusal(`The token is of another mint; only ecash of ${mintUrl} is taken.`);
  }
  return unit === 'sat' ? null : NOT_SAT;
}

function readProofs({ proofs }: DecodedToken, keysets: readonly Keyset[]): Proof[] | TokenFault {
  if (proofs.length === 0) {
    return refusal('The token has no ecash in it.');
  }
  if (proofs.length > MAX_TOKEN_PROOFS) {
    return refusal(
      `The token has ${proofs.length} proofs; no more than ${MAX_TOKEN_PROOFS} are taken.`,
    );
  }
  const read: Proof[] = [];
  for (const untrusted of proofs) {
    const proof = readProof(untrusted, keysets);
    if ('outcome' in proof) {
      return proof;
    }
    read.push(proof);
  }
  return Number.isSafeInteger(sumOfAmounts(read)) ? read : BAD_AMOUNT;
}

function readProof(untrusted: unknown, keysets: readonly Keyset[]): Proof | TokenFault {
  const { success, data, error } = proofSchema.safeParse(untrusted);
  if (!success) {
    return error.issues.every(({ path }) => path[0] === 'amount') ? BAD_AMOUNT : UNREADABLE;
  }
  const { amount, secret, C, dleq } = data;
  const id = fullKeysetId(data.id, keysets);
  if (typeof id !== 'string') {
    return id;
  }
  return { id, amount, secret, C, ...(dleq && { dleq }) };
}

function fullKeysetId(id: string, keysets: readonly Keyset[]): string | TokenFault {
  const hexId = id.toLowerCase();
  const exact = keysets.filter((keyset) => keyset.id === id || keyset.id === hexId);
  const meant =
    exact.length === 0 && SHORT_KEYSET_ID.test(hexId)
      ? keysets.filter((keyset) => keyset.id.startsWith(hexId))
      : exact;
  const [keyset, ...others] = meant;
  if (keyset === undefined) {
    return { outcome: 'unknown_keyset', reason: 'The token is of a keyset that its mint has not.' };
  }
  if (others.length > 0) {
    return refusal('The token does not say clearly which keyset of its mint it is of.');
  }
  return keyset.unit === 'sat' ? keyset.id : NOT_SAT;
}

function repetitionFault(proofs: readonly Proof[]): TokenFault | null {
  const distinct = new Set(proofs.map(({ secret }) => secret));
  return distinct.size === proofs.length
    ? null
    : refusal('The token has the same proof in it twice.');
}

/** A secret that is a JSON list has spending conditions (NUT-10), which payers are not asked for (NUT-18). */
function lockFault(proofs: readonly Proof[]): TokenFault | null {
  return proofs.some(({ secret }) => Array.isArray(parseJson(secret)))
    ? refusal('The token is locked: it cannot be spent here.')
    : null;
}

function pointFault(proofs: readonly Proof[]): TokenFault | null {
  try {
    for (const { C } of proofs) {
      pointFromHex(C);
    }
    return null;
  } catch {
    return UNREADABLE;
  }
}

function refusal(reason: string): TokenFault {
  return { outcome: 'refused', reason };
}
