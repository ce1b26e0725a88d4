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
import type { Keyset, Proof } from '../../src/mints/ecash.ts';
import {
  encodeToken,
  MAX_TOKEN_PROOFS,
  parseToken,
} from '../../src/usernames/ecash/cashu-token.ts';
import { deriveOutputs, planOutputs } from '../../src/usernames/ecash/proofs.ts';
import { SigningKeyset } from '../helpers/signing-keyset.ts';

const MINT = 'https://mint.example';

const newMint = new SigningKeyset();
const oldMint = new SigningKeyset({ version: 0 });
const inactive: Keyset = { ...new SigningKeyset().keyset, active: false };
const usd: Keyset = { ...new SigningKeyset().keyset, unit: 'usd' };
const KEYSETS = [newMint.keyset, oldMint.keyset, inactive, usd];

const PROOF = newMint.createProof(8, 'a secret');
const OLD_PROOF = oldMint.createProof(2, 'an old secret');

describe('parseCashuToken accepts', () => {
  const anyProofs = fc.subarray(
    [
      PROOF,
      OLD_PROOF,
      bare(newMint.createProof(1, 'bare')),
      bare(oldMint.createProof(4, 'old and bare')),
    ],
    { minLength: 1 },
  );
  const anyAlphabet = fc.constantFrom<BufferEncoding[]>('base64', 'base64url');
  const anyPrefix = fc.constantFrom('', 'cashu:', 'cashu://', ' ');

  it('both versions in any base64, with and without padding and prefix', () => {
    fc.assert(
      fc.property(
        anyProofs,
        anyAlphabet,
        anyPrefix,
        fc.boolean(),
        fc.constantFrom(tokenA, tokenB),
        (proofs, alphabet, prefix, isPadded, encode) => {
          const token = encode({ proofs });
          const unpadded = Buffer.from(body(token), 'base64url')
            .toString(alphabet)
            .replaceAll('=', '');
          const padding = isPadded ? '='.repeat(-unpadded.length & 3) : '';
          const reading = read(`${prefix}${token.slice(0, 'cashuA'.length)}${unpadded}${padding}`);
          if (reading.outcome !== 'read') {
            expect.fail(reading.reason);
          }
          expect(bySecret(reading.proofs)).toEqual(bySecret(proofs));
          expect(reading.faceValueSat).toBe(proofs.reduce((sum, { amount }) => sum + amount, 0));
        },
      ),
    );
  });

  const SHORT_ID = PROOF.id.slice(0, 16);

  it.each<[string, string]>([
    ['short keyset ids', tokenA({ proofs: [{ ...PROOF, id: SHORT_ID }] })],
    [
      'short keyset ids in upper case',
      tokenA({ proofs: [{ ...PROOF, id: SHORT_ID.toUpperCase() }] }),
    ],
    ['another spelling of the mint URL', tokenA({ mint: 'HTTPS://Mint.Example:443//' })],
    ['another spelling of the mint URL in version B', tokenB({ mint: 'https://mint.example/' })],
    ['no unit', json({ token: [{ mint: MINT, proofs: [PROOF] }] })],
    [
      'two parts',
      json({
        token: [
          { mint: MINT, proofs: [] },
          { mint: `${MINT}/`, proofs: [PROOF] },
        ],
      }),
    ],
    ['amounts as text', tokenA({ proofs: [{ ...PROOF, amount: '8' }] })],
    ['null fields', tokenA({ proofs: [{ ...PROOF, witness: null }] })],
  ])('%s', (_case, token) => {
    expect(read(token)).toEqual({ outcome: 'read', proofs: [PROOF], faceValueSat: 8 });
  });

  it('proofs of an inactive keyset', () => {
    const { outcome } = read(tokenA({ proofs: [{ ...PROOF, id: inactive.id }] }));
    expect(outcome).toBe('read');
  });
});

