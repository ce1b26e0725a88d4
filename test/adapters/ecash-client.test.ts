import { hashToCurve, OutputData, Wallet, type Proof as WalletProof } from '@cashu/cashu-ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import type { BlindedMessage, Proof } from '../../src/domain/ecash.ts';
import { EcashClient } from '../../src/mint/ecash-client.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { invoiceFor } from '../helpers/scripted-mint.ts';

/** Every proof that is spent costs a sat. */
const FEE_PPK = 1_000;

let guarded: GuardedFetch;
let client: EcashClient;
const cleanups: (() => unknown)[] = [];

beforeEach(() => {
  guarded = new GuardedFetch({ allowPrivateNetworks: true });
  client = new EcashClient({ fetch: guarded, clock: Date.now });
});
afterEach(async () => {
  await guarded.close();
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

describe.each(['nutshell', 'cdk'] as const)('ecash of a mint like %s', (style) => {
  it('has keysets and their keys', async () => {
    const { mint, keysetId } = await open({ style });
    expect(await client.readKeysets(mint.url)).toEqual({
      outcome: 'found',
      keysets: [{ id: keysetId, unit: 'sat', active: true, inputFeePpk: FEE_PPK }],
    });
    const answer = await client.readKeys(mint.url, keysetId);
    expect(answer).toMatchObject({ outcome: 'found', keys: { id: keysetId } });
    expect(answer.outcome === 'found' && answer.keys.keys['1']).toMatch(/^0[23][0-9a-f]{64}$/);
    expect(await client.readKeys(mint.url, '00ffffffffffffff')).toEqual({ outcome: 'not_found' });
  });

  it('is swapped once and then spent', async () => {
    const { mint, keysetId, mintProof } = await open({ style });
    const [proof, untouched] = [await mintProof(8), await mintProof(8)];
    const ys = [yOf(proof), yOf(untouched)] as const;
    expect(await states(mint, ys)).toEqual(['UNSPENT', 'UNSPENT']);

    const outputs = blind([1, 2, 4], keysetId);
    const answer = await client.swap(mint.url, [proof], outputs);
    expect(answer).toMatchObject({
      outcome: 'signed',
      signatures: [
        { id: keysetId, amount: 1 },
        { id: keysetId, amount: 2 },
        { id: keysetId, amount: 4 },
      ],
    });
    expect(answer.outcome === 'signed' && answer.signatures[0]?.dleq).toBeDefined();
    expect(await states(mint, ys)).toEqual(['SPENT', 'UNSPENT']);

    const others = blind([1, 2, 4], keysetId);
    expect(await client.swap(mint.url, [proof], others)).toMatchObject(refused('spent'));
    expect(await client.swap(mint.url, [untouched], outputs)).toMatchObject(
      refused('outputs_signed'),
    );
    expect(await states(mint, ys)).toEqual(['SPENT', 'UNSPENT']);
  });

  it('is restored by the outputs of a swap whose answer was lost', async () => {
    const { mint, keysetId, mintProof } = await open({ style });
    const outputs = blind([1, 2, 4], keysetId);
    expect(await client.restore(mint.url, outputs)).toEqual({ outcome: 'found', restored: [] });
    const answer = await client.swap(mint.url, [await mintProof(8)], outputs);
    const signatures = answer.outcome === 'signed' ? answer.signatures : [];
    const restored = await client.restore(mint.url, [...outputs, ...blind([1], keysetId)]);
    expect(restored).toMatchObject({
      outcome: 'found',
      restored: outputs.map(({ B_ }, i) => ({
        B_,
        signature: { id: keysetId, amount: signatures[i]?.amount, C_: signatures[i]?.C_ },
      })),
    });
  });

  it('pays an invoice, once', async () => {
    const { mint, keysetId, mintProof } = await open({ style });
    const created = await client.createMeltQuote(mint.url, invoiceFor(20_000));
    expect(created).toMatchObject({ outcome: 'created', quote: { amountSat: 20 } });
    const quoteId = created.outcome === 'created' ? created.quote.quoteId : '';
    expect(await client.readMeltQuote(mint.url, quoteId)).toMatchObject({ state: 'UNPAID' });
    const order = {
      quoteId,
      inputs: [await mintProof(32)],
      outputs: blind([1, 1, 1, 1], keysetId),
    };
    const paid = await client.melt(mint.url, order);
    expect(paid).toMatchObject({ outcome: 'answered', state: 'PAID' });
    expect(paid.outcome === 'answered' && paid.change).not.toEqual([]);
    expect(await client.readMeltQuote(mint.url, quoteId)).toMatchObject({ state: 'PAID' });
    expect(await client.melt(mint.url, order)).toMatchObject({ outcome: 'refused' });
  });

  it('is not swapped where it is forged, or where the sums do not fit', async () => {
    const { mint, keysetId, mintProof } = await open({ style });
    const proof = await mintProof(8);
    const forged = { ...proof, secret: 'another' };
    expect(await client.swap(mint.url, [forged], blind([1, 2, 4], keysetId))).toMatchObject(
      refused('invalid'),
    );
    expect(await client.swap(mint.url, [proof], blind([8], keysetId))).toMatchObject(
      refused('unbalanced'),
    );
    expect(await states(mint, [yOf(proof)])).toEqual(['UNSPENT']);
  });
});

it('nothing was sent to a mint where nothing listens', async () => {
  const { mint, keysetId } = await open();
  await mint.close();
  cleanups.splice(0);
  expect(await client.swap(mint.url, [], blind([1], keysetId))).toEqual({
    outcome: 'unavailable',
    reason: 'connection refused',
    isUnsent: true,
  });
});

async function open(switches: Partial<TestMintSwitches> = {}) {
  const mint = await TestMint.start({ switches, inputFeePpk: FEE_PPK });
  cleanups.push(() => mint.close());
  const wallet = new Wallet(mint.url, { unit: 'sat' });
  await wallet.loadMint();
  /** One proof, of a power of two. */
  const mintProof = async (amountSat: number): Promise<Proof> => {
    const quote = await wallet.createMintQuoteBolt11(amountSat);
    mint.pay(quote.request);
    const [proof] = await wallet.mintProofsBolt11(amountSat, quote.quote);
    return plainProof(proof as WalletProof);
  };
  return { mint, keysetId: wallet.keysetId, mintProof };
}

async function states(mint: TestMint, ys: readonly string[]): Promise<unknown[]> {
  const answer = await client.checkState(mint.url, ys);
  return answer.outcome === 'found' ? ys.map((y) => answer.states.get(y)) : [answer];
}

function plainProof({ id, amount, secret, C }: WalletProof): Proof {
  return { id, amount: Number(amount), secret, C };
}

function blind(amounts: number[], keysetId: string): BlindedMessage[] {
  return amounts.map((amount) => {
    const { blindedMessage } = OutputData.createSingleRandomData(amount, keysetId);
    return { amount, id: keysetId, B_: blindedMessage.B_ };
  });
}

function yOf({ secret }: Proof): string {
  return hashToCurve(new TextEncoder().encode(secret)).toHex(true);
}

function refused(reason: string) {
  return { outcome: 'refused', reason };
}
