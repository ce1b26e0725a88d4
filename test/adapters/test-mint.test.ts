import { CheckStateEnum, type Proof, Wallet } from '@cashu/cashu-ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';

/** Features that crash and rate limit tests rely on. `test/acceptance/demo.test.ts` covers collecting payments. */

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

  it.each([
    ['nutshell', { pending: 11002, pendingOutput: 11004, repeated: 11001 }],
    ['cdk', { pending: 11002, pendingOutput: 11008, repeated: 11003 }],
  ] as const)('lets proofs be spent once, like %s', async (style, codes) => {
    mint.switches.style = style;
    const proofs = await mintedProofs(8);
    const preview = await wallet.prepareSwapToReceive(proofs);
    const hold = mint.holdNext('POST /v1/swap', 'during');
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
    mint.switches.rateLimit = { requestsPerWindow: 2, window, windowMs, retryAfterSeconds: 7 };
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