describe('parseCashuToken rejects', () => {
  // Two keysets with the same short id.
  const twins = ['0', '1'].map((end) => ({
    ...newMint.keyset,
    id: `01${'ab'.repeat(7)}${'0'.repeat(49)}${end}`,
  }));
  const OTHER_PART = { mint: 'https://other.example', proofs: [PROOF] };
  const ONE_MORE = { ...OLD_PROOF, amount: 1 };

  it.each<[string, string]>([
    ['from another mint', tokenB({ mint: 'https://other.example' })],
    ['from another mint', tokenB({ mint: 'http://mint.example' })],
    ['from another mint', tokenA({ mint: 'mint.example' })],
    ['from another mint', json({ token: [{ mint: MINT, proofs: [OLD_PROOF] }, OTHER_PART] })],
    ['not in sat', tokenB({ unit: 'usd' })],
    ['not in sat', tokenA({ unit: 'SAT' })],
    ['not in sat', tokenA({ proofs: [{ ...PROOF, id: usd.id }] })],
    ['no ecash', tokenA({ proofs: [] })],
    ['no ecash', json({ token: [] })],
    ['ambiguous', tokenA({ proofs: [{ ...PROOF, id: `01${'ab'.repeat(7)}` }] })],
    ['same proof', tokenA({ proofs: [PROOF, { ...OLD_PROOF, secret: PROOF.secret }] })],
    ['has 257 proofs', tokenA({ proofs: Array(MAX_TOKEN_PROOFS + 1).fill(PROOF) })],
    ['an amount', tokenB({ proofs: [{ ...PROOF, amount: 2n ** 63n }] })],
    ['an amount', tokenA({ proofs: [{ ...PROOF, amount: 2 ** 53 - 1 }, ONE_MORE] })],
    ['cannot be read', tokenA({ proofs: [null] })],
    ['cannot be read', json(null)],
    ['cannot be read', json({ token: { length: 1 } })],
    ['not a Cashu token', ''],
    ['not a Cashu token', 'cashuA'],
    ['not a Cashu token', `cashuC${body(tokenB({}))}`],
    ['not a Cashu token', `creqA${body(tokenB({}))}`],
    ['not a Cashu token', `${tokenB({})}, ${tokenB({})}`],
    ['not a Cashu token', `${tokenB({})}%00`],
  ])('a token: %s', (reason, token) => {
    expectRejected(token, reason);
  });

  it.each([0, -8, 0.5, 2 ** 53, 1e308, null, true, [8], {}, '-8', '8.0', ' 8', '', '0x8'])(
    'the amount %j',
    (amount) => {
      expectRejected(tokenA({ proofs: [{ ...PROOF, amount }] }), 'an amount');
    },
  );

  it.each<object>([
    { C: `02${'f'.repeat(64)}` },
    { C: PROOF.C.slice(2) },
    { C: `04${PROOF.C.slice(2)}` },
    { C: null },
    { secret: '' },
    { secret: '\ud800' },
    { secret: 5 },
    { id: 5 },
    { dleq: { e: PROOF.dleq.e, s: PROOF.dleq.s } },
    { dleq: 'yes' },
  ])('a proof with %j', (change) => {
    expectRejected(tokenA({ proofs: [{ ...PROOF, ...change }] }), 'cannot be read');
  });

  it.each([
    `01${'0'.repeat(14)}`,
    PROOF.id.slice(0, 14),
    PROOF.id.slice(0, 18),
    OLD_PROOF.id.slice(0, 14),
    '',
    '__proto__',
  ])('the unknown keyset id %j', (id) => {
    const { outcome } = read(tokenA({ proofs: [{ ...PROOF, id }] }));
    expect(outcome).toBe('unknown_keyset');
  });

  const KEY = `02${'1'.repeat(64)}`;

  it.each([
    ['to a key', createP2PKsecret(KEY)],
    ['to a hash', createHTLCsecret('ab'.repeat(32))],
    ['by an expired lock', createP2PKsecret(KEY, [['locktime', '1']])],
    ['by an unknown condition', createSecret('TIMELOCK', 'soon')],
    ['by a malformed condition', '["P2PK",{"data":5}]'],
    ['by an empty list', '[]'],
  ])('a token locked %s', (_case, secret) => {
    expectRejected(
      tokenA({ proofs: [PROOF, bare(newMint.createProof(8, secret))] }),
      'token is locked',
    );
  });

  it('without quoting the token', () => {
    const secret = 'worth';
    const tokens = [
      ...['C', 'amount', 'id'].map((field) => tokenA({ proofs: [{ ...PROOF, [field]: secret }] })),
      tokenA({ mint: `https://${secret}.example` }),
      cashu('A', `{"token": ${secret}`),
      `cashuA${secret}`,
    ];
    for (const token of tokens) {
      expect(read(token)).toMatchObject({ reason: expect.not.stringContaining(secret) });
    }
  });

  function expectRejected(token: string, reason: string): void {
    expect(read(token, [...KEYSETS, ...twins])).toEqual({
      outcome: 'rejected',
      reason: expect.stringContaining(reason),
    });
  }
});

