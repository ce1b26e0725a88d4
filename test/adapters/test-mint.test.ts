import {
  CheckStateEnum,
  type MintQuoteBolt11Response,
  type Proof,
  type SwapPreview,
  sumProofs,
  Wallet,
} from '@cashu/cashu-ts';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { readInvoice } from '../../src/domain/bolt11.ts';

/** An unmodified wallet against the test mint. */

const FEE_PPK = 600;
const { SPENT, UNSPENT, PENDING } = CheckStateEnum;

let mint: TestMint;
let wallet: Wallet;

beforeEach(async () => {
  mint = await TestMint.start({ inputFeePpk: FEE_PPK });
  wallet = await loadedWallet();
});

afterEach(() => mint.close());

describe('minting', () => {
  it('turns a paid quote into proofs of its amount, once', async () => {
    const quote = await wallet.createMintQuoteBolt11(21, 'coffee');
    expect(quote.state).toBe('UNPAID');
    expect(readInvoice(quote.request)).toMatchObject({
      amountMsat: 21_000,
      expiresAt: quote.expiry,
    });
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20001 });

    mint.pay(quote.request);
    expect((await wallet.checkMintQuoteBolt11(quote)).state).toBe('PAID');
    await expect(wallet.mintProofsBolt11(22, quote.quote)).rejects.toMatchObject({ code: 11005 });
    expect(sumProofs(await wallet.mintProofsBolt11(21, quote)).toNumber()).toBe(21);
    expect((await wallet.checkMintQuoteBolt11(quote)).state).toBe('ISSUED');
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20002 });
  });

  it('needs the key of a locked quote (NUT-20)', async () => {
    const { secretKey } = keyWithEvenPoint();
    const pubkey = Buffer.from(secp256k1.getPublicKey(secretKey)).toString('hex');
    const quote = await wallet.createLockedMintQuote(21, pubkey);
    mint.pay(quote.request);
    const mintWith = (key: Uint8Array) =>
      wallet.mintProofsBolt11(21, quote.quote, { privkey: Buffer.from(key).toString('hex') });
    await expect(wallet.mintProofsBolt11(21, quote.quote)).rejects.toMatchObject({ code: 20008 });
    await expect(mintWith(keyWithEvenPoint().secretKey)).rejects.toMatchObject({ code: 20008 });
    expect(sumProofs(await mintWith(secretKey)).toNumber()).toBe(21);
  });
});

