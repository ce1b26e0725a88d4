import {
  createHTLCsecret,
  createP2PKsecret,
  createSecret,
  getDecodedToken,
  getEncodedToken,
  normalizeProofAmounts,
} from '@cashu/cashu-ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Keyset, Proof } from '../../../src/mints/ecash.ts';
import {
  encodeToken,
  MAX_TOKEN_PROOFS,
  parseToken,
} from '../../../src/usernames/ecash/cashu-token.ts';
import { deriveOutputs, planOutputs } from '../../../src/usernames/ecash/proofs.ts';
import { FakeMintKeyset } from '../../helpers/mints/fake-mint-keyset.ts';

const MINT_URL = 'https://mint.example';

const keysetV1 = new FakeMintKeyset();
const keysetV0 = new FakeMintKeyset({ version: 0 });
const inactiveKeyset: Keyset = { ...new FakeMintKeyset().keyset, active: false };
const usdKeyset: Keyset = { ...new FakeMintKeyset().keyset, unit: 'usd' };
const KEYSETS = [keysetV1.keyset, keysetV0.keyset, inactiveKeyset, usdKeyset];

const PROOF = keysetV1.createProof(8, 'a secret');
const PROOF_V0 = keysetV0.createProof(2, 'an old secret');

describe('parseToken with acceptable tokens', () => {
  const anyProofs = fc.subarray(
    [
      PROOF,
      PROOF_V0,
      withoutDleq(keysetV1.createProof(1, 'a secret without DLEQ')),
      withoutDleq(keysetV0.createProof(4, 'an old secret without DLEQ')),
    ],
    { minLength: 1 },
  );
  const anyEncoding = fc.constantFrom<BufferEncoding[]>('base64', 'base64url');
  const anyPrefix = fc.constantFrom('', 'cashu:', 'cashu://', ' ');

  it('accepts both versions, in base64 and base64url, with and without padding and prefix', () => {
    fc.assert(
      fc.property(
        anyProofs,
        anyEncoding,
        anyPrefix,
        fc.boolean(),
        fc.constantFrom(cashuA, cashuB),
        (proofs, encoding, prefix, isPadded, encodeVersion) => {
          const token = encodeVersion({ proofs });
          const unpadded = Buffer.from(payloadOf(token), 'base64url')
            .toString(encoding)
            .replaceAll('=', '');
          const padding = isPadded ? '='.repeat(-unpadded.length & 3) : '';
          const result = parse(`${prefix}${versionOf(token)}${unpadded}${padding}`);
          if (result.outcome !== 'read') {
            expect.fail(result.reason);
          }
          expect(sortBySecret(result.proofs)).toEqual(sortBySecret(proofs));
          expect(result.faceValueSat).toBe(proofs.reduce((sum, { amount }) => sum + amount, 0));
        },
      ),
    );
  });

  const SHORT_ID = PROOF.id.slice(0, 16);

  it.each<[string, string]>([
    ['short keyset ids', cashuA({ proofs: [{ ...PROOF, id: SHORT_ID }] })],
    [
      'short keyset ids in upper case',
      cashuA({ proofs: [{ ...PROOF, id: SHORT_ID.toUpperCase() }] }),
    ],
    ['a mint URL that must be normalised', cashuA({ mint: 'HTTPS://Mint.Example:443//' })],
    ['a mint URL that must be normalised, in version B', cashuB({ mint: 'https://mint.example/' })],
    ['no unit', jsonToken({ token: [{ mint: MINT_URL, proofs: [PROOF] }] })],
    [
      'two entries for the same mint',
      jsonToken({
        token: [
          { mint: MINT_URL, proofs: [] },
          { mint: `${MINT_URL}/`, proofs: [PROOF] },
        ],
      }),
    ],
    ['an amount as a string', cashuA({ proofs: [{ ...PROOF, amount: '8' }] })],
    ['a field that is null', cashuA({ proofs: [{ ...PROOF, witness: null }] })],
  ])('accepts a token with %s', (_case, token) => {
    expect(parse(token)).toEqual({ outcome: 'read', proofs: [PROOF], faceValueSat: 8 });
  });

  it('accepts proofs of an inactive keyset', () => {
    const { outcome } = parse(cashuA({ proofs: [{ ...PROOF, id: inactiveKeyset.id }] }));
    expect(outcome).toBe('read');
  });
});

