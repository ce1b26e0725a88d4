import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { TestMint } from '../../demo/test-mint.ts';
import { JwtIssuer } from '../../src/http/jwt.ts';
import { type TestQuoteSocket, TestWallet } from '../helpers/test-wallet.ts';
import { JWT_SECRET, SoakServiceProcess } from './soak-service-process.ts';

const HOUR_MS = 60 * 60_000;

/** The clock advances by two hours after each part of a day's invoices, so that they expire. */
const PARTS_PER_DAY = 12;

/** The service watches unpaid invoices for about a day, so their number is constant from the third day on. */
const WARM_UP_DAYS = 2;

/** The mint deletes invoices this long after their expiry, when the service no longer watches them. */
const MINT_RETENTION_SECONDS = 3 * 24 * 60 * 60;

/** Enough to keep the service busy, but few enough that latencies are not mostly queueing. */
const CONCURRENT_CLIENTS = 6;

/** Not a multiple of three, so that each recipient gets both paid and unpaid invoices. */
const RECIPIENT_COUNT = 50;

/** One recipient in five has an open quote socket. */
const RECIPIENTS_PER_SOCKET = 5;

/** One invoice in three is paid. */
const INVOICES_PER_PAYMENT = 3;
const PAYMENT_DELAY_MS = 50;

const INVOICES_PER_LIST = 2;
const PAGE_SIZE = 50;

/** Each payer address is used again only after this many invoices. */
const ADDRESS_COUNT = 20_000;

const USER_AGENT = 'soak';

/** Time for the last payments to appear in the lists. */
const LAST_PAYMENTS_TIMEOUT_MS = 60_000;

/** Response times in milliseconds. */
export interface DayLatencies {
  invoicesMs: number[];
  listsMs: number[];
}

interface Recipient {
  wallet: TestWallet;
  paymentCount: number;
  headers: Record<string, string>;
}

interface ListPage {
  data: { quotes: { quoteId: string; state: string }[] };
  metadata: { total: number };
}

/** Simulates a small operator's service with its mint, payers and wallets. */
export class SoakScenario {
  readonly service: SoakServiceProcess;
  readonly #mint: TestMint;
  readonly #recipients: readonly Recipient[];
  readonly #jwt = new JwtIssuer(JWT_SECRET, null);
  #sockets: TestQuoteSocket[] = [];
  #issuedCount = 0;
  #listCount = 0;

  /** @param folder directory for the service's data and log */
  static async start(folder: string): Promise<SoakScenario> {
    let now = Date.now;
    const mint = await TestMint.start({ now: () => now() });
    const service = await SoakServiceProcess.start(folder, mint.url);
    now = service.now;
    const scenario = new SoakScenario(service, mint);
    for (const [i, { wallet }] of scenario.#recipients.entries()) {
      if (i % RECIPIENTS_PER_SOCKET === 0) {
        scenario.#sockets.push(await wallet.openSocket());
      }
    }
    return scenario;
  }