describe('parseCashuToken with hostile input', () => {
  const valid = [tokenA({}), tokenB({})];

  it('rejects a truncated token', () => {
    for (const token of valid) {
      // The last character may only pad base64 or close JSON.
      for (let length = 0; length < token.length - 1; length += 1) {
        expect(read(token.slice(0, length)).outcome, `${length}`).toBe('rejected');
      }
    }
  });

  it('never throws when a byte is changed', () => {
    const flip = fc.tuple(fc.constantFrom(...valid), fc.nat(), fc.integer({ min: 1, max: 255 }));
    fc.assert(
      fc.property(flip, ([token, at, change]) => {
        const bytes = Buffer.from(body(token), 'base64url');
        const index = at % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ change;
        read(token.slice(0, 6) + bytes.toString('base64url'));
      }),
      { numRuns: 2000 },
    );
  });

  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const withProofs = (proofs: string) =>
    cashu('A', `{"token":[{"mint":"${MINT}","proofs":${proofs}}]}`);

  it.each<[string, string]>([
    ['60 KB of one letter', `cashuA${'A'.repeat(60_000)}`],
    ['60 KB of one letter as CBOR', `cashuB${'A'.repeat(60_000)}`],
    ['60 KB without a prefix', 'x'.repeat(60_000)],
    ['60 KB of padding', `cashuB${'A='.repeat(30_000)}`],
    ['unclosed JSON', cashu('A', '['.repeat(45_000))],
    ['nested JSON', cashu('A', nested(22_000))],
    ['nested JSON as a proof', withProofs(nested(20_000))],
    ['nested JSON as a secret', tokenA({ proofs: [{ ...PROOF, secret: nested(20_000) }] })],
    ['20,000 numbers as proofs', withProofs(`[${'1,'.repeat(20_000)}1]`)],
    ['1,000 parts', cashu('A', `{"token":[${`{"mint":"${MINT}","proofs":[]},`.repeat(1000)}0]}`)],
    ['a number of 40,000 digits', withProofs(`[{"amount":${'9'.repeat(40_000)}}]`)],
    ['a prototype', cashu('A', `{"__proto__":{"token":[{"mint":"${MINT}","proofs":[]}]}}`)],
    ['an array of 2^32 in CBOR', cashu('B', '9affffffff')],
    ['an array of 2^64 in CBOR', cashu('B', '9bffffffffffffffff')],
    ['a map of 2^64 in CBOR', cashu('B', 'bbffffffffffffffff')],
    ['text of 2^53 bytes in CBOR', cashu('B', '7b001fffffffffffff00')],
    ['bytes of 2^32 in CBOR', cashu('B', '5affffffff00')],
    ['nested arrays in CBOR', cashu('B', '81'.repeat(45_000))],
    ['nested maps in CBOR', cashu('B', 'a16161'.repeat(15_000))],
    ['many numbers in CBOR', cashu('B', `99afc8${'00'.repeat(45_000)}`)],
    ['many texts in CBOR', cashu('B', `9955f0${'6161'.repeat(22_000)}`)],
    ['many maps in CBOR', cashu('B', `99afc8${'a0'.repeat(45_000)}`)],
    ['CBOR without an end', cashu('B', `9f${'00'.repeat(45_000)}`)],
    ['tags in CBOR', cashu('B', 'c2'.repeat(45_000))],
    ['a prototype in CBOR', cashu('B', 'a1695f5f70726f746f5f5fa1617480')],
  ])('rejects %s quickly', (_case, text) => {
    const startedAt = performance.now();
    expect(read(text).outcome).toBe('rejected');
    // Takes about 1 ms; the limit allows for a busy machine.
    expect(performance.now() - startedAt).toBeLessThan(500);
  });
});