describe('parseToken with unacceptable tokens', () => {
  const keysetsWithSameShortId = ['0', '1'].map((end) => ({
    ...keysetV1.keyset,
    id: `01${'ab'.repeat(7)}${'0'.repeat(49)}${end}`,
  }));
  const OTHER_MINT_PART = { mint: 'https://other.example', proofs: [PROOF] };
  const ONE_SAT_PROOF = { ...PROOF_V0, amount: 1 };

  it.each<[string, string]>([
    ['from another mint', cashuB({ mint: 'https://other.example' })],
    ['from another mint', cashuB({ mint: 'http://mint.example' })],
    ['from another mint', cashuA({ mint: 'mint.example' })],
    [
      'from another mint',
      jsonToken({ token: [{ mint: MINT_URL, proofs: [PROOF_V0] }, OTHER_MINT_PART] }),
    ],
    ['not in sat', cashuB({ unit: 'usd' })],
    ['not in sat', cashuA({ unit: 'SAT' })],
    ['not in sat', cashuA({ proofs: [{ ...PROOF, id: usdKeyset.id }] })],
    ['contains no ecash', cashuA({ proofs: [] })],
    ['contains no ecash', jsonToken({ token: [] })],
    [
      'keyset id of the token is ambiguous',
      cashuA({ proofs: [{ ...PROOF, id: `01${'ab'.repeat(7)}` }] }),
    ],
    [
      'contains the same proof twice',
      cashuA({ proofs: [PROOF, { ...PROOF_V0, secret: PROOF.secret }] }),
    ],
    [
      `has ${MAX_TOKEN_PROOFS + 1} proofs`,
      cashuA({ proofs: Array(MAX_TOKEN_PROOFS + 1).fill(PROOF) }),
    ],
    ['an amount that is not a whole number', cashuB({ proofs: [{ ...PROOF, amount: 2n ** 63n }] })],
    [
      'an amount that is not a whole number',
      cashuA({ proofs: [{ ...PROOF, amount: Number.MAX_SAFE_INTEGER }, ONE_SAT_PROOF] }),
    ],
    ['cannot be read', cashuA({ proofs: [null] })],
    ['cannot be read', jsonToken(null)],
    ['cannot be read', jsonToken({ token: { length: 1 } })],
    ['not a Cashu token', ''],
    ['not a Cashu token', 'cashuA'],
    ['not a Cashu token', `cashuC${payloadOf(cashuB({}))}`],
    ['not a Cashu token', `creqA${payloadOf(cashuB({}))}`],
    ['not a Cashu token', `${cashuB({})}, ${cashuB({})}`],
    ['not a Cashu token', `${cashuB({})}%00`],
  ])('rejects a token with a reason that contains "%s"', (reason, token) => {
    expectRejected(token, reason);
  });

  it.each([0, -8, 0.5, 2 ** 53, 1e308, null, true, [8], {}, '-8', '8.0', ' 8', '', '0x8'])(
    'rejects a proof with the amount %j',
    (amount) => {
      expectRejected(cashuA({ proofs: [{ ...PROOF, amount }] }), 'an amount');
    },
  );

  it.each<[string, object]>([
    ['a signature that is not on the curve', { C: `02${'f'.repeat(64)}` }],
    ['a signature without a prefix', { C: PROOF.C.slice(2) }],
    ['a signature with the prefix of an uncompressed point', { C: `04${PROOF.C.slice(2)}` }],
    ['a signature that is null', { C: null }],
    ['an empty secret', { secret: '' }],
    ['a secret with a lone surrogate', { secret: '\ud800' }],
    ['a secret that is a number', { secret: 5 }],
    ['a keyset id that is a number', { id: 5 }],
    ['a DLEQ without r', { dleq: { e: PROOF.dleq.e, s: PROOF.dleq.s } }],
    ['a DLEQ that is a string', { dleq: 'yes' }],
  ])('rejects a proof with %s', (_case, change) => {
    expectRejected(cashuA({ proofs: [{ ...PROOF, ...change }] }), 'cannot be read');
  });

  it.each([
    `01${'0'.repeat(14)}`,
    PROOF.id.slice(0, 14),
    PROOF.id.slice(0, 18),
    PROOF_V0.id.slice(0, 14),
    '',
    '__proto__',
  ])('returns unknown_keyset for the keyset id %j', (id) => {
    const { outcome } = parse(cashuA({ proofs: [{ ...PROOF, id }] }));
    expect(outcome).toBe('unknown_keyset');
  });

  const PUBLIC_KEY = `02${'1'.repeat(64)}`;

  it.each([
    ['locked to a public key', createP2PKsecret(PUBLIC_KEY)],
    ['locked to a hash', createHTLCsecret('ab'.repeat(32))],
    ['with an expired lock', createP2PKsecret(PUBLIC_KEY, [['locktime', '1']])],
    ['with an unknown spending condition', createSecret('TIMELOCK', 'soon')],
    ['with a malformed spending condition', '["P2PK",{"data":5}]'],
    ['whose secret is an empty list', '[]'],
  ])('rejects a proof %s as locked', (_case, secret) => {
    expectRejected(
      cashuA({ proofs: [PROOF, withoutDleq(keysetV1.createProof(8, secret))] }),
      'token is locked',
    );
  });

  it('does not quote the token in the reason', () => {
    const secret = 'confidential';
    const tokens = [
      ...['C', 'amount', 'id'].map((field) => cashuA({ proofs: [{ ...PROOF, [field]: secret }] })),
      cashuA({ mint: `https://${secret}.example` }),
      rawToken('A', `{"token": ${secret}`),
      `cashuA${secret}`,
    ];
    for (const token of tokens) {
      expect(parse(token)).toMatchObject({ reason: expect.not.stringContaining(secret) });
    }
  });

  function expectRejected(token: string, reason: string): void {
    expect(parse(token, [...KEYSETS, ...keysetsWithSameShortId])).toEqual({
      outcome: 'rejected',
      reason: expect.stringContaining(reason),
    });
  }
});