  private constructor(service: SoakServiceProcess, mint: TestMint) {
    this.service = service;
    this.#mint = mint;
    this.#recipients = Array.from({ length: RECIPIENT_COUNT }, () => ({
      wallet: new TestWallet(service.url, service.now),
      paymentCount: 0,
      headers: {},
    }));
  }

  get issuedInvoiceCount(): number {
    return this.#issuedCount;
  }

  /** Fills a list page for every recipient, so that the first measured lists are as long as the last, and runs some days. */
  async warmUp(invoicesPerDay: number): Promise<void> {
    await this.#runClients(RECIPIENT_COUNT * PAGE_SIZE, 1, { invoicesMs: [], listsMs: [] });
    for (let day = 0; day < WARM_UP_DAYS; day += 1) {
      await this.runDay(invoicesPerDay);
    }
  }

  async runDay(invoices: number): Promise<DayLatencies> {
    const times: DayLatencies = { invoicesMs: [], listsMs: [] };
    for (let part = 0; part < PARTS_PER_DAY; part += 1) {
      await this.#runClients(Math.ceil(invoices / PARTS_PER_DAY), INVOICES_PER_PAYMENT, times);
    }
    return times;
  }

  /** Compares the lists and the updates with the payments. @returns a description of each difference */
  async findMissingPayments(): Promise<string[]> {
    await this.#renewTokens();
    const deadlineMs = performance.now() + LAST_PAYMENTS_TIMEOUT_MS;
    const missing: string[] = [];
    for (const [i, recipient] of this.#recipients.entries()) {
      let { total } = (await this.#list(recipient, '')).metadata;
      while (total < recipient.paymentCount && performance.now() < deadlineMs) {
        await delay(100);
        total = (await this.#list(recipient, '')).metadata.total;
      }
      if (total !== recipient.paymentCount) {
        missing.push(
          `recipient ${i} has ${total} of ${recipient.paymentCount} payments in the list`,
        );
      }
      const socket =
        i % RECIPIENTS_PER_SOCKET === 0 ? this.#sockets[i / RECIPIENTS_PER_SOCKET] : null;
      const updated = new Set(socket?.unreadMessages.map(({ payload }) => payload?.quoteId));
      if (socket && updated.size < recipient.paymentCount) {
        missing.push(
          `recipient ${i} was sent ${updated.size} updates of ${recipient.paymentCount} payments`,
        );
      }
    }
    return missing;
  }

  async close(): Promise<void> {
    for (const { connection } of this.#sockets) {
      connection.terminate();
    }
    await this.service.stop();
    await this.#mint.close();
  }

  /** Runs clients until this many invoices are requested, and then advances the clock. */
  async #runClients(
    invoices: number,
    invoicesPerPayment: number,
    times: DayLatencies,
  ): Promise<void> {
    await this.#renewTokens();
    const remaining = Array.from({ length: invoices }).values();
    const payments: Promise<void>[] = [];
    const runClient = async () => {
      for (const _ of remaining) {
        const number = this.#issuedCount;
        this.#issuedCount += 1;
        const recipient = this.#recipients[number % RECIPIENT_COUNT] as Recipient;
        const startedAtMs = performance.now();
        const invoice = await this.#requestInvoice(recipient, number);
        times.invoicesMs.push(performance.now() - startedAtMs);
        if (number % invoicesPerPayment === 0) {
          payments.push(this.#pay(recipient, invoice));
        }
        if (number % INVOICES_PER_LIST === 0) {
          await this.#readList(times);
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_CLIENTS }, runClient));
    await Promise.all(payments);
    await this.service.advanceClock((24 / PARTS_PER_DAY) * HOUR_MS);
    this.#mint.deleteExpiredQuotes(this.service.now() / 1000 - MINT_RETENTION_SECONDS);
  }

  async #requestInvoice({ wallet }: Recipient, number: number): Promise<string> {
    const address = number % ADDRESS_COUNT;
    const response = await request(
      `${this.service.url}/.well-known/lnurlp/${wallet.npub}?amount=${1_000 * (1 + (number % 5_000))}`,
      { headers: { 'x-forwarded-for': `81.2.${address >> 8}.${address & 0xff}` } },
    );
    const { pr } = (await response.body.json()) as { pr?: string };
    if (pr === undefined) {
      throw new Error(`the request for invoice ${number} failed: HTTP ${response.statusCode}`);
    }
    return pr;
  }

  async #pay(recipient: Recipient, invoice: string): Promise<void> {
    await delay(PAYMENT_DELAY_MS);
    this.#mint.pay(invoice);
    recipient.paymentCount += 1;
  }

  /** Reads the newest page, the last hours, or an older page like a wallet, and marks listed paid quotes as issued. */
  async #readList(times: DayLatencies): Promise<void> {
    const number = this.#listCount;
    this.#listCount += 1;
    const recipient = this.#recipients[number % RECIPIENT_COUNT] as Recipient;
    const oldest = Math.max(0, recipient.paymentCount - PAGE_SIZE);
    const since = Math.floor((this.service.now() - 12 * HOUR_MS) / 1000);
    const queries = ['', `&since=${since}`, '', `&offset=${(number * 7) % (oldest + 1)}`];
    const startedAtMs = performance.now();
    const query = queries[Math.floor(number / RECIPIENT_COUNT) % queries.length] ?? '';
    const { data } = await this.#list(recipient, query);
    times.listsMs.push(performance.now() - startedAtMs);
    for (const { quoteId, state } of data.quotes) {
      if (state === 'PAID' && this.#mint.quotes.get(quoteId)?.state === 'PAID') {
        await this.#mint.markIssued(quoteId);
      }
    }
  }

  async #list({ headers }: Recipient, query: string): Promise<ListPage> {
    const path = `/api/v2/wallet/quotes?limit=${PAGE_SIZE}${query}`;
    const response = await request(`${this.service.url}${path}`, { headers });
    if (response.statusCode !== 200) {
      const text = await response.body.text();
      throw new Error(`a list request failed: HTTP ${response.statusCode} ${text}`);
    }
    return (await response.body.json()) as ListPage;
  }

  async #renewTokens(): Promise<void> {
    const nowSeconds = Math.floor(this.service.now() / 1000);
    for (const [i, recipient] of this.#recipients.entries()) {
      const token = this.#jwt.issue(recipient.wallet.pubkey, USER_AGENT, nowSeconds);
      recipient.headers = {
        authorization: `Bearer ${token}`,
        'user-agent': USER_AGENT,
        'x-forwarded-for': `81.3.0.${i}`,
      };
    }
  }
}
