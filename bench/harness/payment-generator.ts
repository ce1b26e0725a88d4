import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import {
  RecipientClient,
  type TestQuoteSocket,
} from '../../test/helpers/recipients/recipient-client.ts';
import type { Server, TestMint } from './servers.ts';

/** The time from an invoice to its payment: about that of a one-tap zap. */
export const PAYMENT_DELAY_MS = 300;

const UPDATE_TIMEOUT_MS = 30_000;

export interface Recipient {
  wallet: RecipientClient;
  socket: TestQuoteSocket;
}

/** Creates recipients, each with a quote socket. */
export async function openRecipients(service: Server, count: number): Promise<Recipient[]> {
  const recipients = [];
  for (let i = 0; i < count; i += 1) {
    const wallet = new RecipientClient(service.readyMessage.url);
    recipients.push({ wallet, socket: await wallet.openSocket() });
  }
  return recipients;
}

/** Requests invoices at a steady rate, pays each after a delay, and waits for its `update`. */
export class PaymentGenerator {
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
  async #payOnce({ wallet, socket }: Recipient): Promise<number> {
    const url = `${this.#service.readyMessage.url}/.well-known/lnurlp/${wallet.npub}?amount=21000`;
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
