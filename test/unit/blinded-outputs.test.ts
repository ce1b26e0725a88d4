import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BlindSignature, Keyset } from '../../src/mints/ecash.ts';
import {
  deriveOutputSeed,
  deriveOutputs,
  planOutputs,
  selectOutputKeyset,
  verifyKeysetKeys,
} from '../../src/usernames/ecash/proofs.ts';
import { SigningKeyset } from '../helpers/signing-keyset.ts';

const SECRET = 'a treasury secret of more than 32 characters';
const seed = deriveOutputSeed(SECRET, 'purchase 1', 0);

describe.each([0, 1] as const)('outputs of a keyset of version %i', (version) => {
  const mint = new SigningKeyset({ version });
  const other = new SigningKeyset({ version });
  const plan = { keysetId: mint.keyset.id, amounts: [1, 2, 8] };
  const outputs = deriveOutputs(seed, plan);
  const signatures = outputs.blindedMessages.map((message) => mint.sign(message));
  const withoutEvidence = signatures.map(({ amount, id, C_ }) => ({ amount, id, C_ }));

  it('derives the same outputs from the journal after a crash', () => {
    const again = deriveOutputs(deriveOutputSeed(SECRET, 'purchase 1', 0), structuredClone(plan));
    expect(again.blindedMessages).toEqual(outputs.blindedMessages);
    expect(again.unblind(signatures, mint.keys)).toEqual(outputs.unblind(signatures, mint.keys));
  });

  it.each([
    ['with', signatures],
    ['without', withoutEvidence],
  ])('unblinds signatures %s DLEQ proofs into proofs that the mint accepts', (_case, signed) => {
    const proofs = outputs.unblind(signed, mint.keys);
    expect(proofs?.map(({ amount }) => amount)).toEqual(plan.amounts);
    expect(proofs?.every((proof) => mint.verifyProof(proof))).toBe(true);
    for (const proof of proofs ?? []) {
      expect(Object.keys(proof).sort()).toEqual(['C', 'amount', 'id', 'secret']);
    }
  });

  it.each<[string, BlindSignature[]]>([
    ['a missing signature', withoutEvidence.slice(1)],
    ['one signature too many', [...withoutEvidence, ...withoutEvidence.slice(0, 1)]],
    ['another order', withoutEvidence.toReversed()],
    ['another amount', changed(withoutEvidence, { amount: 4 })],
    ['no amount', changed(withoutEvidence, { amount: Number.NaN })],
    ['another keyset', changed(withoutEvidence, { id: other.keyset.id })],
    ['a point off the curve', changed(withoutEvidence, { C_: `02${'f'.repeat(64)}` })],
    ['no point', changed(withoutEvidence, { C_: 'signature' })],
    ['the signature of another output', changed(signatures, { C_: signatures[1]?.C_ ?? '' })],
    ['false evidence', changed(signatures, { dleq: { e: '1'.repeat(64), s: '2'.repeat(64) } })],
    ['malformed evidence', changed(signatures, { dleq: { e: 'e', s: 's' } })],
  ])('does not unblind %s', (_case, signed) => {
    expect(outputs.unblind(signed, mint.keys)).toBeNull();
  });

  it('does not unblind with the keys of another keyset', () => {
    const relabelled = withoutEvidence.map((signature) => ({ ...signature, id: other.keys.id }));
    expect(outputs.unblind(withoutEvidence, other.keys)).toBeNull();
    expect(outputs.unblind(relabelled, other.keys)).toBeNull();
  });

  it('matches restored signatures in any order if none is missing', () => {
    const restored = signatures.map((signature, index) => ({
      B_: outputs.blindedMessages[index]?.B_ ?? '',
      signature,
    }));
    expect(outputs.orderSignatures(restored.toReversed())).toEqual(signatures);
    expect(outputs.orderSignatures(restored.slice(1))).toBeNull();
    expect(outputs.orderSignatures([])).toBeNull();
  });
});