describe('parseToken with hostile input', () => {
  const validTokens = [cashuA({}), cashuB({})];

  it('rejects a truncated token', () => {
    for (const token of validTokens) {
      // A token without its last character may still be readable.
      for (let length = 0; length < token.length - 1; length += 1) {
        expect(parse(token.slice(0, length)).outcome, `${length} characters`).toBe('rejected');
      }
    }
  });

  it('never throws when a byte is changed', () => {
    const anyChange = fc.tuple(
      fc.constantFrom(...validTokens),
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
    );
    fc.assert(
      fc.property(anyChange, ([token, position, xorMask]) => {
        const bytes = Buffer.from(payloadOf(token), 'base64url');
        const index = position % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ xorMask;
        parse(versionOf(token) + bytes.toString('base64url'));
      }),
      { numRuns: 2000 },
    );
  });

  const nestedLists = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const withProofs = (proofsJson: string) =>
    rawToken('A', `{"token":[{"mint":"${MINT_URL}","proofs":${proofsJson}}]}`);

  it.each<[string, string]>([
    ['60 KB of one letter', `cashuA${'A'.repeat(60_000)}`],
    ['60 KB of one letter as CBOR', `cashuB${'A'.repeat(60_000)}`],
    ['60 KB without a prefix', 'x'.repeat(60_000)],
    ['60 KB of padding', `cashuB${'A='.repeat(30_000)}`],
    ['unclosed JSON', rawToken('A', '['.repeat(45_000))],
    ['nested JSON', rawToken('A', nestedLists(22_000))],
    ['nested JSON as a proof', withProofs(nestedLists(20_000))],
    ['nested JSON as a secret', cashuA({ proofs: [{ ...PROOF, secret: nestedLists(20_000) }] })],
    ['20,000 numbers as proofs', withProofs(`[${'1,'.repeat(20_000)}1]`)],
    [
      '1,000 entries for the same mint',
      rawToken('A', `{"token":[${`{"mint":"${MINT_URL}","proofs":[]},`.repeat(1000)}0]}`),
    ],
    ['a number of 40,000 digits', withProofs(`[{"amount":${'9'.repeat(40_000)}}]`)],
    [
      'an object with the key __proto__',
      rawToken('A', `{"__proto__":{"token":[{"mint":"${MINT_URL}","proofs":[]}]}}`),
    ],
    ['a CBOR array of 2^32 items', rawToken('B', '9affffffff')],
    ['a CBOR array of 2^64 items', rawToken('B', '9bffffffffffffffff')],
    ['a CBOR map of 2^64 entries', rawToken('B', 'bbffffffffffffffff')],
    ['a CBOR text of 2^53 bytes', rawToken('B', '7b001fffffffffffff00')],
    ['a CBOR byte string of 2^32 bytes', rawToken('B', '5affffffff00')],
    ['nested CBOR arrays', rawToken('B', '81'.repeat(45_000))],
    ['nested CBOR maps', rawToken('B', 'a16161'.repeat(15_000))],
    ['a CBOR array of 45,000 numbers', rawToken('B', `99afc8${'00'.repeat(45_000)}`)],
    ['a CBOR array of 22,000 texts', rawToken('B', `9955f0${'6161'.repeat(22_000)}`)],
    ['a CBOR array of 45,000 maps', rawToken('B', `99afc8${'a0'.repeat(45_000)}`)],
    ['a CBOR array without an end', rawToken('B', `9f${'00'.repeat(45_000)}`)],
    ['nested CBOR tags', rawToken('B', 'c2'.repeat(45_000))],
    ['a CBOR map with the key __proto__', rawToken('B', 'a1695f5f70726f746f5f5fa1617480')],
  ])('rejects %s quickly', (_case, text) => {
    const startedAt = performance.now();
    expect(parse(text).outcome).toBe('rejected');
    // Parsing takes about 1 ms. The limit allows for a busy machine.
    expect(performance.now() - startedAt).toBeLessThan(500);
  });
});

