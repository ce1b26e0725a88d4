import { beforeEach, describe, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { scrapeMetrics } from '../helpers/service/metrics-scrape.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { setMint, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Until when a payment can be collected, at mints of which that is not known in advance. */

const MINUTE_MS = 60_000;
/** How long the quotes of the test mint are valid. */
const LIFETIME_MS = 60 * MINUTE_MS;

const clock = new TestClock();
const environment = useTestEnvironment({
  env: { METRICS_PORT: '0' },
  mint: { now: clock.now },
  overrides: { clock: clock.now, scanIntervalMs: 5 },
});
let mint: TestMint;
let wallet: RecipientClient;

beforeEach(async () => {
  mint = await startTestMint({ version: 'Other/1.0' }, { now: clock.now });
  wallet = environment.newWallet();
  expect((await setMint(wallet, mint.url)).status).toBe(200);
});

describe('collectBy', () => {
  it('is the expiry of a paid quote, and that of the next one in the summary', async () => {
    const first = await receivePayment();
    clock.advance(20 * MINUTE_MS);
    const second = await receivePayment();
    expect(await readDeadlines()).toEqual([second.expiresAt, first.expiresAt]);
    expect(await findDeadline(first.id)).toBe(first.expiresAt);
    expect(await readNextDeadline()).toBe(first.expiresAt);

    clock.advance(LIFETIME_MS - 20 * MINUTE_MS);
    expect(await readDeadlines()).toEqual([second.expiresAt, first.expiresAt]);
    expect(await readNextDeadline()).toBe(second.expiresAt);
    await eventually(async () => {
      // Rows are counted at most every ten seconds.
      clock.advance(10_000);
      const metrics = await scrapeMetrics(environment.service);
      expect(metrics.sumSeries('nutpost_payments_past_collect_deadline')).toBe(1);
    });
  });

  it('is absent when the quote is issued', async () => {
    const { id } = await receivePayment();
    await issue(id);
    expect(await readDeadlines()).toEqual([undefined]);
    expect(await readNextDeadline()).toBeUndefined();
  });

  it('is absent at a mint that has issued a quote some time after its expiry', async () => {
    const [{ id }, other] = [await receivePayment(), await receivePayment()];
    await passDeadline();
    await issue(id);
    expect(await readDeadlines()).toEqual([undefined, undefined]);

    // Another version may refuse.
    mint.switches.version = 'Other/2.0';
    await environment.requestInvoice(wallet, 1);
    await eventually(async () => expect(await readDeadlines()).toContain(other.expiresAt));
  });

  it('stays at a mint that has only been found late to have issued a quote', async () => {
    mint.switches.isWebSocketSilent = true;
    const [{ id }, other] = [await receivePayment(), await receivePayment()];
    mint.switches.isUnresponsive = true;
    await mint.markIssued(id);
    clock.advance(LIFETIME_MS + 10 * MINUTE_MS);
    mint.switches.isUnresponsive = false;
    await waitUntilIssued(id);
    expect(await readDeadlines()).toContain(other.expiresAt);
  });
});

describe('nutpost trace', () => {
  it('shows the deadline of a payment, and whom to ask after it', async () => {
    const { id, request } = await receivePayment();
    expect(await trace(request)).toContain('(in 60 min): the mint may refuse to issue the quote');

    await passDeadline();
    const late = await trace('--reveal', request);
    expect(late).toMatch(/\(\d+ min ago\): the mint may refuse to issue the quote/);
    expect(late).toContain(`ask the mint's operator to issue quote ${id}.`);
    expect(late).toContain('the mint runs Other/1.0');
    expect(await trace(request)).toContain('to issue quote (see --reveal).');

    const other = await receivePayment();
    await issue(id);
    expect(await trace(other.request)).toContain('There is no deadline');
  });
});

async function receivePayment() {
  const { pr } = await environment.requestInvoice(wallet, 21);
  const quote = mint.pay(pr);
  await eventually(async () => {
    clock.advance(1_000);
    expect((await wallet.listPaidQuotes()).map(({ quoteId }) => quoteId)).toContain(quote.id);
  });
  return quote;
}

/** Waits until the service knows that the payments can still be collected. */
async function passDeadline(): Promise<void> {
  clock.advance(LIFETIME_MS + 10 * MINUTE_MS);
  const { requestCounts } = mint;
  const route = 'POST /v1/mint/quote/bolt11/check';
  const { [route]: countBefore } = requestCounts;
  // The first request may have been sent before the deadline.
  await eventually(() => {
    clock.advance(20_000);
    expect(requestCounts[route]).toBeGreaterThan(countBefore + 1);
  });
}

async function issue(quoteId: string): Promise<void> {
  await mint.markIssued(quoteId);
  await waitUntilIssued(quoteId);
}

function waitUntilIssued(quoteId: string): Promise<void> {
  return eventually(async () => {
    clock.advance(1_000);
    expect(await wallet.listPaidQuotes()).toContainEqual(
      expect.objectContaining({ quoteId, state: 'ISSUED' }),
    );
  });
}

/** Returns the deadlines in the list, of the newest payment first. */
async function readDeadlines(): Promise<(number | undefined)[]> {
  const { body } = await wallet.get('/api/v2/wallet/quotes');
  return body.data.quotes.map(({ collectBy }: { collectBy?: number }) => collectBy);
}

async function findDeadline(quoteId: string): Promise<number | undefined> {
  const { body } = await wallet.send('POST', '/api/v2/wallet/quotes/missing', {
    quoteIds: [quoteId],
  });
  return body.quotes[0].collectBy;
}

async function readNextDeadline(): Promise<number | undefined> {
  return (await wallet.get('/api/v2/wallet/summary')).body.data.waiting.collectBy;
}

async function trace(...args: string[]): Promise<string> {
  const options = { clock: clock.now };
  return (await runOperatorCommand(environment.database, ['trace', ...args], options)).stdout;
}
