import { setImmediate } from 'node:timers/promises';
import {
  CheckStateEnum,
  type OutputDataLike,
  P2PKBuilder,
  type Proof,
  SigAll,
  type SwapPreview,
  sumProofs,
  Wallet,
} from '@cashu/cashu-ts';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ChaosRates } from '../../src/demo/test-mint/chaos.ts';
import type { Route } from '../../src/demo/test-mint/routes.ts';
import { TestMint } from '../../src/demo/test-mint.ts';

/** What the test mint does with ecash beyond minting it: a wallet against it, and plain requests. */

const { SPENT, UNSPENT, PENDING } = CheckStateEnum;
const SWAP = 'POST /v1/swap';
let mint: TestMint;
let wallet: Wallet;

beforeEach(async () => {
  mint = await TestMint.start();
  wallet = await loadedWallet(mint);
});

afterEach(() => mint.close());

describe('restoring (NUT-09)', () => {
  test('a wallet that lost everything but its seed has its money again', async () => {
    const bip39seed = new Uint8Array(64).fill(7);
    const before = await loadedWallet(mint, { bip39seed });
    await before.receive(await minted(21, before));

    const after = await loadedWallet(mint, { bip39seed });
    const { proofs } = await after.batchRestore();
    const states = await after.checkProofsStates(proofs);
    const unspent = proofs.filter((_, i) => states[i]?.state === UNSPENT);
    expect(sumProofs(unspent).toNumber()).toBe(21);
    expect(sumProofs(proofs).toNumber()).toBe(42);
  });

  test('only what was signed comes back, each with its signature and the amount signed', async () => {
    const preview = await swapOf(await minted(5));
    const known = blindedMessages(preview);
    const unknown = blindedMessages(await swapOf(await minted(8)));
    expect(await wallet.mint.restore({ outputs: known })).toEqual({ outputs: [], signatures: [] });
    const { signatures } = await wallet.mint.swap({ inputs: preview.inputs, outputs: known });

    const asked = [...unknown, ...known.map((output) => ({ ...output, amount: 0 }))];
    const answer = (await post('/v1/restore', { outputs: plain(asked) })).body as RestoreAnswer;
    expect(answer.outputs.map(({ B_ }) => B_)).toEqual(known.map(({ B_ }) => B_));
    expect(answer.signatures).toEqual(plain(signatures));
  });

  test('restore: off is neither advertised nor answered', async () => {
    expect((await nuts())[9]).toEqual({ supported: true });
    mint.switches.restore = false;
    expect(await nuts()).not.toHaveProperty('9');
    expect((await post('/v1/restore', { outputs: [] })).status).toBe(404);
  });
});

describe('a swap under way', () => {
  test.each([
    ['nutshell', 11002, 'proofs are pending', 11004],
    ['cdk', 11002, 'Token Pending', 11008],
  ] as const)(
    '%s: its inputs are PENDING and not taken twice',
    async (style, code, detail, outputsCode) => {
      mint.switches.style = style;
      const proofs = await minted(8);
      const preview = await swapOf(proofs);
      const hold = mint.hold(SWAP, 'during');
      const swapped = wallet.completeSwap(preview);
      await hold.reached;

      expect(await statesOf(proofs)).toEqual([PENDING]);
      await expect(wallet.receive(proofs)).rejects.toMatchObject({ code, message: detail });
      const others = { ...preview, inputs: (await swapOf(await minted(8))).inputs };
      await expect(wallet.completeSwap(others)).rejects.toMatchObject({ code: outputsCode });
      const outputs = blindedMessages(preview);
      expect((await wallet.mint.restore({ outputs })).signatures).toEqual([]);

      hold.release();
      const { keep } = await swapped;
      expect(await statesOf(proofs)).toEqual([SPENT]);
      expect(await statesOf(keep)).toEqual([UNSPENT]);
    },
  );

  test.each([
    ['nutshell', 11001],
    ['cdk', 11003],
  ] as const)('%s refuses the same swap again with %i', async (style, code) => {
    mint.switches.style = style;
    const preview = await swapOf(await minted(8));
    await wallet.completeSwap(preview);
    await expect(wallet.completeSwap(preview)).rejects.toMatchObject({ code });
  });

  test('one that was refused leaves its inputs and outputs free', async () => {
    const preview = await swapOf(await minted(12));
    const tooFew = { inputs: preview.inputs, outputs: blindedMessages(preview).slice(1) };
    await expect(wallet.mint.swap(tooFew)).rejects.toMatchObject({ code: 11005 });
    await expect(wallet.completeSwap(preview)).resolves.toBeDefined();
  });
});

