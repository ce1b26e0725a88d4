import {
  createHTLCsecret,
  createP2PKsecret,
  getEncodedToken,
  normalizeProofAmounts,
} from '@cashu/cashu-ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Keyset, Proof } from '../../../src/mints/ecash.ts';
import { decodeToken, validateToken } from '../../../src/usernames/ecash/cashu-token.ts';
import { MAX_TOKEN_LENGTH, MAX_TOKEN_PROOFS } from '../../../src/usernames/limits.ts';
import { FakeMintKeyset } from '../../helpers/mints/fake-mint-keyset.ts';

const MINT_URL = 'https://mint.example';
const NOW_MS = Date.parse('2026-11-21T10:00:00Z');

const keysetV1 = new FakeMintKeyset();
const keysetV0 = new FakeMintKeyset({ version: 0 });
const inactiveKeyset: Keyset = { ...new FakeMintKeyset().keyset, active: false };
const usdKeyset: Keyset = { ...new FakeMintKeyset().keyset, unit: 'usd' };
const KEYSETS = [keysetV1.keyset, keysetV0.keyset, inactiveKeyset, usdKeyset];

const PROOF = keysetV1.createProof(8, 'a secret');
const PROOF_V0 = keysetV0.createProof(2, 'an old secret');

// test/acceptance/username-purchase.test.ts has the versions and encodings of tokens.

describe('an acceptable token', () => {
  it.each<[string, string]>([
    ['short keyset ids', cashuA({ proofs: [{ ...PROOF, id: PROOF.id.slice(0, 16) }] })],
    ['a mint URL that must be normalised', cashuA({ mint: 'HTTPS://Mint.Example:443//' })],
    ['no unit', jsonToken({ token: [{ mint: MINT_URL, proofs: [PROOF] }] })],
    ['an amount as a string', cashuA({ proofs: [{ ...PROOF, amount: '8' }] })],
  ])('accepts a token with %s', async (_case, token) => {
    expect(await validate(token)).toEqual({ outcome: 'valid', proofs: [withoutDleq(PROOF)] });
  });

  it('accepts proofs of an inactive keyset', async () => {
    const { outcome } = await validate(cashuA({ proofs: [{ ...PROOF, id: inactiveKeyset.id }] }));
    expect(outcome).toBe('valid');
  });
});

describe('an unacceptable token', () => {
  const OTHER_MINT_PART = { mint: 'https://other.example', proofs: [PROOF] };

  it.each<[string, string]>([
    ['from another mint', cashuB({ mint: 'https://other.example' })],
    ['from another mint', cashuB({ mint: 'http://mint.example' })],
    [
      'from another mint',
      jsonToken({ token: [{ mint: MINT_URL, proofs: [PROOF_V0] }, OTHER_MINT_PART] }),
    ],
    ['not in sat', cashuB({ unit: 'usd' })],
    ['not in sat', cashuA({ proofs: [{ ...PROOF, id: usdKeyset.id }] })],
    ['contains no ecash', cashuA({ proofs: [] })],
    ['contains no ecash', jsonToken({ token: [] })],
    [
      'contains the same proof twice',
      cashuA({ proofs: [PROOF, { ...PROOF_V0, secret: PROOF.secret }] }),
    ],
    [
      `at most ${MAX_TOKEN_PROOFS} proofs`,
      cashuA({ proofs: Array(MAX_TOKEN_PROOFS + 1).fill(withoutDleq(PROOF_V0)) }),
    ],
    ['at most 64 proofs and 16 KB', `cashuA${'A'.repeat(MAX_TOKEN_LENGTH)}`],
    ['cannot be read', cashuB({ proofs: [{ ...PROOF, amount: 2n ** 63n }] })],
    [
      'at most 9 sat',
      cashuA({ proofs: [{ ...PROOF, amount: Number.MAX_SAFE_INTEGER }, PROOF_V0] }),
    ],
    ['cannot be read', cashuA({ proofs: [null] })],
    ['not a Cashu token', ''],
    ['not a Cashu token', `cashuC${payloadOf(cashuB({}))}`],
    ['not a Cashu token', `${cashuB({})}, ${cashuB({})}`],
  ])('rejects a token with a reason that contains "%s"', async (reason, token) => {
    await expectRejected(token, reason);
  });

  it.each([
    ...[0, -8, 0.5, 2 ** 53, null, [8], '8.0', '0x8'].map((amount) => ({ amount })),
    { C: `02${'f'.repeat(64)}` },
    { secret: '' },
    { secret: '\ud800' },
  ])('cannot read a proof with %j', async (change) => {
    await expectRejected(cashuA({ proofs: [{ ...PROOF, ...change }] }), 'cannot be read');
  });

  const AMBIGUOUS_ID = `01${'ab'.repeat(7)}`;

  it.each([AMBIGUOUS_ID, `01${'0'.repeat(14)}`, PROOF.id.slice(0, 14), '', '__proto__'])(
    'rejects the unknown keyset id %j',
    async (id) => {
      const keysets = ['0', '1'].map((end) => `${AMBIGUOUS_ID}${'0'.repeat(49)}${end}`);
      const token = cashuA({ proofs: [{ ...PROOF, id }] });
      const others = keysets.map((each) => ({ ...keysetV1.keyset, id: each }));
      expect(await validate(token, 8, [...KEYSETS, ...others])).toEqual({
        outcome: 'rejected',
        reason: 'The token uses an unknown keyset.',
      });
    },
  );

  it.each([
    ['a public key', createP2PKsecret(`02${'1'.repeat(64)}`)],
    ['a hash', createHTLCsecret('ab'.repeat(32))],
  ])('rejects a proof that is locked to %s', async (_case, secret) => {
    const locked = withoutDleq(keysetV1.createProof(8, secret));
    await expectRejected(cashuA({ proofs: [PROOF, locked] }), 'token is locked');
  });

  it('does not quote the token in the reason', async () => {
    const secret = 'confidential';
    const tokens = [
      ...['C', 'amount', 'id'].map((field) => cashuA({ proofs: [{ ...PROOF, [field]: secret }] })),
      cashuA({ mint: `https://${secret}.example` }),
      rawToken('A', `{"token": ${secret}`),
      `cashuA${secret}`,
    ];
    for (const token of tokens) {
      expect(await validate(token)).toMatchObject({ reason: expect.not.stringContaining(secret) });
    }
  });

  async function expectRejected(token: string, reason: string): Promise<void> {
    const rejection = { outcome: 'rejected', reason: expect.stringContaining(reason) };
    expect(await validate(token)).toEqual(rejection);
  }
});

