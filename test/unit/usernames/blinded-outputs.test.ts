import { describe, expect, it } from 'vitest';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  OutputPlan,
} from '../../../src/mints/ecash.ts';
import {
  deriveOutputs,
  selectOutputKeyset,
  verifyKeysetKeys,
} from '../../../src/usernames/ecash/proofs.ts';
import { restoreOutputs, type SwapContext } from '../../../src/usernames/token-swap.ts';
import { FakeMintKeyset } from '../../helpers/mints/fake-mint-keyset.ts';

const NOW_MS = Date.parse('2026-11-21T10:00:00Z');
const TREASURY_SECRET = 'a treasury secret of more than 32 characters';

describe.each([0, 1] as const)('the outputs for a keyset id of version %i', async (version) => {
  const mint = new FakeMintKeyset({ version });
  const otherMint = new FakeMintKeyset({ version });
  const { id: keysetId } = mint.keyset;
  const rejectedPlan = { keysetId, amounts: [4] };
  const executedPlan = { keysetId, amounts: [1, 2, 8] };
  const swap = createSwap('purchase 1', rejectedPlan, executedPlan, rejectedPlan);
  const outputs = await deriveOutputs(TREASURY_SECRET, swap, 1);
  const signatures = outputs.blindedMessages.map((message) => mint.sign(message));

  it('are the same if they are derived again', async () => {
    const derivedAgain = await deriveOutputs(TREASURY_SECRET, structuredClone(swap), 1);
    expect(derivedAgain.blindedMessages).toEqual(outputs.blindedMessages);
    expect(await derivedAgain.unblind(signatures, mint.keys)).toEqual(
      await outputs.unblind(signatures, mint.keys),
    );
  });

  it('turn signatures into valid proofs', async () => {
    const proofs = await outputs.unblind(signatures, mint.keys);
    expect(proofs?.map(({ amount }) => amount)).toEqual([1, 2, 8]);
    expect(proofs?.every((proof) => mint.verifyProof(proof))).toBe(true);
  });

  it.each<[string, BlindSignature[]]>([
    ['too few signatures', signatures.slice(1)],
    ['signatures in another order', signatures.toReversed()],
    ['a signature for another amount', changeFirst(signatures, { amount: 4 })],
    ['a signature of another keyset', changeFirst(signatures, { id: otherMint.keyset.id })],
    [
      'a signature that is not on the curve',
      changeFirst(signatures, { C_: `02${'f'.repeat(64)}` }),
    ],
  ])('turn into no proofs for %s', async (_case, mintSignatures) => {
    expect(await outputs.unblind(mintSignatures, mint.keys)).toBeNull();
  });

  it('turn into no proofs if the keys belong to another keyset', async () => {
    const { keys } = otherMint;
    const withOtherId = signatures.map((signature) => ({ ...signature, id: keys.id }));
    expect(await outputs.unblind(signatures, keys)).toBeNull();
    expect(await outputs.unblind(withOtherId, keys)).toBeNull();
  });

  it('are restored in any order and of any plan, but only if no signature is missing', async () => {
    const all = outputs.blindedMessages.map(({ B_ }, i) => ({ B_, signature: signatures[i] }));
    const restore = (signed: typeof all) => {
      const client = {
        restore: async (_mintUrl: string, requested: BlindedMessage[]) => ({
          outcome: 'found',
          restored: signed.filter(({ B_ }) => requested.some((output) => output.B_ === B_)),
        }),
      };
      const keysetCache = { getKeys: async () => mint.keys };
      const context = { client, keysetCache, treasurySecret: TREASURY_SECRET };
      return restoreOutputs(context as unknown as SwapContext, swap);
    };
    const proofs = await outputs.unblind(signatures, mint.keys);
    expect(await restore(all.toReversed())).toMatchObject({ outcome: 'done', proofs });
    expect(await restore(all.slice(1))).toMatchObject({ outcome: 'unknown' });
    expect(await restore([])).toBeNull();
  });
});