describe('holds', () => {
  test('before: nothing is done while the request is held, all of it after', async () => {
    const proofs = await minted(8);
    const hold = mint.hold(SWAP, 'before');
    const received = wallet.receive(proofs);
    await hold.reached;
    expect(mint.requestCounts[SWAP]).toBe(1);
    expect(await statesOf(proofs)).toEqual([UNSPENT]);
    hold.release();
    expect(sumProofs(await received).toNumber()).toBe(8);
  });

  test('after: all is done, and only the answer is missing', async () => {
    const preview = await swapOf(await minted(8));
    const hold = mint.hold(SWAP, 'after');
    const swapped = wallet.completeSwap(preview);
    await hold.reached;
    expect(await statesOf(preview.inputs)).toEqual([SPENT]);
    const restored = await wallet.mint.restore({ outputs: blindedMessages(preview) });
    expect(restored.signatures).toHaveLength(1);
    hold.release();
    expect(sumProofs((await swapped).keep).toNumber()).toBe(8);
  });

  test('a client that has gone meanwhile changes nothing', async () => {
    const preview = await swapOf(await minted(8));
    const hold = mint.hold(SWAP, 'before');
    const afterwards = mint.hold(SWAP, 'after');
    const client = new AbortController();
    const swapped = fetch(`${mint.url}/v1/swap`, {
      method: 'POST',
      body: JSON.stringify(plain({ inputs: preview.inputs, outputs: blindedMessages(preview) })),
      signal: client.signal,
    });
    await hold.reached;
    client.abort();
    await expect(swapped).rejects.toThrow('aborted');
    expect(await statesOf(preview.inputs)).toEqual([UNSPENT]);

    hold.release();
    await afterwards.reached;
    expect(await statesOf(preview.inputs)).toEqual([SPENT]);
    afterwards.release();
    expect((await fetch(`${mint.url}/v1/info`)).status).toBe(200);
  });

  test('each holds one request of its route, unless it was released before', async () => {
    mint.hold('GET /v1/keysets', 'before').release();
    const holds = [mint.hold('GET /v1/keysets', 'before'), mint.hold('GET /v1/keysets', 'before')];
    const order: string[] = [];
    const ask = async (name: string) => {
      await fetch(`${mint.url}/v1/keysets`);
      order.push(name);
    };
    const first = ask('first');
    await holds[0]?.reached;
    const second = ask('second');
    await holds[1]?.reached;
    await ask('third');
    holds[1]?.release();
    await second;
    holds[0]?.release();
    await first;
    expect(order).toEqual(['third', 'second', 'first']);
  });

  test('closing the mint ends them: nothing more is done', async () => {
    const closing = await TestMint.start();
    const hold = closing.hold('POST /v1/mint/quote/bolt11', 'before');
    const asked = fetch(`${closing.url}/v1/mint/quote/bolt11`, {
      method: 'POST',
      body: '{"amount":1,"unit":"sat"}',
    });
    const ended = expect(asked).rejects.toThrow('fetch failed');
    await hold.reached;
    await closing.close();
    await ended;
    hold.release();
    await setImmediate();
    expect(closing.quotes.size).toBe(0);
  });
});

