import { describe, expect, it } from 'vitest';
import type { Proof } from '../../src/mints/ecash.ts';
import { computeInputFeeSat, computeY, hasInvalidDleq } from '../../src/usernames/ecash/proofs.ts';
import { SigningKeyset } from '../helpers/signing-keyset.ts';

/** The test vectors of NUT-00 as text. */
it.each([
  ['\0'.repeat(32), '024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725'],
  [
    `${'\0'.repeat(31)}\u0001`,
    '022e7158e11c9506f1aa4248bf531298daa7febd6194f003edcd9b93ade6253acf',
  ],
])('computeY maps the secret %s to its point', (secret, y) => {
  expect(computeY({ secret })).toBe(y);
});

describe('DLEQ verification', () => {
  const mint = new SigningKeyset();
  const proof = mint.createProof(8, 'a secret');
  const { dleq, ...bare } = proof;

  it('accepts a correct or missing DLEQ proof', () => {
    expect(hasInvalidDleq(proof, mint.keys)).toBe(false);
    expect(hasInvalidDleq(bare, mint.keys)).toBe(false);
  });

  it.each<[string, Partial<Proof>]>([
    ['the proof is of another amount', { amount: 4 }],
    ['the mint signs no such amount', { amount: 3 }],
    ['the secret is another', { secret: 'another secret' }],
    ['the signature is another', { C: mint.createProof(8, 'another secret').C }],
    ['the signature is none', { C: `02${'f'.repeat(64)}` }],
    ['it is another', { dleq: { ...dleq, s: '1'.repeat(64) } }],
    ['it is out of range', { dleq: { ...dleq, r: 'f'.repeat(64) } }],
    ['it is nothing', { dleq: { e: '0'.repeat(64), s: '0'.repeat(64), r: '0'.repeat(64) } }],
  ])('rejects a DLEQ proof if %s', (_case, change) => {
    expect(hasInvalidDleq({ ...proof, ...change }, mint.keys)).toBe(true);
  });

  it("rejects a DLEQ proof made with another mint's keys", () => {
    const other = new SigningKeyset();
    expect(hasInvalidDleq(proof, { ...other.keys, id: mint.keys.id })).toBe(true);
  });

  it('never checks against the keys of another keyset', () => {
    expect(() => hasInvalidDleq(proof, new SigningKeyset().keys)).toThrow('not the keys');
  });
});

describe('input fee', () => {
  const keyset = (id: string, inputFeePpk: number) => ({
    id,
    unit: 'sat',
    active: true,
    inputFeePpk,
  });
  const keysets = [keyset('free', 0), keyset('tenth', 100), keyset('odd', 999)];
  const proofs = (...ids: string[]) => ids.map((id) => ({ id, amount: 1, secret: id, C: '' }));

  it.each<[string[], number]>([
    [[], 0],
    [['free', 'free'], 0],
    [['tenth'], 1],
    [Array<string>(10).fill('tenth'), 1],
    [Array<string>(11).fill('tenth'), 2],
    [['odd', 'free'], 1],
    [['odd', 'tenth'], 2],
  ])('for %j is %i sat', (ids, feeSat) => {
    expect(computeInputFeeSat(proofs(...ids), keysets)).toBe(feeSat);
  });

  it('throws for an unknown keyset', () => {
    expect(() => computeInputFeeSat(proofs('other'), keysets)).toThrow('not known');
  });
});
