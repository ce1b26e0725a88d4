import { randomBytes } from 'node:crypto';
import { type MeltQuoteBolt11Response, type Proof, sumProofs, Wallet } from '@cashu/cashu-ts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { encodeInvoice } from '../../src/demo/test-mint/bolt11-encoder.ts';
import type { ChaosRates } from '../../src/demo/test-mint/chaos.ts';
import { TestMint } from '../../src/demo/test-mint.ts';

/** Paying Lightning invoices out of ecash (NUT-05, NUT-08): a wallet against the test mint. */

/** The wallet goes by the system's clock. In whole seconds. */
const START = Math.floor(Date.now() / 1000) * 1000;
/** "Please consider supporting this project", an example of BOLT 11. */
const AMOUNTLESS =
  'lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrsgq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyetp5h2tztugp9lfyql';
const MELT = 'POST /v1/melt/bolt11';
let now: number;
let mint: TestMint;
let wallet: Wallet;

beforeEach(async () => {
  now = START;
  mint = await TestMint.start({ now: () => now });
  wallet = await loadedWallet(mint);
});

afterEach(() => mint.close());

describe('a quote', () => {
  test('names the amount, the reserve for fees, and the expiry of the invoice', async () => {
    const request = invoice(50_000);
    const quote = await wallet.createMeltQuoteBolt11(request);
    expect(plainQuote(quote)).toMatchObject({
      request,
      amount: 50,
      fee_reserve: 2,
      unit: 'sat',
      state: 'UNPAID',
      expiry: START / 1000 + 600,
    });
    expect(plainQuote(await wallet.checkMeltQuoteBolt11(quote.quote))).toEqual(plainQuote(quote));
    mint.switches.meltFeeReserveSat = 7;
    const dearer = await wallet.createMeltQuoteBolt11(request.toUpperCase());
    expect(plainQuote(dearer)).toMatchObject({ request, fee_reserve: 7 });
    expect(mint.meltQuotes.size).toBe(2);
    expect(mint.requestCounts['POST /v1/melt/quote/bolt11']).toBe(2);
    expect(mint.requestCounts['GET /v1/melt/quote/bolt11/:id']).toBe(1);
  });

  test('is told with the fields of each mint', async () => {
    const ask = async () =>
      (await post('/v1/melt/quote/bolt11', { request: invoice(1000), unit: 'sat' })).body;
    expect(await ask()).toMatchObject({ paid: false, payment_preimage: null, change: null });
    mint.switches.style = 'cdk';
    expect(Object.keys((await ask()) as object).toSorted()).toEqual(
      ['amount', 'expiry', 'fee_reserve', 'quote', 'request', 'state', 'unit'].toSorted(),
    );
  });

  test('rounds an amount up to whole sats', async () => {
    const quote = await wallet.createMeltQuoteBolt11(invoice(1_001));
    expect(quote.amount.toNumber()).toBe(2);
  });

  test.each([
    ['no invoice', { request: 'lnbc1nonsense', unit: 'sat' }, 400, 0, 422, undefined],
    ['another unit', { request: invoice(1000), unit: 'eur' }, 400, 10000, 400, 11013],
    ['an invoice without an amount', { request: AMOUNTLESS, unit: 'sat' }, 400, 11000, 400, 11011],
  ] as const)(
    '%s is refused as each mint does',
    async (_what, body, nStatus, nCode, cStatus, cCode) => {
      const refused = await post('/v1/melt/quote/bolt11', body);
      expect(refused).toMatchObject({ status: nStatus, body: { code: nCode } });
      mint.switches.style = 'cdk';
      const other = await post('/v1/melt/quote/bolt11', body);
      expect(other.status).toBe(cStatus);
      expect((other.body as { code?: number }).code).toBe(cCode);
    },
  );

  test('that nobody made is unknown', async () => {
    await expect(wallet.checkMeltQuoteBolt11('nope')).rejects.toMatchObject({ code: 0 });
    mint.switches.style = 'cdk';
    await expect(wallet.checkMeltQuoteBolt11('nope')).rejects.toMatchObject({ code: 50000 });
  });

  test.each([
    ['nutshell', 10000],
    ['cdk', 20003],
  ] as const)('meltDisabled: %s says so in its info, and makes none', async (style, code) => {
    mint.switches.style = style;
    expect((await nuts())[5]).toEqual({
      methods: [{ method: 'bolt11', unit: 'sat' }],
      disabled: false,
    });
    mint.switches.meltDisabled = true;
    expect((await nuts())[5]).toMatchObject({ disabled: true });
    await expect(wallet.createMeltQuoteBolt11(invoice(1000))).rejects.toMatchObject({ code });
  });
});