describe('planOutputs', () => {
  const { keys } = new SigningKeyset();
  const onlyKeys = (...amounts: string[]) => ({
    id: keys.id,
    keys: Object.fromEntries(amounts.map((amount) => [amount, keys.keys[amount] ?? ''])),
  });

  it('returns the fewest outputs that sum to the amount, in ascending order', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 21 - 1 }), (amountSat) => {
        const { keysetId, amounts } = planOutputs(amountSat, keys);
        expect(keysetId).toBe(keys.id);
        expect(amounts.reduce((sum, amount) => sum + amount, 0)).toBe(amountSat);
        expect(amounts).toHaveLength(amountSat.toString(2).replaceAll('0', '').length);
        expect(amounts).toEqual([...amounts].sort((a, b) => a - b));
      }),
    );
  });

  it("repeats the keyset's largest amount", () => {
    expect(planOutputs(10, onlyKeys('1', '4')).amounts).toEqual([1, 1, 4, 4]);
  });

  it('throws if the keys cannot sum to the amount', () => {
    expect(() => planOutputs(3, onlyKeys('2'))).toThrow();
  });
});

it('derives different outputs for each operation, attempt and secret', () => {
  const { id: keysetId } = new SigningKeyset().keyset;
  const outputs = [
    deriveOutputSeed(SECRET, 'purchase 1', 0),
    deriveOutputSeed(SECRET, 'purchase 1', 1),
    deriveOutputSeed(SECRET, 'purchase 11', 0),
    deriveOutputSeed(`${SECRET}!`, 'purchase 1', 0),
  ].flatMap((each) => deriveOutputs(each, { keysetId, amounts: [1, 1] }).blindedMessages);
  expect(new Set(outputs.map(({ B_ }) => B_)).size).toBe(outputs.length);
});

describe('chooseKeyset', () => {
  const id = (digit: string) => `00${digit.repeat(14)}`;
  const sat = (digit: string, inputFeePpk: number, change: Partial<Keyset> = {}): Keyset => ({
    id: id(digit),
    unit: 'sat',
    active: true,
    inputFeePpk,
    ...change,
  });

  it.each<[string, Keyset[], string | null]>([
    ['the cheapest', [sat('a', 100), sat('b', 0), sat('c', 50)], id('b')],
    ['the first of equals', [sat('a', 100), sat('b', 100)], id('a')],
    ['an active one', [sat('a', 0, { active: false }), sat('b', 1)], id('b')],
    ['one in sat', [sat('a', 0, { unit: 'usd' }), sat('b', 1)], id('b')],
    ['one with a hex id', [sat('a', 0, { id: 'I2yN+iRYfkzT' }), sat('b', 1)], id('b')],
    ['one of a known version', [sat('a', 0, { id: `02${'a'.repeat(64)}` })], null],
    ['null without keysets', [], null],
  ])('returns %s', (_case, keysets, expected) => {
    expect(selectOutputKeyset(keysets)?.id ?? null).toBe(expected);
  });
});

it.each([
  ['version 0', new SigningKeyset({ version: 0, inputFeePpk: 100 })],
  ['version 1', new SigningKeyset({ version: 1 })],
  ['version 1 with a fee', new SigningKeyset({ version: 1, inputFeePpk: 100 })],
  ['version 1 with an expiry', new SigningKeyset({ finalExpiry: 1_900_000_000 })],
])('verifyKeysetKeys checks the keys against the id of %s', (_case, { keyset, keys }) => {
  const other = new SigningKeyset();
  const oneOther = { ...keys.keys, '1': other.keys.keys['1'] ?? '' };
  expect(verifyKeysetKeys(keyset, keys)).toBe(true);
  expect(verifyKeysetKeys(keyset, { ...keys, keys: oneOther })).toBe(false);
  expect(verifyKeysetKeys(keyset, { ...keys, keys: {} })).toBe(false);
  expect(verifyKeysetKeys({ ...keyset, id: other.keyset.id }, keys)).toBe(false);
});

it('verifyKeysetKeys checks the fee that a version 1 id commits to', () => {
  const { keyset, keys } = new SigningKeyset({ inputFeePpk: 100 });
  expect(verifyKeysetKeys({ ...keyset, inputFeePpk: 1 }, keys)).toBe(false);
});

function changed(signed: BlindSignature[], change: Partial<BlindSignature>): BlindSignature[] {
  return signed.map((signature, index) => (index === 0 ? { ...signature, ...change } : signature));
}
