import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { TestMint } from '../../demo/test-mint.ts';
import { JwtIssuer } from '../../src/http/jwt.ts';
import { type TestSocket, TestWallet } from '../helpers/wallet.ts';
import { JWT_SECRET, SoakedService } from './soaked-service.ts';

const HOUR_MS = 60 * 60_000;

/** The clock moves by two hours after each part of a day's invoices, so that they have expired then. */
const PARTS_OF_A_DAY = 12;

/** Unpaid invoices are watched for a day. From the third day on, as many are given up as are issued. */
const WARM_UP_DAYS = 2;

/** The mint forgets invoices this long after their expiry. The service has watched for late payments by then. */
const MINT_KEEPS_SECONDS = 3 * 24 * 60 * 60;

/** Clients at a time: enough to keep the service busy, and few enough that latencies are not all queueing. */
const CLIENTS = 6;

/** Not a multiple of three, so that each recipient gets paid and unpaid invoices. */
const RECIPIENTS = 50;

/** One recipient in five has a wallet that is always connected. */
const RECIPIENTS_PER_SOCKET = 5;

/** One invoice in three is paid, this long after it was issued. */
const INVOICES_PER_PAYMENT = 3;
const PAYMENT_DELAY_MS = 50;

const INVOICES_PER_LIST = 2;
const PAGE_SIZE = 50;

/** Payers of one address group are spread over the month. */
const ADDRESSES = 20_000;

const USER_AGENT = 'soak';

/** How long the last payments may take to appear in the lists. */
const LAST_PAYMENTS_MS = 60_000;

/** Response times in milliseconds. */
export interface DayTimes {
  invoicesMs: number[];
  listsMs: number[];
}

interface Recipient {
  wallet: TestWallet;
  payments: number;
  headers: Record<string, string>;
}

interface ListPage {
  data: { quotes: { quoteId: string; state: string }[] };
  metadata: { total: number };
}

/** A small operator's service, its mint, its payers and the wallets of its recipients. */
export class Month {
  readonly service: SoakedService;
  readonly #mint: TestMint;
  readonly #recipients: readonly Recipient[];
  readonly #jwt = new JwtIssuer(JWT_SECRET, null);
  #sockets: TestSocket[] = [];
  #issued = 0;
  #lists = 0;

  /** @param folder holds everything of the service */
  static async open(folder: string): Promise<Month> {
    let now = Date.now;
    const mint = await TestMint.start({ now: () => now() });
    const service = await SoakedService.start(folder, mint.url);
    now = service.now;
    const month = new Month(service, mint);
    for (const [i, { wallet }] of month.#recipients.entries()) {
      if (i % RECIPIENTS_PER_SOCKET === 0) {
        month.#sockets.push(await wallet.openSocket());
      }
    }
    return month;
  }