describe('a payment', () => {
  test('spends its inputs, and gives back what is left of the reserve', async () => {
    expect((await nuts())[8]).toEqual({ supported: true });
    const quote = await wallet.createMeltQuoteBolt11(invoice(50_000));
    const proofs = await minted(60);
    const { quote: paid, change } = await wallet.meltProofsBolt11(quote, proofs);
    expect(paid).toMatchObject({
      state: 'PAID',
      payment_preimage: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(sumProofs(change).toNumber()).toBe(60 - 50 - 1);
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['SPENT']));
    expect(sumProofs(await wallet.receive(change)).toNumber()).toBe(9);
    expect(mint.requestCounts[MELT]).toBe(1);
  });

  test('meltFeeSat: what it cost is kept, at most the reserve', async () => {
    mint.switches.meltFeeReserveSat = 10;
    mint.switches.meltFeeSat = 0;
    expect(await changeOf(20)).toBe(10);
    mint.switches.meltFeeSat = 99;
    expect(await changeOf(20)).toBe(0);
  });

  test('costs the fee of its inputs as well', async () => {
    mint.rotateKeyset({ inputFeePpk: 1000 });
    wallet = await loadedWallet(mint);
    const quote = await wallet.createMeltQuoteBolt11(invoice(28_000));
    const tooFew = await minted(31);
    expect(tooFew).toHaveLength(5);
    await expect(wallet.meltProofsBolt11(quote, tooFew)).rejects.toMatchObject({ code: 11000 });
    const enough = await minted(48);
    const { change } = await wallet.meltProofsBolt11(quote, enough);
    expect(sumProofs(change).toNumber()).toBe(48 - 28 - enough.length - 1);
  });

  test('change is in later reads of the quote, and restored (NUT-09)', async () => {
    const quote = await wallet.createMeltQuoteBolt11(invoice(50_000));
    const preview = await wallet.prepareMelt('bolt11', quote, await minted(60));
    await wallet.completeMelt(preview);
    const { change = [] } = await wallet.checkMeltQuoteBolt11(quote.quote);
    const proofs = wallet.createMeltChangeProofs(preview.outputData, change);
    expect(sumProofs(proofs).toNumber()).toBe(9);
    const outputs = preview.outputData.map(({ blindedMessage }) => blindedMessage);
    const { signatures } = await wallet.mint.restore({ outputs });
    expect(signatures.map(({ C_ }) => C_)).toEqual(change.map(({ C_ }) => C_));
    expect(signatures.map(({ amount }) => Number(amount))).toEqual([8, 1]);
  });

  test('without blank outputs nothing comes back, and it is paid', async () => {
    const quote = await wallet.createMeltQuoteBolt11(invoice(50_000));
    const { quote: paid, change } = await wallet.meltProofsBolt11(quote, await minted(60), {
      nut08Change: false,
    });
    expect(paid.state).toBe('PAID');
    expect(change).toEqual([]);
  });

  test.each([
    ['nutshell', 11000],
    ['cdk', 11005],
  ] as const)('%s refuses one with too little', async (style, code) => {
    mint.switches.style = style;
    const quote = await wallet.createMeltQuoteBolt11(invoice(50_000));
    const proofs = await minted(51);
    await expect(wallet.meltProofsBolt11(quote, proofs)).rejects.toMatchObject({ code });
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['UNSPENT']));
  });

  test.each([
    ['nutshell', 11000, 11000, 11000],
    ['cdk', 20006, 11001, 20006],
  ] as const)(
    '%s pays a quote once, and an invoice once',
    async (style, again, sameInputs, other) => {
      mint.switches.style = style;
      const request = invoice(8_000);
      const [quote, second] = [
        await wallet.createMeltQuoteBolt11(request),
        await wallet.createMeltQuoteBolt11(request),
      ];
      const proofs = await minted(10);
      await wallet.meltProofsBolt11(quote, proofs);
      const fresh = await minted(10);
      await expect(wallet.meltProofsBolt11(quote, fresh)).rejects.toMatchObject({ code: again });
      await expect(wallet.meltProofsBolt11(quote, proofs)).rejects.toMatchObject({
        code: sameInputs,
      });
      await expect(wallet.meltProofsBolt11(second, fresh)).rejects.toMatchObject({ code: other });
      expect(new Set(await statesOf(fresh))).toEqual(new Set(['UNSPENT']));
    },
  );

  test('spent proofs pay for nothing', async () => {
    const proofs = await minted(10);
    await wallet.receive(proofs);
    const quote = await wallet.createMeltQuoteBolt11(invoice(8_000));
    await expect(wallet.meltProofsBolt11(quote, proofs)).rejects.toMatchObject({ code: 11001 });
    expect((await wallet.checkMeltQuoteBolt11(quote.quote)).state).toBe('UNPAID');
  });

  test('that fails leaves the quote UNPAID, and everything free for another try', async () => {
    mint.switches.meltPayment = 'failed';
    const quote = await wallet.createMeltQuoteBolt11(invoice(50_000));
    const proofs = await minted(60);
    const preview = await wallet.prepareMelt('bolt11', quote, proofs);
    await expect(wallet.completeMelt(preview)).rejects.toMatchObject({ code: 20004 });
    expect((await wallet.checkMeltQuoteBolt11(quote.quote)).state).toBe('UNPAID');
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['UNSPENT']));
    mint.switches.meltPayment = 'paid';
    expect((await wallet.completeMelt(preview)).change).toHaveLength(2);
  });

  test('of an expired invoice fails', async () => {
    const quote = await wallet.createMeltQuoteBolt11(invoice(8_000));
    now += 601_000;
    const proofs = await minted(10);
    await expect(wallet.meltProofsBolt11(quote, proofs)).rejects.toMatchObject({ code: 20004 });
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['UNSPENT']));
  });

  async function changeOf(amountSat: number): Promise<number> {
    const quote = await wallet.createMeltQuoteBolt11(invoice(amountSat * 1000));
    const { change } = await wallet.meltProofsBolt11(quote, await minted(amountSat + 10));
    return sumProofs(change).toNumber();
  }
});

