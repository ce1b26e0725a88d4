import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { type TestSocket, TestWallet } from '../../test/helpers/wallet.ts';
import { createDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { type Server, startService, startTestMint, type TestMint } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const BOUNDS_MS = { p50: 30, p95: 300 };
const SHARES = { p50: 0.5, p95: 0.95 };

/** Like the payment of a one-tap zap. */
const PAID_AFTER_MS = 300;

/** Invoices a second. */
const RATES = [5, 20, 200];

/** The slowest twentieth must be several payments. */
const MIN_PAYMENTS = 100;

/** Compiles hot code. */
const WARM_UP_SECONDS = 3;

/** Each has a wallet with a quote socket. At the highest rate, each is paid every 2.5 s. */
const RECIPIENTS = 512;

const UPDATE_TIMEOUT_MS = 30_000;

interface Recipient {
  npub: string;
  socket: TestSocket;
}

/**
 * From a payment at its mint until the recipient's wallet receives `update`, 0.3 s after the invoice was
 * requested. By then the service must have subscribed to the quote.
 */
export async function measurePaymentToUpdate(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  const latenciesMs = new Map<number, number[][]>(RATES.map((rate) => [rate, []]));
  for (let run = 0; run < effort.runs; run += 1) {
    await using database = await createDatabase(serverUrl);
    await using service = await startService(mint.ready.url, database);
    const recipients = [];
    for (let i = 0; i < RECIPIENTS; i += 1) {
      const wallet = new TestWallet(service.ready.url);
      recipients.push({ npub: wallet.npub, socket: await wallet.openSocket() });
    }
    const payer = new Payer(service, mint, recipients);
    for (const [rate, ofRate] of latenciesMs) {
      await payer.payAtRate(rate, WARM_UP_SECONDS * rate);
      ofRate.push(await payer.payAtRate(rate, Math.max(MIN_PAYMENTS, effort.seconds * rate)));
    }
    await payer.close();
  }
  return [...latenciesMs].flatMap(([rate, runs]) =>
    (['p50', 'p95'] as const).map((share) => ({
      title: `payment to update, ${PAID_AFTER_MS / 1000} s after its invoice, ${rate} /s, ${share}`,
      unit: 'ms' as const,
      runs: runs.map((run) => ({ nutpost: percentile(run, SHARES[share]) })),
      bound: { atMost: BOUNDS_MS[share] },
      problems: [],
    })),
  );
}

/** Requests invoices at a steady rate, pays each a moment later, and waits for its `update`. */
class Payer {
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

  /** Closes the sockets. An update that the bench did not wait for is an error. */
  async close(): Promise<void> {
    for (const { socket } of this.#recipients) {
      const [extra] = await socket.drain();
      if (extra !== undefined) {
        throw new Error(`unexpected message: ${JSON.stringify(extra)}`);
      }
      await socket.close();
    }
  }

  async #pay({ npub, socket }: Recipient): Promise<number> {
    const url = `${this.#service.ready.url}/.well-known/lnurlp/${npub}?amount=21000`;
    const invoice = await (await request(url)).body.text();
    await delay(PAID_AFTER_MS);
    const paidAtMs = performance.now();
    const update = socket.next();
    const payment = await request(this.#mint.ready.payUrl, { method: 'POST', body: invoice });
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