describe('chaos on the routes of ecash', () => {
  test.each([
    ['cutBefore', UNSPENT],
    ['silence', UNSPENT],
    ['cutAfter', SPENT],
    ['silenceAfter', SPENT],
  ] as const)('%s: a swap has no answer, and its inputs are %s', async (fault, state) => {
    const preview = await swapOf(await minted(8));
    const body = { inputs: preview.inputs, outputs: blindedMessages(preview) };
    letHappen(SWAP, fault);
    await expectNoAnswer(fault, '/v1/swap', body);
    expect(await statesOf(preview.inputs)).toEqual([state]);
  });

  test('late: a swap is done before its answer comes', async () => {
    const proofs = await minted(8);
    letHappen(SWAP, 'late');
    const received = wallet.receive(proofs);
    await expect.poll(() => statesOf(proofs)).toEqual([SPENT]);
    expect(sumProofs(await received).toNumber()).toBe(8);
    expect(mint.chaosCounts.late).toBe(1);
  });

  test.each([
    ['POST /v1/restore', '/v1/restore', { outputs: [] }],
    ['POST /v1/checkstate', '/v1/checkstate', { Ys: [] }],
  ] as const)('%s: is cut, unanswered or late too', async (route, path, body) => {
    for (const fault of ['cutBefore', 'cutAfter', 'silence', 'silenceAfter'] as const) {
      letHappen(route, fault);
      await expectNoAnswer(fault, path, body);
    }
    letHappen(route, 'late');
    expect((await post(path, body)).status).toBe(200);
    expect(mint.chaosCounts.late).toBe(1);
    expect(mint.requestCounts[route]).toBe(5);
  });

  function letHappen(route: Route, fault: keyof ChaosRates): void {
    mint.switches.chaos = { rates: {}, ratesByRoute: { [route]: { [fault]: 1 } } };
  }

  /** The mint cuts the line, or the client loses its patience. */
  async function expectNoAnswer(
    fault: keyof ChaosRates,
    path: string,
    body: unknown,
  ): Promise<void> {
    const isSilent = fault.startsWith('silence');
    const client = new AbortController();
    const asked = fetch(mint.url + path, {
      method: 'POST',
      body: JSON.stringify(plain(body)),
      signal: client.signal,
    });
    const ended = expect(asked).rejects.toThrow(isSilent ? 'aborted' : 'fetch failed');
    await expect.poll(() => mint.chaosCounts[fault]).toBe(1);
    if (isSilent) {
      client.abort();
    }
    await ended;
  }
});

test('rateLimit and failNext hold for restoring too', async () => {
  mint.switches.rateLimit = { perMinute: 2 };
  mint.failNext('POST /v1/restore');
  const statusOf = async () => (await post('/v1/restore', { outputs: [] })).status;
  expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([500, 200, 429]);
});