describe('a payment under way', () => {
  beforeEach(() => {
    mint.switches.meltPayment = 'pending';
  });

  test.each([
    ['nutshell', 11000, 11004],
    ['cdk', 20005, 11008],
  ] as const)(
    '%s: quote and inputs are PENDING, and nothing is taken twice',
    async (style, again, outputsCode) => {
      mint.switches.style = style;
      const { quote, proofs, preview } = await pendingPayment();
      expect(await wallet.checkMeltQuoteBolt11(quote.quote)).toMatchObject({ state: 'PENDING' });
      expect(new Set(await statesOf(proofs))).toEqual(new Set(['PENDING']));
      await expect(wallet.receive(proofs)).rejects.toMatchObject({ code: 11002 });
      const fresh = await minted(60);
      await expect(wallet.meltProofsBolt11(quote, fresh)).rejects.toMatchObject({ code: again });
      const sameBlanks = { ...preview, quote: await wallet.createMeltQuoteBolt11(invoice(1000)) };
      await expect(wallet.completeMelt({ ...sameBlanks, inputs: fresh })).rejects.toMatchObject({
        code: outputsCode,
      });
    },
  );

  test('that is made: inputs spent, change signed', async () => {
    const { quote, proofs, preview } = await pendingPayment();
    mint.rotateKeyset();
    expect(mint.settleMelt(quote.quote, 'paid')).toMatchObject({ state: 'PAID' });
    const paid = await wallet.checkMeltQuoteBolt11(quote.quote);
    const change = wallet.createMeltChangeProofs(preview.outputData, paid.change ?? []);
    expect(sumProofs(change).toNumber()).toBe(9);
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['SPENT']));
  });

  test('that fails in the end: inputs unspent, quote UNPAID', async () => {
    const { quote, proofs } = await pendingPayment();
    expect(mint.settleMelt(quote.quote, 'failed')).toMatchObject({ state: 'UNPAID' });
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['UNSPENT']));
    expect(sumProofs(await wallet.receive(proofs)).toNumber()).toBe(60);
  });

  test('settling what is not PENDING is an error of the test', async () => {
    const { quote } = await wallet.createMeltQuoteBolt11(invoice(1000));
    expect(() => mint.settleMelt(quote, 'paid')).toThrow('not pending');
    expect(() => mint.settleMelt('nope', 'failed')).toThrow('not pending');
  });

  async function pendingPayment() {
    const quote = await wallet.createMeltQuoteBolt11(invoice(50_000));
    const proofs = await minted(60);
    const preview = await wallet.prepareMelt('bolt11', quote, proofs);
    const { quote: pending } = await wallet.completeMelt(preview);
    expect(pending.state).toBe('PENDING');
    return { quote, proofs, preview };
  }
});

describe("an invoice of this mint's own", () => {
  test.each([
    ['nutshell', 0],
    ['cdk', 2],
  ] as const)('%s settles it without Lightning and without a fee', async (style, reserveSat) => {
    mint.switches.style = style;
    mint.switches.meltPayment = 'failed';
    const asked = await wallet.createMintQuoteBolt11(20);
    const quote = await wallet.createMeltQuoteBolt11(asked.request);
    expect(quote.fee_reserve.toNumber()).toBe(reserveSat);
    const { quote: paid, change } = await wallet.meltProofsBolt11(quote, await minted(23));
    expect(paid.state).toBe('PAID');
    expect(sumProofs(change).toNumber()).toBe(3);
    expect((await wallet.checkMintQuoteBolt11(asked)).state).toBe('PAID');
    expect(sumProofs(await wallet.mintProofsBolt11(20, asked)).toNumber()).toBe(20);
  });

  test.each([
    ['nutshell', 11000],
    ['cdk', 20006],
  ] as const)('%s refuses it once it was paid by somebody else', async (style, code) => {
    mint.switches.style = style;
    const asked = await wallet.createMintQuoteBolt11(20);
    const quote = await wallet.createMeltQuoteBolt11(asked.request);
    mint.pay(asked.request);
    const proofs = await minted(22);
    await expect(wallet.meltProofsBolt11(quote, proofs)).rejects.toMatchObject({ code });
    expect(new Set(await statesOf(proofs))).toEqual(new Set(['UNSPENT']));
    expect((await wallet.checkMeltQuoteBolt11(quote.quote)).state).toBe('UNPAID');
  });
});

