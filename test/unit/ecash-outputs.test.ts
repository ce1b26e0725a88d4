import { OutputData } from '@cashu/cashu-ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BlindSignature, Keyset } from '../../src/domain/ecash.ts';
import {
  blankOutputs,
  chooseKeyset,
  deriveOutputs,
  operationSeed,
  planOutputs,
  verifyKeysetKeys,
} from '../../src/ecash/outputs.ts';
import { SigningKeyset } from '../helpers/signing-keyset.ts';

const SECRET = 'a treasury secret of more than 32 characters';
const seed = operationSeed(SECRET, 'purchase 1', 0);

describe.each([0, 1] as const)('outputs of a keyset of version %i', (version) => {
  const mint = new SigningKeyset({ version });
  const plan = { keysetId: mint.keyset.id, amounts: [1, 2, 8] };
  const outputs = deriveOutputs(seed, plan);
  const signatures = outputs.messages.map((message) => mint.sign(message));
  const withoutEvidence = signatures.map(({ amount, id, C_ }) => ({ amount, id, C_ }));

  it('come out the same from the journal after a crash', () => {
    const again = deriveOutputs(operationSeed(SECRET, 'purchase 1', 0), structuredClone(plan));

    expect(again.messages).toEqual(outputs.messages);
    expect(again.unblind(signatures, mint.keys)).toEqual(outputs.unblind(signatures, mint.keys));
  });

  it('are those that any wallet derives from the seed (NUT-13)', () => {
    const derived = plan.amounts.map((amount, counter) =>
      OutputData.createSingleDeterministicData(amount, seed, counter, plan.keysetId),
    );
    expect(outputs.messages.map(({ B_ }) => B_)).toEqual(
      derived.map(({ blindedMessage }) => blindedMessage.B_),
    );
  });

  it('become proofs that the mint takes, without what it knew them by', () => {
    const proofs = outputs.unblind(signatures, mint.keys);

    expect(proofs?.map(({ amount }) => amount)).toEqual(plan.amounts);
    expect(proofs?.every((proof) => mint.accepts(proof))).toBe(true);
    expect(proofs?.map((proof) => Object.keys(proof).sort())).toEqual(
      plan.amounts.map(() => ['C', 'amount', 'id', 'secret']),
    );
  });

  it('become proofs of a mint that gives no evidence too', () => {
    const proofs = outputs.unblind(withoutEvidence, mint.keys);
    expect(proofs?.every((proof) => mint.accepts(proof))).toBe(true);
  });

  it.each<[string, (signed: BlindSignature[]) => BlindSignature[]]>([
    ['one is missing', (signed) => signed.slice(1)],
    ['one is too many', (signed) => [...signed, ...signed.slice(0, 1)]],
    ['their order is another', (signed) => signed.toReversed()],
    ['an amount is another', (signed) => changed(signed, { amount: 4 })],
    ['an amount is none', (signed) => changed(signed, { amount: Number.NaN })],
    ['the keyset is another', (signed) => changed(signed, { id: new SigningKeyset().keyset.id })],
    ['the point is none', (signed) => changed(signed, { C_: `02${'f'.repeat(64)}` })],
    ['the point is no hex', (signed) => changed(signed, { C_: 'signature' })],
  ])('become nothing where %s, even of a mint that gives no evidence', (_case, change) => {
    expect(outputs.unblind(change(withoutEvidence), mint.keys)).toBeNull();
  });

  it.each<[string, (signed: BlindSignature[]) => BlindSignature[]]>([
    [
      'the signature is for another output',
      (signed) => changed(signed, { C_: signed[1]?.C_ ?? '' }),
    ],
    [
      'the evidence is false',
      (signed) => changed(signed, { dleq: { e: '1'.repeat(64), s: '2'.repeat(64) } }),
    ],
    ['the evidence is no hex', (signed) => changed(signed, { dleq: { e: 'e', s: 's' } })],
  ])('become nothing where %s', (_case, change) => {
    expect(outputs.unblind(change([...signatures]), mint.keys)).toBeNull();
  });

  it('become nothing with the keys of another keyset', () => {
    const { keys } = new SigningKeyset({ version });
    const relabelled = withoutEvidence.map((signature) => ({ ...signature, id: keys.id }));

    expect(outputs.unblind(withoutEvidence, keys)).toBeNull();
    expect(outputs.unblind(relabelled, keys)).toBeNull();
  });

  it('are put in order again when the mint restores them in another', () => {
    const restored = outputs.messages.map(({ B_ }, index) => ({
      B_,
      signature: signatures[index] ?? failed(),
    }));

    expect(outputs.match(restored.toReversed())).toEqual(signatures);
    expect(outputs.match(restored.slice(1))).toBeNull();
    expect(outputs.match([])).toBeNull();
  });

  it('become change with the amounts that the mint chose, for as many as it needed', () => {
    const blank = blankOutputs(seed, 4, mint.keyset.id);
    const change = [2, 4].map((amount, index) =>
      mint.sign({ ...(blank.messages[index] ?? failed()), amount }),
    );

    expect(blank.messages.map(({ amount }) => amount)).toEqual([1, 1, 1, 1]);
    const proofs = blank.unblind(change, mint.keys);
    expect(proofs?.map(({ amount }) => amount)).toEqual([2, 4]);
    expect(proofs?.every((proof) => mint.accepts(proof))).toBe(true);
    expect(blank.unblind([], mint.keys)).toEqual([]);
    expect(blank.unblind(changed(change, { amount: 3 }), mint.keys)).toBeNull();
    expect(blank.unblind([...change, ...change, ...change], mint.keys)).toBeNull();
  });

  it('become change when it is restored, unless the mint signed others than the first', () => {
    const blank = blankOutputs(seed, 3, mint.keyset.id);
    const [first, second] = blank.messages;
    const restored = [second ?? failed(), first ?? failed()].map((output) => ({
      B_: output.B_,
      signature: mint.sign({ ...output, amount: 8 }),
    }));

    expect(blank.match(restored)).toEqual([restored[1]?.signature, restored[0]?.signature]);
    expect(blank.match([])).toEqual([]);
    expect(blank.match(restored.slice(0, 1))).toBeNull();
  });
});