describe('several keysets', () => {
  test('an old one is listed as inactive, its keys are found, and its proofs are spent', async () => {
    const old = wallet.keysetId;
    const proofs = await minted(8);
    const fresh = mint.rotateKeyset({ inputFeePpk: 100 });
    expect((await wallet.mint.getKeySets()).keysets).toMatchObject([
      { id: old, active: false, input_fee_ppk: 0 },
      { id: fresh, active: true, input_fee_ppk: 100 },
    ]);
    expect((await wallet.mint.getKeys()).keysets).toMatchObject([{ id: fresh }]);
    expect((await wallet.mint.getKeys(old)).keysets).toMatchObject([{ id: old, active: false }]);

    const received = await (await walletKnowing(old)).receive(proofs);
    expect(received).toMatchObject([{ id: fresh }]);
    expect(sumProofs(received).toNumber()).toBe(8);
  });

  test.each([
    ['nutshell', 11000, 'keyset id inactive.'],
    ['cdk', 12002, 'Inactive Keyset'],
  ] as const)('%s signs nothing more with an old one', async (style, code, message) => {
    mint.switches.style = style;
    const preview = await swapOf(await minted(8));
    const quote = await paidQuote(4);
    mint.rotateKeyset();
    await expect(wallet.completeSwap(preview)).rejects.toMatchObject({ code, message });
    await expect(wallet.mintProofsBolt11(4, quote)).rejects.toMatchObject({ code, message });
    expect(await statesOf(preview.inputs)).toEqual([UNSPENT]);
  });

  test('each input costs by its own keyset, and the sum is rounded up', async () => {
    const dearId = mint.rotateKeyset({ inputFeePpk: 1200 });
    wallet = await loadedWallet(mint);
    const dear = await minted(3);
    mint.rotateKeyset({ inputFeePpk: 100 });
    wallet = await walletKnowing(dearId);
    const cheap = await minted(7);
    expect([dear.length, cheap.length]).toEqual([2, 3]);
    expect(sumProofs(await wallet.receive([...dear, ...cheap])).toNumber()).toBe(10 - 3);
  });

  test('without a fee named, the new one costs as much as the old one', async () => {
    mint.rotateKeyset({ inputFeePpk: 250 });
    mint.rotateKeyset();
    const fees = (await wallet.mint.getKeySets()).keysets.map((keyset) => keyset.input_fee_ppk);
    expect(fees).toEqual([0, 250, 250]);
  });

  test('ids are of version 2, or of version 1 where the mint is told so', async () => {
    expect(wallet.keysetId).toMatch(/^01[0-9a-f]{64}$/);
    const older = await TestMint.start({ keysetIdVersion: 'v1', inputFeePpk: 100 });
    const olderWallet = await loadedWallet(older);
    expect(olderWallet.keysetId).toMatch(/^00[0-9a-f]{14}$/);
    const quote = await olderWallet.createMintQuoteBolt11(21);
    older.pay(quote.request);
    const received = await olderWallet.receive(await olderWallet.mintProofsBolt11(21, quote));
    expect(sumProofs(received).toNumber()).toBe(20);
    expect(older.rotateKeyset()).toMatch(/^00[0-9a-f]{14}$/);
    await older.close();
  });
});