describe('swapping', () => {
  it('costs exactly the fee', async () => {
    const proofs = await mintedProofs(63);
    const { inputs, keepOutputs = [] } = await wallet.prepareSwapToReceive(proofs);
    const outputs = keepOutputs.map(({ blindedMessage }) => blindedMessage);
    const tooFew = wallet.mint.swap({ inputs, outputs: outputs.slice(1) });
    await expect(tooFew).rejects.toMatchObject({ code: 11005 });
    const received = await wallet.receive(proofs);
    const feeSat = Math.ceil((proofs.length * FEE_PPK) / 1000);
    expect(sumProofs(received).toNumber()).toBe(63 - feeSat);
  });

  it('rejects repeated and forged proofs', async () => {
    const [proof] = await mintedProofs(8);
    const forged = { ...(proof as Proof), secret: 'never signed' };
    delete forged.dleq;
    const twice = [proof, proof] as Proof[];
    await expect(wallet.receive(twice)).rejects.toMatchObject({ code: 11007 });
    await expect(wallet.receive([forged])).rejects.toMatchObject({ code: 10001 });
  });

  it.each([
    ['nutshell', { pending: 11002, pendingOutput: 11004, repeated: 11001 }],
    ['cdk', { pending: 11002, pendingOutput: 11008, repeated: 11003 }],
  ] as const)('spends proofs once, with a mint like %s', async (style, codes) => {
    mint.switches.style = style;
    const proofs = await mintedProofs(8);
    const preview = await wallet.prepareSwapToReceive(proofs);
    const hold = mint.hold('POST /v1/swap', 'during');
    const swapped = wallet.completeSwap(preview);
    await hold.reached;

    expect(await statesOf(proofs)).toEqual([PENDING]);
    await expect(wallet.receive(proofs)).rejects.toMatchObject({ code: codes.pending });
    const { inputs } = await wallet.prepareSwapToReceive(await mintedProofs(8));
    const sameOutputs = wallet.completeSwap({ ...preview, inputs });
    await expect(sameOutputs).rejects.toMatchObject({ code: codes.pendingOutput });

    hold.release();
    expect(new Set(await statesOf((await swapped).keep))).toEqual(new Set([UNSPENT]));
    expect(await statesOf(proofs)).toEqual([SPENT]);
    const repeated = wallet.completeSwap(preview);
    await expect(repeated).rejects.toMatchObject({ code: codes.repeated });
  });

  it('can be restored by its outputs (NUT-09)', async () => {
    const known = await wallet.prepareSwapToReceive(await mintedProofs(5));
    const unknown = await wallet.prepareSwapToReceive(await mintedProofs(8));
    expect((await wallet.mint.restore({ outputs: outputsOf(known) })).signatures).toEqual([]);
    await wallet.completeSwap(known);
    const outputs = [...outputsOf(unknown), ...outputsOf(known)];
    const restored = await wallet.mint.restore({ outputs });
    expect(restored.outputs.map(({ B_ }) => B_)).toEqual(outputsOf(known).map(({ B_ }) => B_));
    expect(restored.signatures).toHaveLength(outputsOf(known).length);
  });
});

describe('rotating the keyset', () => {
  it.each([
    ['nutshell', 11000],
    ['cdk', 12002],
  ] as const)('leaves old proofs valid, with a mint like %s', async (style, inactive) => {
    mint.switches.style = style;
    const old = wallet.keysetId;
    const proofs = await mintedProofs(8);
    const preview = await wallet.prepareSwapToReceive(proofs);
    const fresh = mint.rotateKeyset({ inputFeePpk: 100 });
    await expect(wallet.completeSwap(preview)).rejects.toMatchObject({ code: inactive });

    expect((await wallet.mint.getKeySets()).keysets).toMatchObject([
      { id: old, active: false, input_fee_ppk: FEE_PPK },
      { id: fresh, active: true, input_fee_ppk: 100 },
    ]);
    expect((await wallet.mint.getKeys(old)).keysets).toMatchObject([{ id: old }]);
    await expect(wallet.mint.getKeys('00deadbeef')).rejects.toMatchObject({ code: 12001 });
    wallet = await loadedWallet();
    await wallet.keyChain.ensureKeysetKeys(old);
    expect(sumProofs(await wallet.receive(proofs)).toNumber()).toBe(7);
  });
});

async function loadedWallet(): Promise<Wallet> {
  const loaded = new Wallet(mint.url, { unit: 'sat', requireSigDleq: true });
  await loaded.loadMint();
  return loaded;
}

/** cashu-ts compares the parity of a lock. */
function keyWithEvenPoint() {
  for (;;) {
    const key = schnorr.keygen();
    if (secp256k1.getPublicKey(key.secretKey)[0] === 2) {
      return key;
    }
  }
}

async function paidQuote(amountSat: number): Promise<MintQuoteBolt11Response> {
  const quote = await wallet.createMintQuoteBolt11(amountSat);
  mint.pay(quote.request);
  return quote;
}

async function mintedProofs(amountSat: number): Promise<Proof[]> {
  return wallet.mintProofsBolt11(amountSat, await paidQuote(amountSat));
}

function outputsOf({ keepOutputs = [] }: SwapPreview) {
  return keepOutputs.map(({ blindedMessage }) => blindedMessage);
}

async function statesOf(proofs: Proof[]): Promise<string[]> {
  return (await wallet.checkProofsStates(proofs)).map(({ state }) => state);
}
