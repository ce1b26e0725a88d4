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
import { wholeNumberSchema } from '../../mints/quote-responses.ts';
import { normaliseMintUrl } from '../../net/server-url.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { MAX_OVERPAYMENT_PERCENT, MAX_TOKEN_LENGTH, MAX_TOKEN_PROOFS } from '../limits.ts';
import { computeInputFeeSat, getExpiryMs, mapInSlices, sumAmounts } from './proofs.ts';

/** The reason is a sentence for the client that quotes nothing from the token. */
export interface TokenRejection {
  outcome: 'rejected';
  reason: string;
}

/** A well-formed token of either version and of any mint. */
export interface DecodedToken {
  outcome: 'decoded';
  mints: readonly string[];
  unit: string;
  /** At least one, with full or short keyset ids. */
  proofs: readonly Proof[];
}

/** Decodes a `cashuA` or `cashuB` token (NUT-00). Ignores its DLEQ proofs, because the mint checks the token anyway. */
export function decodeToken(text: string): DecodedToken | TokenRejection {
  if (text.length > MAX_TOKEN_LENGTH) {
    return TOO_LARGE;
  }
  const [, version, encoded] = TOKEN_PATTERN.exec(text.trim()) ?? [];
  if (version === undefined || encoded === undefined) {
    return rejectToken('This is not a Cashu token; it must start with cashuA or cashuB.');
  }
  const bytes = Buffer.from(encoded, 'base64url');
  try {
    const content = version === 'A' ? decodeV3(bytes) : decodeV4(bytes);
    if (content.proofs.length === 0) {
      return rejectToken('The token contains no ecash.');
    }
    if (content.proofs.length > MAX_TOKEN_PROOFS) {
      return TOO_LARGE;
    }
    const proofs = content.proofs.map((proof) => proofSchema.parse(proof));
    return { ...content, outcome: 'decoded', proofs };
  } catch {
    // The message of a decoding error may quote the token.
    return MALFORMED_TOKEN;
  }
}

/** Checks whether a token can pay, except whether it is spent or forged. Expands short keyset ids (NUT-02). */
export async function validateToken(
  token: DecodedToken,
  requirements: {
    mintUrl: string;
    allowHttp: boolean;
    keysets: readonly Keyset[];
    priceSat: number;
    nowMs: number;
  },
): Promise<{ outcome: 'valid'; proofs: Proof[] } | TokenRejection> {
  const { mintUrl, allowHttp, keysets, priceSat, nowMs } = requirements;
  if (token.mints.some((mint) => normaliseMintUrl(mint, { allowHttp }) !== mintUrl)) {
    return rejectToken(`The token is from another mint; only ecash from ${mintUrl} is accepted.`);
  }
  if (token.unit !== 'sat') {
    return NOT_SAT;
  }
  const secrets = token.proofs.map(({ secret }) => secret);
  if (new Set(secrets).size < secrets.length) {
    return rejectToken('The token contains the same proof twice.');
  }
  // A secret with spending conditions is a JSON list (NUT-10).
  if (secrets.some((secret) => Array.isArray(tryParseJson(secret)))) {
    return rejectToken('The token is locked; it cannot be spent here.');
  }
  const proofs: Proof[] = [];
  for (const proof of token.proofs) {
    const keyset = findKeyset(proof.id, keysets);
    if (keyset === undefined) {
      return rejectToken('The token uses an unknown keyset.');
    }
    if (keyset.unit !== 'sat') {
      return NOT_SAT;
    }
    if (getExpiryMs(keyset) <= nowMs) {
      return rejectToken('The token has expired: the mint no longer accepts its keyset.');
    }
    proofs.push({ ...proof, id: keyset.id });
  }
  const faceValueSat = sumAmounts(proofs);
  const maxOverpaymentSat = Math.max(1, Math.floor((priceSat * MAX_OVERPAYMENT_PERCENT) / 100));
  // Some wallets add the mint's fee to the price, although the operator pays it.
  const maxSat = priceSat + maxOverpaymentSat + computeInputFeeSat(proofs, keysets);
  if (faceValueSat < priceSat || faceValueSat > maxSat) {
    return rejectToken(
      `The token is worth ${faceValueSat} sat; the username costs ${priceSat} sat, and at most ${maxSat} sat are accepted.`,
    );
  }
  try {
    // Throws if C is not a point. A mint might respond to it with an error that leaves the purchase open.
    await mapInSlices(proofs, ({ C }) => pointFromHex(C));
    return { outcome: 'valid', proofs };
  } catch {
    return MALFORMED_TOKEN;
  }
}