describe('hostile input', () => {
  it('never throws when a byte is changed', () => {
    const anyToken = fc.constantFrom(cashuA({}), cashuB({}));
    fc.assert(
      fc.property(
        anyToken,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (token, position, xorMask) => {
          const bytes = Buffer.from(payloadOf(token), 'base64url');
          const index = position % bytes.length;
          bytes[index] = (bytes[index] ?? 0) ^ xorMask;
          decodeToken(token.slice(0, 'cashuA'.length) + bytes.toString('base64url'));
        },
      ),
      { numRuns: 2000 },
    );
  });

  // test/load/event-loop/client-inputs.test.ts measures what large tokens cost.
  it.each<[string, string]>([
    ['padding', `cashuB${'A='.repeat(5_000)}`],
    ['unclosed JSON', rawToken('A', '['.repeat(10_000))],
    [
      'an object with the key __proto__',
      rawToken('A', `{"__proto__":{"token":[{"mint":"${MINT_URL}","proofs":[]}]}}`),
    ],
    ['a CBOR array of 2^64 items', rawToken('B', '9bffffffffffffffff')],
    ['a CBOR byte string of 2^32 bytes', rawToken('B', '5affffffff00')],
    ['a CBOR map with the key __proto__', rawToken('B', 'a1695f5f70726f746f5f5fa1617480')],
  ])('rejects %s', async (_case, text) => {
    expect((await validate(text)).outcome).toBe('rejected');
  });
});

describe('the accepted value', () => {
  const expensiveKeyset = new FakeMintKeyset({ inputFeePpk: 1_500 });
  const tokenOf = (keyset: FakeMintKeyset, amountsSat: number[]) =>
    cashuA({
      proofs: amountsSat.map((amount) => ({
        ...PROOF,
        id: keyset.keyset.id,
        amount,
        secret: `of ${amount}`,
      })),
    });

  it.each([
    { priceSat: 9, maxSat: 10 },
    { priceSat: 10, maxSat: 11 },
    { priceSat: 20, maxSat: 22 },
  ])('for a price of $priceSat sat is at most $maxSat sat', async ({ priceSat, maxSat }) => {
    const outcomeOf = async (sat: number) =>
      (await validate(tokenOf(keysetV1, [sat]), priceSat)).outcome;
    expect(await Promise.all([priceSat, maxSat].map(outcomeOf))).toEqual(['valid', 'valid']);
    expect(await Promise.all([priceSat - 1, maxSat + 1].map(outcomeOf))).toEqual([
      'rejected',
      'rejected',
    ]);
  });

  it('is higher by the mint’s fee for the token, which some wallets add', async () => {
    const outcomeOf = async (amountsSat: number[]) =>
      (await validate(tokenOf(expensiveKeyset, amountsSat), 10, [expensiveKeyset.keyset])).outcome;
    // Two proofs cost 3 sat.
    expect(await outcomeOf([8, 6])).toBe('valid');
    expect(await outcomeOf([8, 7])).toBe('rejected');
  });
});

async function validate(text: string, priceSat = 8, keysets: readonly Keyset[] = KEYSETS) {
  const token = decodeToken(text);
  const requirements = { mintUrl: MINT_URL, allowHttp: false, keysets, priceSat, nowMs: NOW_MS };
  return token.outcome === 'rejected' ? token : await validateToken(token, requirements);
}

/** Encodes a `cashuA` token, as older wallets do. */
function cashuA(content: { mint?: string; unit?: string; proofs?: unknown[] }): string {
  const { mint = MINT_URL, unit = 'sat', proofs = [PROOF] } = content;
  return jsonToken({ token: [{ mint, proofs }], unit, memo: 'for a name' });
}

/** Encodes a `cashuB` token, as cashu-ts does. */
function cashuB(content: { mint?: string; unit?: string; proofs?: object[] }): string {
  const { mint = MINT_URL, unit = 'sat', proofs = [PROOF] } = content;
  return getEncodedToken({ mint, unit, proofs: normalizeProofAmounts(proofs as Proof[]) });
}

function jsonToken(value: unknown): string {
  return rawToken('A', JSON.stringify(value));
}

/** @param content JSON for version A, CBOR in hex for version B */
function rawToken(version: 'A' | 'B', content: string): string {
  const bytes = Buffer.from(content, version === 'A' ? 'utf8' : 'hex');
  return `cashu${version}${bytes.toString('base64url')}`;
}

function payloadOf(token: string): string {
  return token.slice('cashuA'.length);
}

function withoutDleq({ dleq: _, ...proof }: Proof & { dleq?: unknown }): Proof {
  return proof;
}
