import { type MintQuoteBolt11Response, type Proof, sumProofs, Wallet } from '@cashu/cashu-ts';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { readInvoice } from '../../src/domain/bolt11.ts';

/** A wallet as its users have it, against the test mint. */

const FEE_PPK = 600;
let mint: TestMint;
let wallet: Wallet;

beforeEach(async () => {
  mint = await TestMint.start({ inputFeePpk: FEE_PPK });
  wallet = new Wallet(mint.url, { unit: 'sat', requireSigDleq: true });
  await wallet.loadMint();
});

afterEach(() => mint.close());

describe('minting', () => {
  test('a paid quote becomes proofs of its amount, and is issued then', async () => {
    const quote = await wallet.createMintQuoteBolt11(21, 'coffee');
    expect(quote.state).toBe('UNPAID');
    expect(readInvoice(quote.request)).toMatchObject({ amountMsat: 21_000 });
    expect(readInvoice(quote.request)?.expiresAt).toBe(quote.expiry);

    mint.pay(quote.request);
    expect((await wallet.checkMintQuoteBolt11(quote)).state).toBe('PAID');
    const proofs = await wallet.mintProofsBolt11(21, quote);
    expect(sumProofs(proofs).toNumber()).toBe(21);
    expect((await wallet.checkMintQuoteBolt11(quote)).state).toBe('ISSUED');
  });

  test('an unpaid quote, and one that is issued already, mint nothing', async () => {
    const quote = await wallet.createMintQuoteBolt11(21);
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20001 });
    mint.pay(quote.request);
    await wallet.mintProofsBolt11(21, quote);
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20002 });
  });

  test('a quote mints no more and no less than was paid', async () => {
    const quote = await paidQuote(21);
    const askFor = (amount: number) => wallet.mintProofsBolt11(amount, quote.quote);
    await expect(askFor(22)).rejects.toMatchObject({ code: 11005 });
    await expect(askFor(20)).rejects.toMatchObject({ code: 11005 });
  });

  test('an output is never signed twice', async () => {
    const [first, second] = [await paidQuote(8), await paidQuote(8)];
    const preview = await wallet.prepareMint('bolt11', 8, first);
    await wallet.completeMint(preview);
    const again = { ...preview, payload: { ...preview.payload, quote: second.quote } };
    await expect(wallet.completeMint(again)).rejects.toMatchObject({ code: 11003 });
  });

  test('quotes are minted together (NUT-29), locked and unlocked', async () => {
    const entries = [
      { amount: 5, quote: await paidQuote(5) },
      { amount: 16, quote: await paidQuote(16, LOCK) },
    ];
    const preview = await wallet.prepareBatchMint('bolt11', entries, { privkey: LOCK_SECRET });
    const proofs = await wallet.completeBatchMint(preview);
    expect(sumProofs(proofs).toNumber()).toBe(21);
    expect([...mint.quotes.values()].map(({ state }) => state)).toEqual(['ISSUED', 'ISSUED']);
  });

  test('paying an unknown invoice, or one twice, is an error of the test', async () => {
    const { request } = await paidQuote(1);
    expect(() => mint.pay(request)).toThrow('already paid');
    expect(() => mint.pay('lnbc1unknown')).toThrow('unknown invoice');
  });
});

describe('a locked quote (NUT-20)', () => {
  test('is echoed with its lock and minted with the key', async () => {
    const quote = await paidQuote(21, LOCK);
    expect(quote.pubkey).toBe(LOCK);
    const proofs = await wallet.mintProofsBolt11(21, quote, { privkey: LOCK_SECRET });
    expect(sumProofs(proofs).toNumber()).toBe(21);
    expect(mint.requestCounts['POST /v1/mint/bolt11']).toBe(1);
  });

  test('is minted by the older signature too', async () => {
    const preview = await wallet.prepareMint('bolt11', 21, await paidQuote(21, LOCK), {
      privkey: LOCK_SECRET,
    });
    const signature = String(preview.legacySignature);
    const proofs = await wallet.completeMint({
      ...preview,
      payload: { ...preview.payload, signature },
    });
    expect(sumProofs(proofs).toNumber()).toBe(21);
  });

  test('mints nothing without its key', async () => {
    const { quote } = await paidQuote(21, LOCK);
    const refused = { code: 20008 };
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject(refused);
    const otherKey = '02'.repeat(32);
    await expect(wallet.mintProofsBolt11(21, quote, { privkey: otherKey })).rejects.toMatchObject(
      refused,
    );
  });
});