describe('spending conditions (NUT-10, NUT-11)', () => {
  const secretKey = Buffer.from(schnorr.utils.randomSecretKey()).toString('hex');
  const pubkey = Buffer.from(secp256k1.getPublicKey(Buffer.from(secretKey, 'hex'))).toString('hex');

  test('are advertised', async () => {
    expect(await nuts()).toMatchObject({ 10: { supported: true }, 11: { supported: true } });
  });

  test('a locked proof is spent with its key, and its state shows the witness', async () => {
    const locked = await lockedProofs(13);
    const received = await wallet.receive(locked, { privkey: secretKey });
    expect(sumProofs(received).toNumber()).toBe(13);
    const [state] = await wallet.checkProofsStates(locked);
    expect(state).toMatchObject({ state: SPENT, witness: expect.stringContaining('signatures') });
  });

  test.each([
    ['nutshell', 0, 11000],
    ['cdk', 20008, 20008],
  ] as const)('%s refuses it without a key, and with another', async (style, missing, wrong) => {
    mint.switches.style = style;
    const preview = await swapOf(await lockedProofs(8));
    await expect(wallet.completeSwap(preview)).rejects.toMatchObject({ code: missing });
    const signed = wallet.signP2PKProofs(await lockedProofs(8), secretKey);
    const borrowed = preview.inputs.map((proof, i) => ({
      ...proof,
      ...(signed[i]?.witness && { witness: signed[i].witness }),
    }));
    const forged = wallet.completeSwap({ ...preview, inputs: borrowed });
    await expect(forged).rejects.toMatchObject({ code: wrong });
    expect(new Set(await statesOf(preview.inputs))).toEqual(new Set([UNSPENT]));
  });

  test('a signature for all (SIG_ALL) is for exactly these outputs', async () => {
    const locked = await lockedProofs(13, new P2PKBuilder().sigAll());
    const [one, other] = [await swapOf(locked), await swapOf(locked)];
    const outputs = (one.keepOutputs ?? []) as OutputDataLike[];
    const inputs = wallet.signP2PKProofs(one.inputs, secretKey, outputs);
    await expect(wallet.completeSwap({ ...other, inputs })).rejects.toMatchObject({ code: 11000 });
    const { keep } = await wallet.completeSwap({ ...one, inputs });
    expect(sumProofs(keep).toNumber()).toBe(13);
  });

  test('a signature for all does not carry an input with another lock', async () => {
    const locked = await lockedProofs(8, new P2PKBuilder().sigAll());
    const preview = await swapOf([...locked, ...(await minted(4))]);
    const outputs = blindedMessages(preview);
    const { v0 } = SigAll.computeDigests(preview.inputs, outputs);
    const witness = JSON.stringify({ signatures: [SigAll.signDigest(v0, secretKey)] });
    const inputs = preview.inputs.map((proof, i) => (i === 0 ? { ...proof, witness } : proof));
    const body = plain({ inputs, outputs });
    expect(await post('/v1/swap', body)).toMatchObject({ status: 400, body: { code: 11000 } });
  });

  test('a lock that has run out keeps nobody out', async () => {
    const locked = await lockedProofs(8, new P2PKBuilder().lockUntil(1));
    expect(sumProofs(await wallet.receive(locked)).toNumber()).toBe(8);
  });

  test('Nutshell alone refuses a witness where there is no lock', async () => {
    const preview = await swapOf(await minted(8));
    const inputs = preview.inputs.map((proof) => ({ ...proof, witness: '{"signatures":[]}' }));
    const body = plain({ inputs, outputs: blindedMessages(preview) });
    const refused = await post('/v1/swap', body);
    expect(refused).toMatchObject({ status: 400, body: { code: 11000 } });
    mint.switches.style = 'cdk';
    expect((await post('/v1/swap', body)).status).toBe(200);
  });

  async function lockedProofs(amountSat: number, builder = new P2PKBuilder()): Promise<Proof[]> {
    const options = builder.addLockPubkey(pubkey).toOptions();
    const { send } = await wallet.ops
      .send(amountSat, await minted(amountSat))
      .asP2PK(options)
      .run();
    expect(sumProofs(send).toNumber()).toBe(amountSat);
    return send;
  }
});

interface RestoreAnswer {
  outputs: { B_: string }[];
  signatures: unknown[];
}

async function loadedWallet(at: TestMint, options: object = {}): Promise<Wallet> {
  const loaded = new Wallet(at.url, { unit: 'sat', ...options });
  await loaded.loadMint();
  return loaded;
}

/** A wallet that met the mint when this keyset was active. */
async function walletKnowing(keysetId: string): Promise<Wallet> {
  const loaded = await loadedWallet(mint);
  await loaded.keyChain.ensureKeysetKeys(keysetId);
  return loaded;
}

async function paidQuote(amountSat: number, by = wallet) {
  const quote = await by.createMintQuoteBolt11(amountSat);
  mint.pay(quote.request);
  return quote;
}

async function minted(amountSat: number, by = wallet): Promise<Proof[]> {
  return by.mintProofsBolt11(amountSat, await paidQuote(amountSat, by));
}

function swapOf(proofs: Proof[]): Promise<SwapPreview> {
  return wallet.prepareSwapToReceive(proofs);
}

function blindedMessages({ keepOutputs = [] }: SwapPreview) {
  return keepOutputs.map(({ blindedMessage }) => blindedMessage);
}

async function statesOf(proofs: Proof[]): Promise<string[]> {
  return (await wallet.checkProofsStates(proofs)).map(({ state }) => state);
}

/** As it goes over the wire: amounts as numbers. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, member) => (key === 'amount' ? Number(member) : member)),
  );
}

async function post(path: string, body: unknown): Promise<{ status: number; body: unknown }> {
  const response = await fetch(mint.url + path, { method: 'POST', body: JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text };
}

async function nuts(): Promise<Record<string, unknown>> {
  const info = await (await fetch(`${mint.url}/v1/info`)).json();
  return (info as { nuts: Record<string, unknown> }).nuts;
}
