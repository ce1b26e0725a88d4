import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import type { TestMint } from '../../../demo/test-mint.ts';
import { type ApiResponse, RecipientClient, requestJson } from '../recipients/recipient-client.ts';
import { UndocumentedResponseError } from '../service/openapi-validator.ts';
import { receiveUpdates } from './traffic-socket.ts';

const RECIPIENT_COUNT = 12;

const PAYER_INTERVAL_MS = 100;
const MAX_PAYMENT_DELAY_MS = 3_000;
const MAX_REDEMPTION_DELAY_MS = 3_000;

/** A payer who gets no invoice retries for this time. */
const MAX_INVOICE_WAIT_MS = 60_000;

/** After the last fault, everything must be right within this time. It allows for leases, backoffs and a busy machine. */
const MAX_RECOVERY_MS = 120_000;

/** The service sends an update when it lists a payment. This allows for a busy machine. */
const MAX_UPDATE_DELAY_MS = 3_000;

/** Longer than any response takes: the service waits at most 12 s for a mint, and retries once if the mint is busy. */
const RESPONSE_TIMEOUT_MS = 30_000;

const LIST_PATH = '/api/v2/wallet/quotes';
const PAGE_SIZE = 50;

export interface Recipient {
  index: number;
  wallet: RecipientClient;
  mint: TestMint;
  /** The wallet reads payments that are later than this, as coco does. In Unix seconds. */
  watermark: number;
  listings: Map<string, { atMs: number; paidAt: number }>;
  sessions: Session[];
}

export interface Invoice {
  recipient: Recipient;
  amountSat: number;
  request: string;
  verifyPath: string;
  /** Null: unpaid. Times are in milliseconds since 1970. */
  payment: { quoteId: string; paidAtMs: number } | null;
  isSettled: boolean;
}

/** One connection of a recipient's wallet. */
interface Session {
  /** Infinity until the wallet is authenticated. */
  openedAtMs: number;
  closedAtMs: number | null;
  updates: Set<string>;
}

interface ListedQuote {
  quoteId: string;
  request: string;
  amount: number;
  state: string;
  paidAt: number;
}

/** Returns null if no complete response arrived, or one that asks the client to try again later. */
export type TryRequest = (
  origin: string,
  path: string,
  init?: RequestInit,
) => Promise<ApiResponse | null>;

/**
 * Payers, and wallets with sockets and lists, who use real processes of the service while a test disturbs these. Collects
 * what a user would call wrong in `problems`.
 */
export class PaymentTraffic {
  readonly problems: string[];
  readonly invoices: Invoice[] = [];
  readonly recipients: readonly Recipient[];
  readonly #random: SeededRandom;
  readonly #pickOrigin: () => string;
  readonly #tryRequest: TryRequest;
  readonly #stopPaying = new AbortController();
  readonly #end = new AbortController();
  #payers: Promise<void> = Promise.resolve();
  #wallets: Promise<void>[] = [];

  /** @param options.pickOrigin returns where a client sends its next request */
  constructor(options: {
    seed: string;
    mints: readonly TestMint[];
    pickOrigin: () => string;
    problems?: string[];
    tryRequest?: TryRequest;
  }) {
    const { seed, mints, pickOrigin } = options;
    this.problems = options.problems ?? [];
    this.#tryRequest = options.tryRequest ?? this.#trySimpleRequest;
    this.#random = new SeededRandom(seed);
    this.#pickOrigin = pickOrigin;
    this.recipients = Array.from({ length: RECIPIENT_COUNT }, (_, index) => ({
      index,
      wallet: new RecipientClient(pickOrigin()),
      mint: mints[index % mints.length] as TestMint,
      watermark: 0,
      listings: new Map(),
      sessions: [],
    }));
  }

  get payments(): Invoice[] {
    return this.invoices.filter(({ payment }) => payment !== null);
  }

  /** The longest time from a payment until a wallet read it. */
  get worstDelayMs(): number {
    const delays = this.payments.map(
      ({ recipient, payment }) =>
        (recipient.listings.get(payment?.quoteId ?? '')?.atMs ?? Number.POSITIVE_INFINITY) -
        (payment?.paidAtMs ?? 0),
    );
    return Math.max(...delays);
  }

  /** Starts payers and wallets. */
  async start(): Promise<void> {
    for (const { wallet, mint, index } of this.recipients) {
      const settings = { mint: { mint_url: mint.url }, lock: { lockQuotes: index % 5 === 1 } };
      for (const [name, body] of Object.entries(settings)) {
        const send = () => wallet.send('PATCH', `/api/v2/user/${name}`, body);
        // A proxy may close an idle connection just when it is used again.
        const { status } = await send().catch(send);
        if (status !== 200) {
          throw new Error(`the setting '${name}' was refused with status ${status}`);
        }
      }
    }
    this.#payers = startSteadily(PAYER_INTERVAL_MS, this.#stopPaying.signal, () => this.#pay());
    for (const recipient of this.recipients) {
      this.#wallets.push(this.#readNewQuotesUntilEnd(recipient));
      if (recipient.index % 2 === 0) {
        this.#wallets.push(this.#keepSocketUntilEnd(recipient));
      }
    }
  }