it('derives different outputs for each treasury secret, swap and plan', async () => {
  const plan = { keysetId: new FakeMintKeyset().keyset.id, amounts: [1, 1] };
  const swap = createSwap('purchase 1', plan, plan);
  const derived = await Promise.all([
    deriveOutputs(TREASURY_SECRET, swap, 0),
    deriveOutputs(TREASURY_SECRET, swap, 1),
    deriveOutputs(TREASURY_SECRET, createSwap('purchase 11', plan), 0),
    deriveOutputs(`${TREASURY_SECRET}!`, swap, 0),
  ]);
  const outputs = derived.flatMap(({ blindedMessages }) => blindedMessages);
  expect(new Set(outputs.map(({ B_ }) => B_)).size).toBe(outputs.length);
});

describe('selectOutputKeyset', () => {
  const idOf = (digit: string) => `00${digit.repeat(14)}`;
  const keyset = (digit: string, inputFeePpk: number, change: Partial<Keyset> = {}): Keyset => ({
    id: idOf(digit),
    unit: 'sat',
    active: true,
    inputFeePpk,
    ...change,
  });
  const expiring = (digit: string, inSeconds: number, inputFeePpk: number) =>
    keyset(digit, inputFeePpk, { finalExpiry: NOW_MS / 1000 + inSeconds });

  it.each<[string, Keyset[], string | null]>([
    ['the cheapest keyset', [keyset('a', 100), keyset('b', 0), keyset('c', 50)], idOf('b')],
    ['an active keyset', [keyset('a', 0, { active: false }), keyset('b', 1)], idOf('b')],
    ['a keyset in sat', [keyset('a', 0, { unit: 'usd' }), keyset('b', 1)], idOf('b')],
    ['a keyset with a hex id', [keyset('a', 0, { id: 'I2yN+iRYfkzT' }), keyset('b', 1)], idOf('b')],
    ['the keyset that lasts longest', [expiring('a', 60, 0), expiring('b', 90, 9)], idOf('b')],
    ['a keyset that does not expire', [expiring('a', 60, 0), keyset('b', 9)], idOf('b')],
    ['a keyset that has not expired', [expiring('a', 0, 0), expiring('b', 1, 9)], idOf('b')],
    ['the cheapest that lasts longest', [expiring('a', 60, 1), expiring('b', 60, 0)], idOf('b')],
    ['null for an unknown id version', [keyset('a', 0, { id: `02${'a'.repeat(64)}` })], null],
  ])('returns %s', (_case, keysets, expected) => {
    expect(selectOutputKeyset(keysets, NOW_MS)?.id ?? null).toBe(expected);
  });
});

it.each([
  ['version 0', new FakeMintKeyset({ version: 0, inputFeePpk: 100 })],
  ['version 1', new FakeMintKeyset({ version: 1 })],
  ['version 1 with a fee', new FakeMintKeyset({ version: 1, inputFeePpk: 100 })],
  ['version 1 with an expiry', new FakeMintKeyset({ finalExpiry: 1_900_000_000 })],
])('accepts only the keys that belong to a keyset id of %s', (_case, { keyset, keys }) => {
  const otherMint = new FakeMintKeyset();
  const keysWithChange = { ...keys.keys, '1': otherMint.keys.keys['1'] ?? '' };
  expect(verifyKeysetKeys(keyset, keys)).toBe(true);
  expect(verifyKeysetKeys(keyset, { ...keys, keys: keysWithChange })).toBe(false);
  expect(verifyKeysetKeys(keyset, { ...keys, keys: {} })).toBe(false);
  expect(verifyKeysetKeys({ ...keyset, id: otherMint.keyset.id }, keys)).toBe(false);
});

it('rejects keys if the fee differs from the fee in a keyset id of version 1', () => {
  const { keyset, keys } = new FakeMintKeyset({ inputFeePpk: 100 });
  expect(verifyKeysetKeys({ ...keyset, inputFeePpk: 1 }, keys)).toBe(false);
});

function createSwap(id: string, ...outputPlans: OutputPlan[]) {
  return { id, outputPlans, mintUrl: 'https://mint.example', inputs: [] };
}

function changeFirst(
  mintSignatures: BlindSignature[],
  change: Partial<BlindSignature>,
): BlindSignature[] {
  return mintSignatures.map((signature, index) =>
    index === 0 ? { ...signature, ...change } : signature,
  );
}
