import { describe, expect, it } from 'vitest';
import type { Proof } from '../../../src/mints/ecash.ts';
import {
  computeInputFeeSat,
  computeY,
  hasInvalidDleq,
} from '../../../src/usernames/ecash/proofs.ts';
import { FakeMintKeyset } from '../../helpers/mints/fake-mint-keyset.ts';

// Test vectors from NUT-00.
it.each([
  ['\0'.repeat(32), '024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725'],
  [
    `${'\0'.repeat(31)}\u0001`,
    '022e7158e11c9506f1aa4248bf531298daa7febd6194f003edcd9b93ade6253acf',
  ],
])('computeY maps the secret %j to the point %s', (secret, y) => {
  expect(computeY({ secret })).toBe(y);
});

describe('hasInvalidDleq', () => {
  const mint = new FakeMintKeyset();
  const proof = mint.createProof(8, 'a secret');
  const { dleq, ...proofWithoutDleq } = proof;

  it('returns false for a valid or missing DLEQ', () => {
    expect(hasInvalidDleq(proof, mint.keys)).toBe(false);
    expect(hasInvalidDleq(proofWithoutDleq, mint.keys)).toBe(false);
  });

  it.each<[string, Partial<Proof>]>([
    ['the proof has another amount', { amount: 4 }],
    ['the mint has no key for the amount', { amount: 3 }],
    ['the proof has another secret', { secret: 'another secret' }],
    ['the proof has another signature', { C: mint.createProof(8, 'another secret').C }],
    ['the signature is not on the curve', { C: `02${'f'.repeat(64)}` }],
    ['another value replaces s', { dleq: { ...dleq, s: '1'.repeat(64) } }],
    ['r is out of range', { dleq: { ...dleq, r: 'f'.repeat(64) } }],
    [
      'all its values are zero',
      { dleq: { e: '0'.repeat(64), s: '0'.repeat(64), r: '0'.repeat(64) } },
    ],
  ])('returns true if %s', (_case, change) => {
    expect(hasInvalidDleq({ ...proof, ...change }, mint.keys)).toBe(true);
  });

  it('returns true if the keyset has other keys than those that signed the proof', () => {
    const otherMint = new FakeMintKeyset();
    expect(hasInvalidDleq(proof, { ...otherMint.keys, id: mint.keys.id })).toBe(true);
  });

  it('throws if the keys have another keyset id than the proof', () => {
    expect(() => hasInvalidDleq(proof, new FakeMintKeyset().keys)).toThrow('not the keys');
  });
});

describe('computeInputFeeSat', () => {
  const keyset = (id: string, inputFeePpk: number) => ({
    id,
    unit: 'sat',
    active: true,
    inputFeePpk,
  });
  const keysets = [keyset('0 ppk', 0), keyset('100 ppk', 100), keyset('999 ppk', 999)];
  const proofsOf = (...ids: string[]) => ids.map((id) => ({ id, amount: 1, secret: id, C: '' }));

  it.each<[number, string[]]>([
    [0, []],
    [0, ['0 ppk', '0 ppk']],
    [1, ['100 ppk']],
    [1, Array<string>(10).fill('100 ppk')],
    [2, Array<string>(11).fill('100 ppk')],
    [1, ['999 ppk', '0 ppk']],
    [2, ['999 ppk', '100 ppk']],
  ])('returns %i sat for proofs of the keysets %j', (feeSat, ids) => {
    expect(computeInputFeeSat(proofsOf(...ids), keysets)).toBe(feeSat);
  });

  it('throws if a proof has an unknown keyset', () => {
    expect(() => computeInputFeeSat(proofsOf('unknown'), keysets)).toThrow('not known');
  });
});
