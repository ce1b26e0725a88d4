import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import {
  RecipientClient,
  type TestQuoteSocket,
} from '../../test/helpers/recipients/recipient-client.ts';
import { createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import { type Server, startNutpost, startTestMint, type TestMint } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const PERCENTILES = { p50: 0.5, p90: 0.9, p99: 0.99 };

/** The time from an invoice to its payment: about that of a one-tap zap. */
const PAYMENT_DELAY_MS = 300;

/** The bounds by invoices per second. At 200, the service, the mint and the load use all of a small machine. */
const MAX_LATENCY_MS = new Map([
  [5, { p50: 30, p90: 30, p99: 60 }],
  [20, { p50: 30, p90: 30, p99: 60 }],
  [200, { p50: 30, p90: 300, p99: 600 }],
]);

/** Enough for two payments above p99. */
const MIN_PAYMENTS = 200;

/** Lets V8 compile hot code. */
const WARM_UP_SECONDS = 3;

/** Each recipient has a quote socket. At the highest rate, each recipient is paid every 2.5 s. */
const RECIPIENT_COUNT = 512;

const UPDATE_TIMEOUT_MS = 30_000;

interface Recipient {
  npub: string;
  socket: TestQuoteSocket;
}

/**
 * Measures the time from a payment at the mint until the recipient's wallet receives `update`. The payment
 * follows its invoice by 0.3 s. Within this time, the service must subscribe to the quote.
 */
export const measurePaymentToUpdate: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  const rates = [...MAX_LATENCY_MS].map(([rate, maxMs]) => ({
    rate,
    maxMs,
    runs: [] as number[][],
  }));
  for (let run = 0; run < options.runCount; run += 1) {
    await using database = await createPostgresDatabase(serverUrl);
    await using service = await startNutpost(mint.readyMessage.url, database);
    const recipients = [];
    for (let i = 0; i < RECIPIENT_COUNT; i += 1) {
      const wallet = new RecipientClient(service.readyMessage.url);
      recipients.push({ npub: wallet.npub, socket: await wallet.openSocket() });
    }
    const payer = new PaymentGenerator(service, mint, recipients);
    for (const { rate, runs } of rates) {
      await payer.payAtRate(rate, WARM_UP_SECONDS * rate);
      const paymentCount = Math.max(MIN_PAYMENTS, options.secondsPerRun * rate);
      runs.push(await payer.payAtRate(rate, paymentCount));
    }
    await payer.close();
  }
  return rates.flatMap(({ rate, maxMs, runs }) =>
    (['p50', 'p90', 'p99'] as const).map((percentileName) => ({
      title: `payment to update, ${PAYMENT_DELAY_MS / 1000} s after its invoice, ${rate} /s, ${percentileName}`,
      unit: 'ms' as const,
      runs: runs.map((run) => ({ service: percentile(run, PERCENTILES[percentileName]) })),
      bound: { maxValue: maxMs[percentileName] },
    })),
  );
};

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

  /** Returns the milliseconds from each payment to its `update`. */
  payAtRate(paymentsPerSecond: number, count: number): Promise<number[]> {
    const startedAtMs = performance.now();
    return Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const dueAtMs = startedAtMs + (i * 1000) / paymentsPerSecond;
        await delay(Math.max(0, dueAtMs - performance.now()));
        return this.#payOnce(this.#recipients[i % this.#recipients.length] as Recipient);
      }),
    );
  }

  /** Closes the sockets. @throws Error if a socket has received an unexpected message */
  async close(): Promise<void> {
    for (const { socket } of this.#recipients) {
      const [unexpected] = await socket.drainMessages();
      if (unexpected !== undefined) {
        throw new Error(`unexpected message: ${JSON.stringify(unexpected)}`);
      }
      await socket.close();
    }
  }

  /** Returns the milliseconds from the payment to its `update`. */
  async #payOnce({ npub, socket }: Recipient): Promise<number> {
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
