import { CheckStateEnum, type Proof, Wallet } from '@cashu/cashu-ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';

// test/acceptance/demo.test.ts covers the collection of payments.

const FEE_PPK = 600;
const { SPENT, UNSPENT, PENDING } = CheckStateEnum;

let now: number;
let mint: TestMint;

beforeEach(async () => {
  now = Date.now();
  mint = await TestMint.start({ inputFeePpk: FEE_PPK, now: () => now });
});

afterEach(() => mint.close());

describe('TestMint with a cashu-ts wallet', () => {
  let wallet: Wallet;

  beforeEach(async () => {
    wallet = new Wallet(mint.url, { unit: 'sat', requireSigDleq: true });
    await wallet.loadMint();
  });

  it.each([
    ['nutshell', { pending: 11002, pendingOutput: 11004, repeated: 11001 }],
    ['cdk', { pending: 11002, pendingOutput: 11008, repeated: 11003 }],
  ] as const)(
    'lets proofs be spent only once and uses the error codes of %s',
    async (style, codes) => {
      mint.switches.style = style;
      const proofs = await mintProofs(8);
      const preview = await wallet.prepareSwapToReceive(proofs);
      const swapHold = mint.holdNext('POST /v1/swap', 'during');
      const swapping = wallet.completeSwap(preview);
      await swapHold.reached;
      expect(await readStates(proofs)).toEqual([PENDING]);
      await expect(wallet.receive(proofs)).rejects.toMatchObject({ code: codes.pending });
      const { inputs } = await wallet.prepareSwapToReceive(await mintProofs(8));
      const swapToSameOutputs = wallet.completeSwap({ ...preview, inputs });
      await expect(swapToSameOutputs).rejects.toMatchObject({ code: codes.pendingOutput });

      swapHold.release();
      expect(new Set(await readStates((await swapping).keep))).toEqual(new Set([UNSPENT]));
      expect(await readStates(proofs)).toEqual([SPENT]);
      await expect(wallet.completeSwap(preview)).rejects.toMatchObject({ code: codes.repeated });
    },
  );

  async function mintProofs(amountSat: number): Promise<Proof[]> {
    const quote = await wallet.createMintQuoteBolt11(amountSat);
    mint.pay(quote.request);
    return wallet.mintProofsBolt11(amountSat, quote);
  }

  async function readStates(proofs: Proof[]): Promise<string[]> {
    return (await wallet.checkProofsStates(proofs)).map(({ state }) => state);
  }
});

it.each([
  // Numbers are expected statuses, or pauses in ms. Every request, even a rejected one, restarts an elastic window.
  ['elastic', 60_000, [200, 200, 429, 59_000, 429, 59_000, 429, 60_000, 200, 200, 429]],
  ['elastic', 3_000, [200, 200, 429, 3_000, 200]],
  ['sliding', 3_000, [200, 200, 429, 2_999, 429, 1, 200, 200, 429]],
] as const)(
  'TestMint admits two requests per %s window of %i ms: %j',
  async (windowKind, windowMs, statusesAndPauses) => {
    mint.switches.rateLimit = {
      requestsPerWindow: 2,
      windowKind,
      windowMs,
      retryAfterSeconds: 7,
    };
    for (const statusOrPause of statusesAndPauses) {
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