describe('swapping', () => {
  test('proofs are split for sending, less the fee, and received', async () => {
    const proofs = await mintedProofs(64);
    const { send, keep } = await wallet.send(21, proofs, { includeFees: true });
    const received = await wallet.receive(send);

    const [paid, kept, got] = [proofs, keep, received].map((part) => sumProofs(part).toNumber());
    expect(kept).toBe(Number(paid) - sumProofs(send).toNumber() - feeSat(proofs));
    expect(got).toBe(21);
  });

  test('the fee is held: not a sat more, not a sat less', async () => {
    const { inputs, keepOutputs = [] } = await wallet.prepareSwapToReceive(await mintedProofs(63));
    const outputs = keepOutputs.map(({ blindedMessage }) => blindedMessage);
    const swap = (some: typeof outputs) => wallet.mint.swap({ inputs, outputs: some });
    const unbalanced = { code: 11005 };
    await expect(swap(outputs.slice(1))).rejects.toMatchObject(unbalanced);
    await expect(swap([...outputs, ...outputs.slice(0, 1)])).rejects.toMatchObject(unbalanced);
    await expect(swap(outputs)).resolves.toBeDefined();
  });

  test('a spent proof is not spent again, and known as spent', async () => {
    const proofs = await mintedProofs(8);
    const statesOf = async (some: Proof[]) =>
      (await wallet.checkProofsStates(some)).map(({ state }) => state);
    expect(await statesOf(proofs)).toEqual(['UNSPENT']);
    const fresh = await wallet.receive(proofs);
    await expect(wallet.receive(proofs)).rejects.toMatchObject({ code: 11001 });
    expect(await statesOf(proofs)).toEqual(['SPENT']);
    expect(new Set(await statesOf(fresh))).toEqual(new Set(['UNSPENT']));
  });

  test('the same proof twice in one swap, and a proof of nobody, are refused', async () => {
    const [proof] = await mintedProofs(8);
    if (proof === undefined) {
      throw new Error('no proof was minted');
    }
    await expect(wallet.receive([proof, proof])).rejects.toMatchObject({ code: 11007 });
    const forged = { ...proof, secret: 'never signed' };
    delete forged.dleq;
    await expect(wallet.receive([forged])).rejects.toMatchObject({ code: 10001 });
  });
});

test('the keyset is found by its id, another is not', async () => {
  const { id } = wallet.getKeyset();
  const { keysets } = await wallet.mint.getKeys(id);
  expect(keysets).toMatchObject([{ id, input_fee_ppk: FEE_PPK }]);
  expect(Object.keys(keysets[0]?.keys ?? {})).toHaveLength(33);
  await expect(wallet.mint.getKeys('00deadbeef')).rejects.toMatchObject({ code: 12001 });
});

test('a batch is answered in the order asked', async () => {
  const quotes = [await paidQuote(1), await wallet.createMintQuoteBolt11(2), await paidQuote(3)];
  const checked = await wallet.checkMintQuoteBatchBolt11(
    quotes.map(({ quote }) => quote).reverse(),
  );
  expect(checked.map(({ quote }) => quote)).toEqual(quotes.map(({ quote }) => quote).reverse());
  expect(checked.map(({ state }) => state)).toEqual(['PAID', 'UNPAID', 'PAID']);
});

test("the wallet's own subscription hears of a payment", async () => {
  const quote = await wallet.createMintQuoteBolt11(21);
  const heard = new Promise<MintQuoteBolt11Response>((resolve, reject) => {
    wallet.on
      .mintQuotePaid(quote.quote, resolve, reject)
      .then(() => mint.pay(quote.request), reject);
  });
  expect(await heard).toMatchObject({ quote: quote.quote, state: 'PAID' });
});

const LOCK_SECRET = keyWithEvenPoint();
const LOCK = Buffer.from(secp256k1.getPublicKey(Buffer.from(LOCK_SECRET, 'hex'))).toString('hex');

/** A Nostr key is locked to as `02` and its x coordinate; cashu-ts compares the parity. */
function keyWithEvenPoint(): string {
  for (;;) {
    const { secretKey } = schnorr.keygen();
    if (secp256k1.getPublicKey(secretKey)[0] === 2) {
      return Buffer.from(secretKey).toString('hex');
    }
  }
}

async function paidQuote(amountSat: number, lock?: string): Promise<MintQuoteBolt11Response> {
  const quote =
    lock === undefined
      ? await wallet.createMintQuoteBolt11(amountSat)
      : await wallet.createLockedMintQuote(amountSat, lock);
  mint.pay(quote.request);
  return quote;
}

async function mintedProofs(amountSat: number): Promise<Proof[]> {
  return wallet.mintProofsBolt11(amountSat, await paidQuote(amountSat));
}

function feeSat(inputs: Proof[]): number {
  return Math.ceil((inputs.length * FEE_PPK) / 1000);
}
