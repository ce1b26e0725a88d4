import type { Dice } from '../../../demo/test-mint/dice.ts';
import { ask, pause } from '../client.ts';
import type { Storm } from '../storm.ts';
import { describePayment, type Payment, type Recipient, type Truth } from './truth.ts';

const LIST = '/api/v2/wallet/quotes';

/** A page of the list (spec.md section 8). */
const PAGE_SIZE = 50;

/** Between two rounds of reading. */
const ROUND_GAP_MS = 200;

/** A quote of the list (spec.md section 2). Times in Unix seconds. */
export interface ListedQuote {
  paidAt: number;
  expiresAt: number;
  mintUrl: string;
  quoteId: string;
  request: string;
  amount: number;
  state: 'PAID' | 'INFLIGHT' | 'ISSUED';
  locked: boolean;
}

interface ListPage {
  quotes: ListedQuote[];
  total: number;
}

/** When a payment was first seen in a list. */
export interface Sighting {
  firstSeenAtMs: number;
  /** Unix seconds. */
  paidAt: number;
  wasSeenUncollected: boolean;
}

/** How far a quote has come, for the states of lists and mints. */
const RANKS = { UNPAID: 0, PAID: 1, INFLIGHT: 2, PENDING: 2, ISSUED: 3 } as const;

/**
 * Reads the recipients' lists during the storm, and finds what must never be in one: a payment that the
 * mint does not have, a state that it does not have yet, a changed time.
 */
export class Lists {
  readonly #storm: Storm;
  readonly #truth: Truth;
  readonly #dice: Dice;
  readonly #sightings = new Map<string, Sighting>();

  constructor(storm: Storm, truth: Truth) {
    this.#storm = storm;
    this.#truth = truth;
    this.#dice = storm.dice.fork('lists');
  }

  /** Undefined if the payment has not been seen in a list yet. */
  sighting(quoteId: string): Sighting | undefined {
    return this.#sightings.get(quoteId);
  }

  /** Reads lists in which payments are missing, and the others in turn, until the storm ends. */
  async keepReading(): Promise<void> {
    const { recipients } = this.#truth;
    for (let turn = 0; await pause(ROUND_GAP_MS, this.#storm.signal); turn += 1) {
      const missing = this.#truth.payments.filter(({ quoteId }) => !this.#sightings.has(quoteId));
      const chosen = new Set(missing.map(({ invoice }) => invoice.recipient));
      for (const recipient of chosen.add(recipients[turn % recipients.length] as Recipient)) {
        await this.read(recipient);
      }
    }
  }

  /** Reads all pages. @returns null if no process returned one of them */
  async read(recipient: Recipient): Promise<ListedQuote[] | null> {
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const page = await this.#page(recipient, offset);
      if (page === null) {
        return null;
      }
      quotes.push(...page.quotes);
      if (offset + PAGE_SIZE >= page.total) {
        return quotes;
      }
    }
  }

  async #page(recipient: Recipient, offset: number): Promise<ListPage | null> {
    const origin = this.#storm.site.anyOrigin(this.#dice);
    const authorization = recipient.wallet.at(origin).sign(LIST);
    const answer = await ask(
      this.#storm.findings,
      origin,
      `${LIST}?limit=${PAGE_SIZE}&offset=${offset}`,
      { headers: { authorization } },
    );
    if (answer?.status !== 200) {
      return null;
    }
    const page = { quotes: answer.body.data.quotes, total: answer.body.metadata.total };
    this.#judge(recipient, page);
    return page;
  }

  /** The mint is read after the page: what it lacks now, it lacked when the page was made. */
  #judge(recipient: Recipient, { quotes, total }: ListPage): void {
    const { findings } = this.#storm;
    const paid = this.#truth.paymentsTo(recipient).length;
    if (total > paid) {
      const problem = `recipient ${recipient.index} has ${total} listed, ${paid} paid`;
      findings.note('notEarly', problem);
    }
    for (const quote of quotes) {
      const payment = this.#truth.payment(quote.quoteId);
      if (payment?.invoice.recipient === recipient) {
        this.#see(payment, quote);
      } else {
        const what = payment === undefined ? 'an unpaid quote' : describePayment(payment);
        findings.note('notEarly', `the list of recipient ${recipient.index} has ${what}`);
      }
    }
  }

  #see(payment: Payment, { quoteId, state, paidAt }: ListedQuote): void {
    const { findings } = this.#storm;
    const stateAtMint = this.#truth.mints.quote(quoteId)?.state ?? 'UNPAID';
    if (RANKS[state] > RANKS[stateAtMint]) {
      const problem = `is listed as ${state}, but its mint says ${stateAtMint}`;
      findings.note('notEarly', `${describePayment(payment)} ${problem}`);
    }
    const known = this.#sightings.get(quoteId);
    if (known === undefined) {
      const wasSeenUncollected = state !== 'ISSUED';
      this.#sightings.set(quoteId, { firstSeenAtMs: Date.now(), paidAt, wasSeenUncollected });
    } else if (known.paidAt !== paidAt) {
      const problem = `was listed with paidAt ${known.paidAt}, then ${paidAt}`;
      findings.note('order', `${describePayment(payment)} ${problem}`);
    }
  }
}
