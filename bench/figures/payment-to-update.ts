import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { type TestQuoteSocket, TestWallet } from '../../test/helpers/test-wallet.ts';
import { createPostgresDatabase } from '../harness/database.ts';
import type { BenchmarkOptions, ResultRow } from '../harness/figure.ts';
import { type Server, startNutpost, startTestMint, type TestMint } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const MAX_LATENCY_MS = { p50: 30, p95: 300 };
const PERCENTILES = { p50: 0.5, p95: 0.95 };

/** About as fast as the payment of a one-tap zap. */
const PAYMENT_DELAY_MS = 300;

const INVOICES_PER_SECOND = [5, 20, 200];

/** Enough for several payments above p95. */
const MIN_PAYMENTS = 100;

/** Lets V8 compile hot code. */
const WARM_UP_SECONDS = 3;

/** Each recipient has a quote socket. At the highest rate, each is paid every 2.5 s. */
const RECIPIENTS = 512;

const UPDATE_TIMEOUT_MS = 30_000;

interface Recipient {
  npub: string;
  socket: TestQuoteSocket;
}

/**
 * Measures the time from a payment at the mint until the recipient's wallet receives `update`. The payment
 * follows its invoice by 0.3 s, by which time the service must have subscribed to the quote.
 */
export async function measurePaymentToUpdate(
  serverUrl: string,
  effort: BenchmarkOptions,
): Promise<ResultRow[]> {
  await using mint = await startTestMint();
  const latenciesMs = new Map<number, number[][]>(INVOICES_PER_SECOND.map((rate) => [rate, []]));
  for (let run = 0; run < effort.runCount; run += 1) {
    await using database = await createPostgresDatabase(serverUrl);
    await using service = await startNutpost(mint.readyMessage.url, database);
    const recipients = [];
    for (let i = 0; i < RECIPIENTS; i += 1) {
      const wallet = new TestWallet(service.readyMessage.url);
      recipients.push({ npub: wallet.npub, socket: await wallet.openSocket() });
    }
    const payer = new PaymentGenerator(service, mint, recipients);
    for (const [rate, ofRate] of latenciesMs) {
      await payer.payAtRate(rate, WARM_UP_SECONDS * rate);
      ofRate.push(await payer.payAtRate(rate, Math.max(MIN_PAYMENTS, effort.secondsPerRun * rate)));
    }
    await payer.close();
  }
  return [...latenciesMs].flatMap(([rate, runs]) =>
    (['p50', 'p95'] as const).map((share) => ({
      title: `payment to update, ${PAYMENT_DELAY_MS / 1000} s after its invoice, ${rate} /s, ${share}`,
      unit: 'ms' as const,
      runs: runs.map((run) => ({ service: percentile(run, PERCENTILES[share]) })),
      bound: { maxValue: MAX_LATENCY_MS[share] },
      problems: [],
    })),
  );
}

/** Requests invoices at a steady rate, pays each after a delay, and waits for its `update`. */
class PaymentGenerator {
  readonly #service: Server;
  readonly #mint: TestMint;
  readonly #recipients: readonly Recipient[];
  readonly #updatedQuotes = new Set<string>();

  constructor(service: Server, mint: TestMint, recipients: readonly Recipient[]) {
    this.#service = service;
    this.#mint = mint;
    this.#recipients = recipients;
  }

  /** Returns the time from each payment to its `update`. */
  payAtRate(perSecond: number, count: number): Promise<number[]> {
    const startedAtMs = performance.now();
    return Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const dueAtMs = startedAtMs + (i * 1000) / perSecond;
        await delay(Math.max(0, dueAtMs - performance.now()));
        return this.#pay(this.#recipients[i % this.#recipients.length] as Recipient);
      }),
    );
  }

  /** Closes the sockets. @throws Error if a socket has received an unexpected message */
  async close(): Promise<void> {
    for (const { socket } of this.#recipients) {
      const [extra] = await socket.drainMessages();
      if (extra !== undefined) {
        throw new Error(`unexpected message: ${JSON.stringify(extra)}`);
      }
      await socket.close();
    }
  }

  async #pay({ npub, socket }: Recipient): Promise<number> {
    const url = `${this.#service.readyMessage.url}/.well-known/lnurlp/${npub}?amount=21000`;
    const invoice = await (await request(url)).body.text();
    await delay(PAYMENT_DELAY_MS);
    const paidAtMs = performance.now();
    const update = socket.nextMessage();
    const payment = await request(this.#mint.readyMessage.payUrl, {
      method: 'POST',
      body: invoice,
    });
    await payment.body.dump();
    if (payment.statusCode !== 200) {
      throw new Error(`the invoice could not be paid: ${invoice}`);
    }
    const message = await Promise.race([update, delay(UPDATE_TIMEOUT_MS, null, { ref: false })]);
    const tookMs = performance.now() - paidAtMs;
    const quoteId = message?.payload?.quoteId;
    if (message?.type !== 'update' || this.#updatedQuotes.has(quoteId)) {
      throw new Error(`expected an update about a new quote, got ${JSON.stringify(message)}`);
    }
    this.#updatedQuotes.add(quoteId);
    return tookMs;
  }
}