/** Encodes a `cashuB` token in sat (NUT-00). */
export function encodeToken(mintUrl: string, proofs: readonly Proof[]): string {
  return getEncodedToken({
    mint: mintUrl,
    unit: 'sat',
    proofs: normalizeProofAmounts([...proofs]),
  });
}

/** Encodes a payment request (NUT-18) in base64url without padding, because cdk's wallet accepts nothing else. */
export function encodePaymentRequest(amountSat: number, mintUrl: string): string {
  // None, because the client sends the token in its next HTTP request (NUT-24).
  const transport = undefined;
  const id = randomUUID();
  const isSingleUse = true;
  return new PaymentRequest(transport, id, amountSat, 'sat', [mintUrl], 'Username', isSingleUse)
    .toEncodedCreqA()
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

const MALFORMED_TOKEN = rejectToken('The token cannot be read; it is damaged or incomplete.');
const TOO_LARGE = rejectToken(
  `The token is too large; at most ${MAX_TOKEN_PROOFS} proofs and ${MAX_TOKEN_LENGTH / 1024} KB are accepted.`,
);
const NOT_SAT = rejectToken('The token is not in sat.');

/** In base64 or base64url, with or without padding. */
const TOKEN_PATTERN = /^(?:cashu:(?:\/\/)?)?cashu([AB])([A-Za-z0-9+/_-]+)={0,2}$/;
const SHORT_KEYSET_ID_PATTERN = /^01[0-9a-f]{14}$/;

/** `cashuA` is JSON with proofs grouped by mint. Older tokens have no unit and are in sat. */
const contentV3Schema = z.object({ token: z.array(z.unknown()), unit: z.string().nullish() });
const entryV3Schema = z.object({ mint: z.string(), proofs: z.array(z.unknown()) });
const contentV4Schema = z.object({ mint: z.string(), unit: z.string() });

const proofSchema = z.object({
  id: z.string(),
  amount: wholeNumberSchema.refine((amount) => amount > 0),
  // Encoding text with a lone surrogate would change the secret.
  secret: z
    .string()
    .min(1)
    .refine((secret) => secret.isWellFormed()),
  C: z
    .string()
    .toLowerCase()
    .regex(/^0[23][0-9a-f]{64}$/),
});

function decodeV3(bytes: Uint8Array) {
  const content = contentV3Schema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  // Stops at the first malformed entry, because collecting the errors of thousands would take long.
  const entries = content.token.map((entry) => entryV3Schema.parse(entry));
  const mints = entries.map(({ mint }) => mint);
  const proofs = entries.flatMap((entry) => entry.proofs);
  return { mints, unit: content.unit ?? 'sat', proofs };
}

/** Passes the token in its binary form, which begins with `crawB`. From text, cashu-ts decodes only with the mint's keysets. */
function decodeV4(bytes: Buffer) {
  const token = getDecodedTokenBinary(Buffer.concat([Buffer.from('crawB'), bytes]));
  const { mint, unit } = contentV4Schema.parse(token);
  const proofs = token.proofs.map((each) => ({ ...each, amount: each.amount.toNumberUnsafe() }));
  return { mints: [mint], unit, proofs };
}

/** Finds a keyset by its id in hex or base64, or by a short id that only one keyset has. */
function findKeyset(id: string, keysets: readonly Keyset[]): Keyset | undefined {
  const hexId = id.toLowerCase();
  const exactMatch = keysets.find((keyset) => keyset.id === id || keyset.id === hexId);
  if (exactMatch !== undefined || !SHORT_KEYSET_ID_PATTERN.test(hexId)) {
    return exactMatch;
  }
  const matches = keysets.filter((keyset) => keyset.id.startsWith(hexId));
  return matches.length === 1 ? matches[0] : undefined;
}

function rejectToken(reason: string): TokenRejection {
  return { outcome: 'rejected', reason };
}