  /** Ends the payers, waits until everything is right, and ends the wallets. Records what is still wrong then. */
  async finish(): Promise<void> {
    this.#stopPaying.abort();
    await this.#payers;
    const deadlineMs = Date.now() + MAX_RECOVERY_MS;
    let problems: string[];
    do {
      await delay(500);
      problems = await this.#findProblems();
    } while (problems.length > 0 && Date.now() < deadlineMs);
    await this.end();
    this.problems.push(...problems);
  }

  async end(): Promise<void> {
    this.#stopPaying.abort();
    this.#end.abort();
    await Promise.all(this.#wallets);
  }

  /** Requests an invoice once. @returns null if there is none */
  async requestInvoice(recipient: Recipient, amountSat: number): Promise<Invoice | null> {
    const path = `/.well-known/lnurlp/${recipient.wallet.npub}?amount=${amountSat * 1000}`;
    const response = await this.#tryRequest(this.#pickOrigin(), path);
    if (typeof response?.body?.pr !== 'string') {
      return null;
    }
    const { pr: request, verify } = response.body;
    const verifyPath = new URL(verify).pathname;
    const invoice = {
      recipient,
      amountSat,
      request,
      verifyPath,
      payment: null,
      isSettled: false,
    };
    this.invoices.push(invoice);
    return invoice;
  }

  /** Checks that the service knows an invoice, whether it is paid, and that it never stops being settled. */
  async checkVerifyUrl(invoice: Invoice, isFinal = false): Promise<void> {
    const response = await this.#tryRequest(this.#pickOrigin(), invoice.verifyPath);
    if (response === null) {
      return;
    }
    const { pr, settled } = response.body;
    const isWrong = settled ? invoice.payment === null : invoice.isSettled || isFinal;
    if (pr !== invoice.request || isWrong) {
      this.problems.push(`${describe(invoice)}: settled is ${settled} (${pr})`);
    }
    invoice.isSettled ||= settled === true;
  }

  /** Returns what is wrong, if all faults are over. Much of it becomes right soon. */
  async #findProblems(): Promise<string[]> {
    const problems: string[] = [];
    for (const recipient of this.recipients) {
      const invoices = this.payments.filter((invoice) => invoice.recipient === recipient);
      const quotes = await this.#readList(recipient, 0);
      if (quotes?.length !== invoices.length) {
        const { index } = recipient;
        problems.push(
          `recipient ${index}: ${quotes?.length} quotes are listed, ${invoices.length} were paid`,
        );
      }
      for (const invoice of invoices) {
        const listed = quotes?.find(({ request }) => request === invoice.request);
        const found = [...findWrongFields(invoice, listed), ...findMissingUpdates(invoice)];
        problems.push(...found.map((problem) => `${describe(invoice)}: ${problem}`));
      }
    }
    if (problems.length === 0) {
      await Promise.all(
        this.invoices.map((invoice) => this.checkVerifyUrl(invoice, invoice.payment !== null)),
      );
    }
    return problems;
  }