describe('encodeToken', () => {
  it('writes a token that wallets decode and the mint accepts', () => {
    const proofs = [newMint, oldMint].flatMap((mint) => {
      const outputs = deriveOutputs(Buffer.alloc(64, 7), planOutputs(100, mint.keys));
      const signatures = outputs.blindedMessages.map((message) => mint.sign(message));
      return outputs.unblind(signatures, mint.keys) ?? [];
    });
    const token = encodeToken(MINT, proofs);
    expect(token).toMatch(/^cashuB[\w-]+$/);
    const decoded = getDecodedToken(
      token,
      KEYSETS.map(({ id }) => id),
    );
    expect(decoded).toMatchObject({ mint: MINT, unit: 'sat' });
    const received = decoded.proofs.map(({ id, amount, secret, C }) => ({
      id,
      amount: amount.toNumber(),
      secret,
      C,
    }));
    expect(bySecret(received)).toEqual(bySecret(proofs));
    expect(
      received.every((proof) => [newMint, oldMint].some((mint) => mint.verifyProof(proof))),
    ).toBe(true);
  });

  it('omits DLEQ proofs, which link proofs to the blinded messages they came from', () => {
    const token = encodeToken(MINT, [PROOF]);
    expect(read(token)).toEqual({ outcome: 'read', proofs: [bare(PROOF)], faceValueSat: 8 });
  });
});

function read(text: string, keysets: readonly Keyset[] = KEYSETS) {
  return parseToken(text, { mintUrl: MINT, allowHttp: false, keysets });
}

/** Encodes a token like older wallets. */
function tokenA(parts: { mint?: string; unit?: string; proofs?: unknown[] }): string {
  const { mint = MINT, unit = 'sat', proofs = [PROOF] } = parts;
  return json({ token: [{ mint, proofs }], unit, memo: 'for a name' });
}

/** Encodes a token like cashu-ts. */
function tokenB(parts: { mint?: string; unit?: string; proofs?: AnyProof[] }): string {
  const { mint = MINT, unit = 'sat', proofs = [PROOF] } = parts;
  return getEncodedToken({ mint, unit, proofs: normalizeProofAmounts(proofs as Proof[]) });
}

interface AnyProof extends Omit<Proof, 'amount'> {
  amount: number | bigint;
}

function json(value: unknown): string {
  return cashu('A', JSON.stringify(value));
}

/** @param content JSON for version A, hex for version B */
function cashu(version: 'A' | 'B', content: string): string {
  const bytes = Buffer.from(content, version === 'A' ? 'utf8' : 'hex');
  return `cashu${version}${bytes.toString('base64url')}`;
}

function body(token: string): string {
  return token.slice('cashuA'.length);
}

function bare({ dleq: _, ...proof }: Proof): Proof {
  return proof;
}

function bySecret(proofs: readonly Proof[]): Proof[] {
  return proofs.toSorted((a, b) => a.secret.localeCompare(b.secret));
}
