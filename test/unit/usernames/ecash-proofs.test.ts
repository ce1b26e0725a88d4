import { describe, expect, it } from 'vitest';
import { computeInputFeeSat, computeY } from '../../../src/usernames/ecash/proofs.ts';

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
});