  private constructor(service: SoakedService, mint: TestMint) {
    this.service = service;
    this.#mint = mint;
    this.#recipients = Array.from({ length: RECIPIENTS }, () => ({
      wallet: new TestWallet(service.url, service.now),
      payments: 0,
      headers: {},
    }));
  }

  get issued(): number {
    return this.#issued;
  }

  /** Pays every recipient a full page, so that the first lists are as long as the last ones, and lets some days pass. */
  async warmUp(invoicesADay: number): Promise<void> {
    await this.#play(RECIPIENTS * PAGE_SIZE, 1, { invoicesMs: [], listsMs: [] });
    for (let day = 0; day < WARM_UP_DAYS; day += 1) {
      await this.day(invoicesADay);
    }
  }

  async day(invoices: number): Promise<DayTimes> {
    const times: DayTimes = { invoicesMs: [], listsMs: [] };
    for (let part = 0; part < PARTS_OF_A_DAY; part += 1) {
      await this.#play(Math.ceil(invoices / PARTS_OF_A_DAY), INVOICES_PER_PAYMENT, times);
    }
    return times;
  }

  /** Compares the lists and the updates with the payments. @returns what is missing */
  async findMissing(): Promise<string[]> {
    await this.#renewTokens();
    const deadlineMs = performance.now() + LAST_PAYMENTS_MS;
    const missing: string[] = [];
    for (const [i, recipient] of this.#recipients.entries()) {
      let { total } = (await this.#list(recipient, '')).metadata;
      while (total < recipient.payments && performance.now() < deadlineMs) {
        await delay(100);
        total = (await this.#list(recipient, '')).metadata.total;
      }
      if (total !== recipient.payments) {
        missing.push(`recipient ${i} has ${total} of ${recipient.payments} payments in the list`);
      }
      const socket =
        i % RECIPIENTS_PER_SOCKET === 0 ? this.#sockets[i / RECIPIENTS_PER_SOCKET] : null;
      const updated = new Set(socket?.unread.map(({ payload }) => payload?.quoteId));
      if (socket && updated.size < recipient.payments) {
        missing.push(
          `recipient ${i} was sent ${updated.size} updates of ${recipient.payments} payments`,
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

  /** Lets clients ask for this many invoices, and then the clock move. */
  async #play(invoices: number, invoicesPerPayment: number, times: DayTimes): Promise<void> {
    await this.#renewTokens();
    const turns = Array.from({ length: invoices }).values();
    const payments: Promise<void>[] = [];
    const runClient = async () => {
      for (const _ of turns) {
        const number = this.#issued;
        this.#issued += 1;
        const recipient = this.#recipients[number % RECIPIENTS] as Recipient;
        const startedAtMs = performance.now();
        const invoice = await this.#askInvoice(recipient, number);
        times.invoicesMs.push(performance.now() - startedAtMs);
        if (number % invoicesPerPayment === 0) {
          payments.push(this.#pay(recipient, invoice));
        }
        if (number % INVOICES_PER_LIST === 0) {
          await this.#readList(times);
        }
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, runClient));
    await Promise.all(payments);
    await this.service.letPass((24 / PARTS_OF_A_DAY) * HOUR_MS);
    this.#mint.forgetExpired(this.service.now() / 1000 - MINT_KEEPS_SECONDS);
  }

  async #askInvoice({ wallet }: Recipient, number: number): Promise<string> {
    const address = number % ADDRESSES;
    const response = await request(
      `${this.service.url}/.well-known/lnurlp/${wallet.npub}?amount=${1_000 * (1 + (number % 5_000))}`,
      { headers: { 'x-forwarded-for': `81.2.${address >> 8}.${address & 0xff}` } },
    );
    const { pr } = (await response.body.json()) as { pr?: string };
    if (pr === undefined) {
      throw new Error(`invoice ${number} was refused: HTTP ${response.statusCode}`);
    }
    return pr;
  }

  async #pay(recipient: Recipient, invoice: string): Promise<void> {
    await delay(PAYMENT_DELAY_MS);
    this.#mint.pay(invoice);
    recipient.payments += 1;
  }

  /** Wallets read the newest page, what is new of the last hours, or an older page, and collect what is paid. */
  async #readList(times: DayTimes): Promise<void> {
    const number = this.#lists;
    this.#lists += 1;
    const recipient = this.#recipients[number % RECIPIENTS] as Recipient;
    const oldest = Math.max(0, recipient.payments - PAGE_SIZE);
    const since = Math.floor((this.service.now() - 12 * HOUR_MS) / 1000);
    const queries = ['', `&since=${since}`, '', `&offset=${(number * 7) % (oldest + 1)}`];
    const startedAtMs = performance.now();
    const query = queries[Math.floor(number / RECIPIENTS) % queries.length] ?? '';
    const { data } = await this.#list(recipient, query);
    times.listsMs.push(performance.now() - startedAtMs);
    for (const { quoteId, state } of data.quotes) {
      if (state === 'PAID' && this.#mint.quotes.get(quoteId)?.state === 'PAID') {
        await this.#mint.issue(quoteId);
      }
    }
  }

  async #list({ headers }: Recipient, query: string): Promise<ListPage> {
    const path = `/api/v2/wallet/quotes?limit=${PAGE_SIZE}${query}`;
    const response = await request(`${this.service.url}${path}`, { headers });
    if (response.statusCode !== 200) {
      throw new Error(`a list was refused: ${response.statusCode} ${await response.body.text()}`);
    }
    return (await response.body.json()) as ListPage;
  }

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