describe('encodeToken', () => {
  it('encodes proofs so that cashu-ts decodes them and the mint accepts them', () => {
    const proofs = [keysetV1, keysetV0].flatMap((keyset) => {
      const outputs = deriveOutputs(Buffer.alloc(64, 7), planOutputs(100, keyset.keys));
      const signatures = outputs.blindedMessages.map((message) => keyset.sign(message));
      return outputs.unblind(signatures, keyset.keys) ?? [];
    });
    const token = encodeToken(MINT_URL, proofs);
    expect(token).toMatch(/^cashuB[\w-]+$/);
    const decoded = getDecodedToken(
      token,
      KEYSETS.map(({ id }) => id),
    );
    expect(decoded).toMatchObject({ mint: MINT_URL, unit: 'sat' });
    const decodedProofs = decoded.proofs.map(({ id, amount, secret, C }) => ({
      id,
      amount: amount.toNumber(),
      secret,
      C,
    }));
    expect(sortBySecret(decodedProofs)).toEqual(sortBySecret(proofs));
    expect(
      decodedProofs.every((proof) =>
        [keysetV1, keysetV0].some((keyset) => keyset.verifyProof(proof)),
      ),
    ).toBe(true);
  });

  it('omits DLEQs, because a DLEQ links a proof to its blinded message', () => {
    const token = encodeToken(MINT_URL, [PROOF]);
    expect(parse(token)).toEqual({
      outcome: 'read',
      proofs: [withoutDleq(PROOF)],
      faceValueSat: 8,
    });
  });
});

function parse(text: string, keysets: readonly Keyset[] = KEYSETS) {
  return parseToken(text, { mintUrl: MINT_URL, allowHttp: false, keysets });
}

/** Encodes a `cashuA` token, as older wallets do. */
function cashuA(content: { mint?: string; unit?: string; proofs?: unknown[] }): string {
  const { mint = MINT_URL, unit = 'sat', proofs = [PROOF] } = content;
  return jsonToken({ token: [{ mint, proofs }], unit, memo: 'for a name' });
}

/** Encodes a `cashuB` token, as cashu-ts does. */
function cashuB(content: { mint?: string; unit?: string; proofs?: AnyProof[] }): string {
  const { mint = MINT_URL, unit = 'sat', proofs = [PROOF] } = content;
  return getEncodedToken({ mint, unit, proofs: normalizeProofAmounts(proofs as Proof[]) });
}

interface AnyProof extends Omit<Proof, 'amount'> {
  amount: number | bigint;
}

function jsonToken(value: unknown): string {
  return rawToken('A', JSON.stringify(value));
}

/** @param content JSON for version A, CBOR in hex for version B */
function rawToken(version: 'A' | 'B', content: string): string {
  const bytes = Buffer.from(content, version === 'A' ? 'utf8' : 'hex');
  return `cashu${version}${bytes.toString('base64url')}`;
}

function versionOf(token: string): string {
  return token.slice(0, 'cashuA'.length);
}

function payloadOf(token: string): string {
  return token.slice('cashuA'.length);
}

function withoutDleq({ dleq: _, ...proof }: Proof): Proof {
  return proof;
}

function sortBySecret(proofs: readonly Proof[]): Proof[] {
  return proofs.toSorted((a, b) => a.secret.localeCompare(b.secret));
}