describe('trouble while melting', () => {
  test('holds: before it nothing is paid, after it all is', async () => {
    const quote = await wallet.createMeltQuoteBolt11(invoice(8_000));
    const [before, after] = [mint.hold(MELT, 'before'), mint.hold(MELT, 'after')];
    const melted = wallet.meltProofsBolt11(quote, await minted(10));
    await before.reached;
    expect(mint.meltQuotes.get(quote.quote)?.state).toBe('UNPAID');
    before.release();
    await after.reached;
    expect(mint.meltQuotes.get(quote.quote)?.state).toBe('PAID');
    after.release();
    expect((await melted).quote.state).toBe('PAID');
  });

  test.each([
    ['cutBefore', 'UNPAID'],
    ['silence', 'UNPAID'],
    ['cutAfter', 'PAID'],
    ['silenceAfter', 'PAID'],
  ] as const)('%s: no answer, and the quote is %s', async (fault, state) => {
    const { quote, body } = await paymentBody();
    letHappen(fault);
    const isSilent = fault.startsWith('silence');
    const client = new AbortController();
    const melted = fetch(`${mint.url}/v1/melt/bolt11`, {
      method: 'POST',
      body,
      signal: client.signal,
    });
    const ended = expect(melted).rejects.toThrow(isSilent ? 'aborted' : 'fetch failed');
    await expect.poll(() => mint.chaosCounts[fault]).toBe(1);
    if (isSilent) {
      client.abort();
    }
    await ended;
    expect(mint.meltQuotes.get(quote)?.state).toBe(state);
  });

  test('late: the answer is overtaken by the news of the payment', async () => {
    const { quote, body } = await paymentBody();
    letHappen('late');
    const melted = fetch(`${mint.url}/v1/melt/bolt11`, { method: 'POST', body });
    await expect.poll(() => mint.meltQuotes.get(quote)?.state).toBe('PAID');
    expect(await (await melted).json()).toMatchObject({ state: 'PAID' });
    expect(mint.chaosCounts.late).toBe(1);
  });

  test('rateLimit and failNext hold for its routes', async () => {
    mint.switches.rateLimit = { perMinute: 2 };
    mint.failNext(MELT);
    const statusOf = async () => (await post('/v1/melt/bolt11', {})).status;
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([500, 422, 429]);
  });

  function letHappen(fault: keyof ChaosRates): void {
    mint.switches.chaos = { rates: {}, ratesByRoute: { [MELT]: { [fault]: 1 } } };
  }

  async function paymentBody(): Promise<{ quote: string; body: string }> {
    const { quote } = await wallet.createMeltQuoteBolt11(invoice(8_000));
    const proofs = (await minted(10)).map((proof) => ({ ...proof, amount: Number(proof.amount) }));
    return { quote, body: JSON.stringify({ quote, inputs: proofs }) };
  }
});

async function loadedWallet(at: TestMint): Promise<Wallet> {
  const loaded = new Wallet(at.url, { unit: 'sat' });
  await loaded.loadMint();
  return loaded;
}

async function minted(amountSat: number): Promise<Proof[]> {
  const quote = await wallet.createMintQuoteBolt11(amountSat);
  mint.pay(quote.request);
  return wallet.mintProofsBolt11(amountSat, quote);
}

async function statesOf(proofs: Proof[]): Promise<string[]> {
  return (await wallet.checkProofsStates(proofs)).map(({ state }) => state);
}

/** An invoice of a node that is not this mint's. */
function invoice(amountMsat: number): string {
  const contents = {
    amountMsat,
    createdAt: START / 1000,
    expirySeconds: 600,
    paymentHash: randomBytes(32),
    paymentSecret: randomBytes(32),
    description: 'elsewhere',
  };
  return encodeInvoice(contents, randomBytes(32));
}

function plainQuote({ amount, fee_reserve, ...quote }: MeltQuoteBolt11Response): object {
  return { ...quote, amount: Number(amount), fee_reserve: Number(fee_reserve) };
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