  async #pay(): Promise<void> {
    const random = this.#random.fork(`payer ${this.#random.next()}`);
    const recipient = random.pick(this.recipients);
    const amountSat = 1 + Math.floor(random.next() * 5_000);
    const deadlineMs = Date.now() + MAX_INVOICE_WAIT_MS;
    await this.#tryRequest(this.#pickOrigin(), `/.well-known/lnurlp/${recipient.wallet.npub}`);
    let invoice = await this.requestInvoice(recipient, amountSat);
    while (invoice === null && Date.now() < deadlineMs) {
      await delay(random.between(150, 1_200));
      invoice = await this.requestInvoice(recipient, amountSat);
    }
    if (invoice === null) {
      this.problems.push(`a payer got no invoice in ${MAX_INVOICE_WAIT_MS / 1_000} s`);
    } else if (random.chance(0.85)) {
      // Some payments arrive before the service asks the mint for the first time.
      await delay(random.chance(0.3) ? 0 : random.between(0, MAX_PAYMENT_DELAY_MS));
      const paidAtMs = Date.now();
      invoice.payment = { quoteId: recipient.mint.pay(invoice.request).id, paidAtMs };
      if (random.chance(0.5)) {
        await delay(random.between(0, MAX_REDEMPTION_DELAY_MS));
        await recipient.mint.markIssued(invoice.payment.quoteId);
      }
    }
  }

  async #readNewQuotesUntilEnd(recipient: Recipient): Promise<void> {
    const random = this.#random.fork(`list ${recipient.index}`);
    while (await sleepUnlessAborted(random.between(300, 1_500), this.#end.signal)) {
      const { watermark } = recipient;
      const quotes = (await this.#readList(recipient, watermark)) ?? [];
      for (const { quoteId, paidAt } of quotes.filter((quote) => quote.paidAt > watermark)) {
        if (recipient.listings.has(quoteId)) {
          this.problems.push(`recipient ${recipient.index}: a payment was returned as a new one`);
        }
        recipient.listings.set(quoteId, { atMs: Date.now(), paidAt });
        recipient.watermark = Math.max(recipient.watermark, paidAt);
      }
    }
  }

  async #keepSocketUntilEnd(recipient: Recipient): Promise<void> {
    const random = this.#random.fork(`socket ${recipient.index}`);
    const { signal } = this.#end;
    const report = (problem: string) =>
      this.problems.push(`recipient ${recipient.index} received ${problem}`);
    do {
      const session: Session = {
        openedAtMs: Number.POSITIVE_INFINITY,
        closedAtMs: null,
        updates: new Set(),
      };
      recipient.sessions.push(session);
      await receiveUpdates(recipient.wallet.withOrigin(this.#pickOrigin()), signal, {
        authenticated: () => {
          session.openedAtMs = Date.now();
        },
        updated: (quoteId) => {
          session.updates.add(quoteId);
          if (!this.#isPaid(recipient, quoteId)) {
            report('an update for an unpaid quote');
          }
        },
        report,
      });
      session.closedAtMs = Date.now();
    } while (await sleepUnlessAborted(random.between(100, 1_000), signal));
  }

  /** @returns null if a page could not be read */
  async #readList(recipient: Recipient, since: number): Promise<ListedQuote[] | null> {
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const origin = this.#pickOrigin();
      const authorization = recipient.wallet.withOrigin(origin).signRequest(LIST_PATH);
      const path = `${LIST_PATH}?limit=${PAGE_SIZE}&offset=${offset}&since=${since}`;
      const response = await this.#tryRequest(origin, path, { headers: { authorization } });
      if (response?.status !== 200) {
        return null;
      }
      const page: ListedQuote[] = response.body.data.quotes;
      if (page.some(({ quoteId }) => !this.#isPaid(recipient, quoteId))) {
        this.problems.push(`the list of recipient ${recipient.index} has an unpaid quote`);
      }
      quotes.push(...page);
      if (offset + PAGE_SIZE >= response.body.metadata.total) {
        return quotes;
      }
    }
  }

  #isPaid({ mint, wallet }: Recipient, quoteId: string): boolean {
    const quote = mint.quotes.get(quoteId);
    const invoice = this.invoices.find(({ request }) => request === quote?.request);
    return quote?.state !== 'UNPAID' && invoice?.recipient.wallet === wallet;
  }

  /** A response that does not match the API description is a problem. A killed process sends none. */
  readonly #trySimpleRequest: TryRequest = async (origin, path, init) => {
    try {
      const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
      return await requestJson(origin, path, { ...init, signal });
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof UndocumentedResponseError) {
        this.problems.push(error.message);
      }
      return null;
    }
  };
}

function findWrongFields(
  { recipient, amountSat, payment }: Invoice,
  listed: ListedQuote | undefined,
): string[] {
  if (listed === undefined || payment === null) {
    return ['is not listed'];
  }
  const state = recipient.mint.quotes.get(payment.quoteId)?.state;
  const isRight = listed.state === state && listed.amount === amountSat;
  // A wallet that reads only later payments must have read this one, too.
  const isFound = recipient.listings.get(payment.quoteId)?.paidAt === listed.paidAt;
  return isRight && isFound ? [] : [`is listed as ${JSON.stringify(listed)}, state ${state}`];
}

/** A session gets an update if it was open from before the payment until some time after the payment was listed. */
function findMissingUpdates({ recipient, payment }: Invoice): string[] {
  const { quoteId = '', paidAtMs = 0 } = payment ?? {};
  const listedAtMs = recipient.listings.get(quoteId)?.atMs ?? Number.POSITIVE_INFINITY;
  return recipient.sessions
    .filter(
      ({ openedAtMs, closedAtMs, updates }) =>
        openedAtMs < paidAtMs &&
        listedAtMs + MAX_UPDATE_DELAY_MS < (closedAtMs ?? Date.now()) &&
        !updates.has(quoteId),
    )
    .map(() => 'an open socket received no update');
}

function describe({ recipient, payment }: Invoice): string {
  const at = payment === null ? 'unpaid' : `paid at ${new Date(payment.paidAtMs).toISOString()}`;
  return `invoice of recipient ${recipient.index} (${at})`;
}

/** Calls `act` at a steady rate, however long each call takes. Resolves when the signal aborted and all calls ended. */
export async function startSteadily(
  intervalMs: number,
  signal: AbortSignal,
  act: () => Promise<void>,
): Promise<void> {
  const pending = new Set<Promise<void>>();
  do {
    const call = act().finally(() => pending.delete(call));
    pending.add(call);
  } while (await sleepUnlessAborted(intervalMs, signal));
  await Promise.all(pending);
}

/** @returns false if the signal aborted */
async function sleepUnlessAborted(ms: number, signal: AbortSignal): Promise<boolean> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}
