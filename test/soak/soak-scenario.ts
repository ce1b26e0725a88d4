import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { TestMint } from '../../demo/test-mint.ts';
import { JwtIssuer } from '../../src/http/jwt.ts';
import { RecipientClient, type TestQuoteSocket } from '../helpers/recipients/recipient-client.ts';
import { JWT_SECRET, SoakServiceProcess } from './soak-service-process.ts';

const HOUR_MS = 60 * 60_000;

/** After each twelfth of a day's invoices, the clock advances by two hours, so that unpaid invoices expire. */
const PARTS_PER_DAY = 12;

/** The service watches unpaid invoices for about a day, so the number of watched invoices is constant from day 3. */
const WARM_UP_DAYS = 2;

/** The mint deletes quotes this long after their expiry. The service no longer watches them then. */
const MINT_RETENTION_SECONDS = 3 * 24 * 60 * 60;

/** These clients keep the service busy. With more clients, response times would mostly measure queueing. */
const CONCURRENT_CLIENTS = 6;

/** Not a multiple of {@link INVOICES_PER_PAYMENT}, so that each recipient has both paid and unpaid invoices. */
const RECIPIENT_COUNT = 50;

/** One recipient in five has an open quote socket. */
const RECIPIENTS_PER_SOCKET = 5;

const INVOICES_PER_PAYMENT = 3;
const PAYMENT_DELAY_MS = 50;

/** Wallets request one list page for every two invoices. */
const INVOICES_PER_LIST_REQUEST = 2;
const PAGE_SIZE = 50;

/** Each invoice is requested from the next address. */
const PAYER_ADDRESS_COUNT = 20_000;

const USER_AGENT = 'soak';

/** How long the last payments may take to appear in the lists. */
const LAST_PAYMENTS_TIMEOUT_MS = 90_000;

export interface DayLatencies {
  invoicesMs: number[];
  listsMs: number[];
}

interface Recipient {
  wallet: RecipientClient;
  paymentCount: number;
  socket: TestQuoteSocket | null;
  headers: Record<string, string>;
}

interface ListPage {
  data: { quotes: { quoteId: string; state: string }[] };
  metadata: { total: number };
}

export class SoakScenario {
  readonly service: SoakServiceProcess;
  readonly #mint: TestMint;
  readonly #recipients: readonly Recipient[];
  readonly #jwt = new JwtIssuer(JWT_SECRET, null);
  #invoiceCount = 0;
  #listRequestCount = 0;

  static async start(folder: string): Promise<SoakScenario> {
    let mintClock = Date.now;
    const mint = await TestMint.start({ now: () => mintClock() });
    const service = await SoakServiceProcess.start(folder, mint.url);
    mintClock = service.now;
    const scenario = new SoakScenario(service, mint);
    for (const [i, recipient] of scenario.#recipients.entries()) {
      recipient.socket =
        i % RECIPIENTS_PER_SOCKET === 0 ? await recipient.wallet.openSocket() : null;
    }
    return scenario;
  }