describe('a plan of outputs', () => {
  const { keys } = new SigningKeyset();

  it('adds up to the amount, in as few outputs as there can be', () => {
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

  it('uses the largest again where the keyset goes no higher', () => {
    const small = { id: keys.id, keys: { '1': keys.keys['1'] ?? '', '4': keys.keys['4'] ?? '' } };
    expect(planOutputs(10, small).amounts).toEqual([1, 1, 4, 4]);
  });

  it('is not made where the keys do not suffice', () => {
    expect(() => planOutputs(3, { id: keys.id, keys: { '2': keys.keys['2'] ?? '' } })).toThrow();
  });
});

it('gives every operation and every try of it outputs of its own', () => {
  const { id: keysetId } = new SigningKeyset().keyset;
  const outputs = [
    operationSeed(SECRET, 'purchase 1', 0),
    operationSeed(SECRET, 'purchase 1', 1),
    operationSeed(SECRET, 'purchase 11', 0),
    operationSeed(`${SECRET}!`, 'purchase 1', 0),
  ].flatMap((each) => deriveOutputs(each, { keysetId, amounts: [1, 1] }).messages);

  expect(new Set(outputs.map(({ B_ }) => B_)).size).toBe(outputs.length);
});

describe('the keyset to be paid in', () => {
  const id = (digit: string) => `00${digit.repeat(14)}`;
  const sat = (digit: string, inputFeePpk: number): Keyset => ({
    id: id(digit),
    unit: 'sat',
    active: true,
    inputFeePpk,
  });

  it.each<[string, Keyset[], string | null]>([
    ['the cheapest one', [sat('a', 100), sat('b', 0), sat('c', 50)], id('b')],
    ['the first of equals', [sat('a', 100), sat('b', 100)], id('a')],
    [
      'none that the mint signs with no more',
      [{ ...sat('a', 0), active: false }, sat('b', 1)],
      id('b'),
    ],
    ['none of another unit', [{ ...sat('a', 0), unit: 'usd' }, sat('b', 1)], id('b')],
    ['none with an id of base64', [{ ...sat('a', 0), id: 'I2yN+iRYfkzT' }, sat('b', 1)], id('b')],
    ['none with an id of a version to come', [{ ...sat('a', 0), id: `02${'a'.repeat(64)}` }], null],
    ['none where there is none', [], null],
  ])('is %s', (_case, keysets, expected) => {
    const before = structuredClone(keysets);
    expect(chooseKeyset(keysets)?.id ?? null).toBe(expected);
    expect(keysets).toEqual(before);
  });
});

describe('the keys of a keyset', () => {
  it.each([
    ['an old id', new SigningKeyset({ version: 0, inputFeePpk: 100 })],
    ['a new id', new SigningKeyset({ version: 1 })],
    ['a new id that tells of a fee', new SigningKeyset({ version: 1, inputFeePpk: 100 })],
    ['a new id that tells of an expiry', new SigningKeyset({ finalExpiry: 1_900_000_000 })],
  ])('are known by %s', (_case, { keyset, keys }) => {
    const [other] = Object.values(new SigningKeyset().keys.keys);

    expect(verifyKeysetKeys(keyset, keys)).toBe(true);
    expect(verifyKeysetKeys(keyset, { ...keys, keys: { ...keys.keys, '1': other ?? '' } })).toBe(
      false,
    );
    expect(verifyKeysetKeys(keyset, { ...keys, keys: {} })).toBe(false);
    expect(verifyKeysetKeys({ ...keyset, id: new SigningKeyset().keyset.id }, keys)).toBe(false);
  });

  it('are not known by a new id where the fee is another', () => {
    const { keyset, keys } = new SigningKeyset({ inputFeePpk: 100 });
    expect(verifyKeysetKeys({ ...keyset, inputFeePpk: 1 }, keys)).toBe(false);
  });
});

function changed(signed: BlindSignature[], change: Partial<BlindSignature>): BlindSignature[] {
  return signed.map((signature, index) => (index === 0 ? { ...signature, ...change } : signature));
}

function failed(): never {
  throw new Error('there is no such output');
}
