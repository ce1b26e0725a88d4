import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import type { Storm } from '../storm.ts';
import { sleepUnlessAborted, tryRequest } from '../storm-client.ts';
import {
  describePayment,
  type ExpectedPayments,
  type Payment,
  type Recipient,
} from './expected-payments.ts';

const LIST_PATH = '/api/v2/wallet/quotes';

/** The page size of the list (spec.md section 8). */
const PAGE_SIZE = 50;

const ROUND_DELAY_MS = 200;

/** A quote in the list (spec.md section 2). Times in Unix seconds. */
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

/** The first time that a payment appeared in a list. */
export interface FirstListing {
  firstListedAtMs: number;
  /** Unix seconds. */
  paidAt: number;
  wasListedBeforeIssued: boolean;
}

/** Order of the states of a quote, in lists and at mints. */
const STATE_RANKS = { UNPAID: 0, PAID: 1, INFLIGHT: 2, PENDING: 2, ISSUED: 3 } as const;

/**
 * Reads the recipients' lists during the storm and checks that they never contain an unpaid quote, a state
 * that the mint does not have yet, or a changed time.
 */
export class ListReader {
  readonly #storm: Storm;
  readonly #expectedPayments: ExpectedPayments;
  readonly #random: SeededRandom;
  readonly #firstListings = new Map<string, FirstListing>();

  constructor(storm: Storm, expectedPayments: ExpectedPayments) {
    this.#storm = storm;
    this.#expectedPayments = expectedPayments;
    this.#random = storm.random.fork('lists');
  }

  /** Returns undefined if no list has contained the payment yet. */
  firstListing(quoteId: string): FirstListing | undefined {
    return this.#firstListings.get(quoteId);
  }

  /** Until the storm ends, reads all incomplete lists and one other list in each round. */
  async readUntilAborted(): Promise<void> {
    const { recipients } = this.#expectedPayments;
    for (let round = 0; await sleepUnlessAborted(ROUND_DELAY_MS, this.#storm.signal); round += 1) {
      const missing = this.#expectedPayments.payments.filter(
        ({ quoteId }) => !this.#firstListings.has(quoteId),
      );
      const chosen = new Set(missing.map(({ invoice }) => invoice.recipient));
      for (const recipient of chosen.add(recipients[round % recipients.length] as Recipient)) {
        await this.readAllPages(recipient);
      }
    }
  }

  /** @returns null if a page could not be read */
  async readAllPages(recipient: Recipient): Promise<ListedQuote[] | null> {
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const page = await this.#readPage(recipient, offset);
      if (page === null) {
        return null;
      }
      quotes.push(...page.quotes);
      if (offset + PAGE_SIZE >= page.total) {
        return quotes;
      }
    }
  }

  async #readPage(recipient: Recipient, offset: number): Promise<ListPage | null> {
    const origin = this.#storm.deployment.anyOrigin(this.#random);
    const authorization = recipient.wallet.withOrigin(origin).signRequest(LIST_PATH);
    const response = await tryRequest(
      this.#storm.checkResults,
      origin,
      `${LIST_PATH}?limit=${PAGE_SIZE}&offset=${offset}`,
      { headers: { authorization } },
    );
    if (response?.status !== 200) {
      return null;
    }
    const page = { quotes: response.body.data.quotes, total: response.body.metadata.total };
    this.#checkPage(recipient, page);
    return page;
  }

  /** Compares a page with the mint's state, which is never older because it is read afterwards. */
  #checkPage(recipient: Recipient, { quotes, total }: ListPage): void {
    const { checkResults } = this.#storm;
    const paid = this.#expectedPayments.paymentsOf(recipient).length;
    if (total > paid) {
      const problem = `recipient ${recipient.index} has ${total} listed, ${paid} paid`;
      checkResults.addProblem('notEarly', problem);
    }
    for (const quote of quotes) {
      const payment = this.#expectedPayments.payment(quote.quoteId);
      if (payment?.invoice.recipient === recipient) {
        this.#recordListing(payment, quote);
      } else {
        const what = payment === undefined ? 'an unpaid quote' : describePayment(payment);
        checkResults.addProblem('notEarly', `the list of recipient ${recipient.index} has ${what}`);
      }
    }
  }

  #recordListing(payment: Payment, { quoteId, state, paidAt }: ListedQuote): void {
    const { checkResults } = this.#storm;
    const stateAtMint = this.#expectedPayments.mints.quote(quoteId)?.state ?? 'UNPAID';
    if (STATE_RANKS[state] > STATE_RANKS[stateAtMint]) {
      const problem = `is listed as ${state}, but is ${stateAtMint} at its mint`;
      checkResults.addProblem('notEarly', `${describePayment(payment)} ${problem}`);
    }
    const known = this.#firstListings.get(quoteId);
    if (known === undefined) {
      this.#firstListings.set(quoteId, {
        firstListedAtMs: Date.now(),
        paidAt,
        wasListedBeforeIssued: state !== 'ISSUED',
      });
    } else if (known.paidAt !== paidAt) {
      const problem = `was listed with paidAt ${known.paidAt}, then ${paidAt}`;
      checkResults.addProblem('order', `${describePayment(payment)} ${problem}`);
    }
  }
}