  private constructor(service: SoakServiceProcess, mint: TestMint) {
    this.service = service;
    this.#mint = mint;
    this.#recipients = Array.from({ length: RECIPIENT_COUNT }, () => ({
      wallet: new RecipientClient(service.url, service.now),
      paymentCount: 0,
      socket: null,
      headers: {},
    }));
  }

  get invoiceCount(): number {
    return this.#invoiceCount;
  }

  /**
   * Prepares the measured days. First pays one page of invoices for every recipient, because later lists also fill a
   * page. Then runs some days.
   */
  async warmUp(invoicesPerDay: number): Promise<void> {
    const invoicesPerPayment = 1;
    const latencies = { invoicesMs: [], listsMs: [] };
    await this.#runClients(RECIPIENT_COUNT * PAGE_SIZE, invoicesPerPayment, latencies);
    for (let day = 0; day < WARM_UP_DAYS; day += 1) {
      await this.runDay(invoicesPerDay);
    }
  }

  async runDay(invoiceCount: number): Promise<DayLatencies> {
    const latencies: DayLatencies = { invoicesMs: [], listsMs: [] };
    for (let part = 0; part < PARTS_PER_DAY; part += 1) {
      const invoicesOfPart = Math.ceil(invoiceCount / PARTS_PER_DAY);
      await this.#runClients(invoicesOfPart, INVOICES_PER_PAYMENT, latencies);
    }
    return latencies;
  }

  async findMissingPayments(): Promise<string[]> {
    await this.#renewTokens();
    const deadlineMs = performance.now() + LAST_PAYMENTS_TIMEOUT_MS;
    const missing: string[] = [];
    for (const [i, recipient] of this.#recipients.entries()) {
      const { paymentCount, socket } = recipient;
      let listed = 0;
      let updated = 0;
      do {
        await delay(100);
        listed = (await this.#fetchPage(recipient, '')).metadata.total;
        const updates = new Set(socket?.unreadMessages.map(({ payload }) => payload?.quoteId));
        updated = socket === null ? paymentCount : updates.size;
      } while (Math.min(listed, updated) < paymentCount && performance.now() < deadlineMs);
      if (listed !== paymentCount || updated < paymentCount) {
        missing.push(
          `recipient ${i}: ${paymentCount} payments, ${listed} listed, ${updated} updates`,
        );
      }
    }
    return missing;
  }

  async close(): Promise<void> {
    for (const { socket } of this.#recipients) {
      socket?.connection.terminate();
    }
    await this.service.stop();
    await this.#mint.close();
  }

  /** Concurrent clients request invoices, pay some of them and request lists. Then the clock advances. */
  async #runClients(
    invoiceCount: number,
    invoicesPerPayment: number,
    latencies: DayLatencies,
  ): Promise<void> {
    await this.#renewTokens();
    const targetCount = this.#invoiceCount + invoiceCount;
    const payments: Promise<void>[] = [];
    const runClient = async () => {
      while (this.#invoiceCount < targetCount) {
        const invoiceNumber = this.#invoiceCount;
        this.#invoiceCount += 1;
        const recipient = this.#recipients[invoiceNumber % RECIPIENT_COUNT] as Recipient;
        const startedAtMs = performance.now();
        const invoice = await this.#requestInvoice(recipient, invoiceNumber);
        latencies.invoicesMs.push(performance.now() - startedAtMs);
        if (invoiceNumber % invoicesPerPayment === 0) {
          payments.push(this.#pay(recipient, invoice));
        }
        if (invoiceNumber % INVOICES_PER_LIST_REQUEST === 0) {
          await this.#readList(latencies);
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_CLIENTS }, runClient));
    await Promise.all(payments);
    await this.service.advanceClock((24 / PARTS_PER_DAY) * HOUR_MS);
    this.#mint.deleteExpiredQuotes(this.service.now() / 1000 - MINT_RETENTION_SECONDS);
  }

  async #requestInvoice({ wallet }: Recipient, invoiceNumber: number): Promise<string> {
    const address = invoiceNumber % PAYER_ADDRESS_COUNT;
    const amountSat = 1 + (invoiceNumber % 5_000);
    const response = await request(
      `${this.service.url}/.well-known/lnurlp/${wallet.npub}?amount=${1_000 * amountSat}`,
      { headers: { 'x-forwarded-for': `81.2.${address >> 8}.${address & 0xff}` } },
    );
    const { pr } = (await response.body.json()) as { pr?: string };
    if (pr === undefined) {
      throw new Error(
        `the request for invoice ${invoiceNumber} failed: HTTP ${response.statusCode}`,
      );
    }
    return pr;
  }

  async #pay(recipient: Recipient, invoice: string): Promise<void> {
    await delay(PAYMENT_DELAY_MS);
    this.#mint.pay(invoice);
    recipient.paymentCount += 1;
  }

  /** Reads the newest page, the quotes of the last 12 hours, or an older page, and redeems the listed quotes. */
  async #readList(latencies: DayLatencies): Promise<void> {
    const requestNumber = this.#listRequestCount;
    this.#listRequestCount += 1;
    const recipient = this.#recipients[requestNumber % RECIPIENT_COUNT] as Recipient;
    const maxOffset = Math.max(0, recipient.paymentCount - PAGE_SIZE);
    const varyingOffset = (requestNumber * 7) % (maxOffset + 1);
    const sinceSeconds = Math.floor((this.service.now() - 12 * HOUR_MS) / 1000);
    const queries = ['', `&since=${sinceSeconds}`, '', `&offset=${varyingOffset}`];
    const query = queries[Math.floor(requestNumber / RECIPIENT_COUNT) % queries.length] ?? '';
    const startedAtMs = performance.now();
    const { data } = await this.#fetchPage(recipient, query);
    latencies.listsMs.push(performance.now() - startedAtMs);
    for (const { quoteId, state } of data.quotes) {
      if (state === 'PAID' && this.#mint.quotes.get(quoteId)?.state === 'PAID') {
        await this.#mint.markIssued(quoteId);
      }
    }
  }

  async #fetchPage({ headers }: Recipient, query: string): Promise<ListPage> {
    const path = `/api/v2/wallet/quotes?limit=${PAGE_SIZE}${query}`;
    const response = await request(`${this.service.url}${path}`, { headers });
    if (response.statusCode !== 200) {
      const text = await response.body.text();
      throw new Error(`a list request failed: HTTP ${response.statusCode} ${text}`);
    }
    return (await response.body.json()) as ListPage;
  }

  /** Issues new JWTs, because the old ones expire when the clock advances. */
  async #renewTokens(): Promise<void> {
    const nowSeconds = Math.floor(this.service.now() / 1000);
    for (const [i, recipient] of this.#recipients.entries()) {
      const token = await this.#jwt.issue(recipient.wallet.pubkey, USER_AGENT, nowSeconds);
      recipient.headers = {
        authorization: `Bearer ${token}`,
        'user-agent': USER_AGENT,
        'x-forwarded-for': `81.3.0.${i}`,
      };
    }
  }
}
