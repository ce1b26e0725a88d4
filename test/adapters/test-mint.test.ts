import { CheckStateEnum, type Proof, sumProofs, Wallet } from '@cashu/cashu-ts';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';

/** What other tests rely on: the mint rejects what real ones reject, and its faults do happen. */

const FEE_PPK = 600;
const { SPENT, UNSPENT, PENDING } = CheckStateEnum;

let now: number;
let mint: TestMint;

beforeEach(async () => {
  now = Date.now();
  mint = await TestMint.start({ inputFeePpk: FEE_PPK, now: () => now });
});

afterEach(() => mint.close());

describe('with an unmodified wallet, the mint', () => {
  let wallet: Wallet;

  beforeEach(async () => {
    wallet = new Wallet(mint.url, { unit: 'sat', requireSigDleq: true });
    await wallet.loadMint();
  });

  it('turns a paid quote into proofs of its amount, once', async () => {
    const quote = await wallet.createMintQuoteBolt11(21, 'coffee');
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20001 });
    mint.pay(quote.request);
    expect((await wallet.checkMintQuoteBolt11(quote)).state).toBe('PAID');
    await expect(wallet.mintProofsBolt11(22, quote.quote)).rejects.toMatchObject({ code: 11005 });
    expect(sumProofs(await wallet.mintProofsBolt11(21, quote)).toNumber()).toBe(21);
    expect((await wallet.checkMintQuoteBolt11(quote)).state).toBe('ISSUED');
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20002 });
  });

  it('requires the key of a locked quote (NUT-20)', async () => {
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
  ] as const)('lets proofs be spent once, like %s', async (style, codes) => {
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
    await expect(wallet.completeSwap(preview)).rejects.toMatchObject({ code: codes.repeated });
  });

  async function mintedProofs(amountSat: number): Promise<Proof[]> {
    const quote = await wallet.createMintQuoteBolt11(amountSat);
    mint.pay(quote.request);
    return wallet.mintProofsBolt11(amountSat, quote);
  }

  async function statesOf(proofs: Proof[]): Promise<string[]> {
    return (await wallet.checkProofsStates(proofs)).map(({ state }) => state);
  }
});

it.each([
  // Every request restarts an elastic window; a sliding one admits as many as have left it.
  ['elastic', 60_000, [200, 200, 429, 59_000, 429, 59_000, 429, 60_000, 200, 200, 429]],
  ['elastic', 3_000, [200, 200, 429, 3_000, 200]],
  ['sliding', 3_000, [200, 200, 429, 2_999, 429, 1, 200, 200, 429]],
] as const)(
  'limits requests with a window that is %s, %i ms: %j',
  async (window, windowMs, course) => {
    mint.switches.rateLimit = { perMinute: 2, window, windowMs, retryAfterSeconds: 7 };
    for (const statusOrPause of course) {
      if (statusOrPause === 200 || statusOrPause === 429) {
        const { status, headers } = await fetch(`${mint.url}/v1/keysets`);
        expect(status).toBe(statusOrPause);
        expect(headers.get('retry-after')).toBe(status === 429 ? '7' : null);
      } else {
        now += statusOrPause;
      }
    }
    expect((await fetch(`${mint.url}/v1/info`)).status).toBe(200);
  },
);

/** cashu-ts compares the parity of a lock. */
function keyWithEvenPoint() {
  for (;;) {
    const key = schnorr.keygen();
    if (secp256k1.getPublicKey(key.secretKey)[0] === 2) {
      return key;
    }
  }
}
