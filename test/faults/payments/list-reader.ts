import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import type { Storm } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import {
  describePayment,
  type ExpectedPayments,
  type Payment,
  type Recipient,
} from './expected-payments.ts';

const LIST_PATH = '/api/v2/wallet/quotes';

const PAGE_SIZE = 50;

const ROUND_INTERVAL_MS = 200;

/** A quote in a recipient's list. Times are Unix seconds. */
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

/** The payment as a list showed it for the first time. */
export interface FirstListing {
  firstListedAtMs: number;
  /** The listed time, in Unix seconds. */
  paidAt: number;
  wasListedBeforeIssued: boolean;
}

/** A quote only changes to states of higher rank. Lists call the state INFLIGHT that mints call PENDING. */
const STATE_RANKS = { UNPAID: 0, PAID: 1, INFLIGHT: 2, PENDING: 2, ISSUED: 3 } as const;

/**
 * Reads the recipients' lists during the storm. Checks that the lists never contain an unpaid quote, a state that the
 * quote does not have at the mint yet, or a changed payment time.
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

  firstListing(quoteId: string): FirstListing | undefined {
    return this.#firstListings.get(quoteId);
  }

  /** Reads in each round the lists that miss a payment, and one further list. A failed read ends the round. */
  async readUntilAborted(): Promise<void> {
    const { recipients } = this.#expectedPayments;
    for (
      let round = 0;
      await sleepUnlessAborted(ROUND_INTERVAL_MS, this.#storm.signal);
      round += 1
    ) {
      const unlistedPayments = this.#expectedPayments.payments.filter(
        ({ quoteId }) => !this.#firstListings.has(quoteId),
      );
      const chosenRecipients = new Set(unlistedPayments.map(({ invoice }) => invoice.recipient));
      chosenRecipients.add(recipients[round % recipients.length] as Recipient);
      for (const recipient of chosenRecipients) {
        if ((await this.readAllPages(recipient)) === null) {
          break;
        }
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
    const origin = this.#storm.pickOrigin(this.#random);
    const authorization = recipient.wallet.withOrigin(origin).signRequest(LIST_PATH);
    const response = await this.#storm.request(
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

  /** Compares a page with the mint. The mint's state is at least as new as the page, because it is read later. */
  #checkPage(recipient: Recipient, { quotes, total }: ListPage): void {
    const { checkRecorder } = this.#storm;
    const paidCount = this.#expectedPayments.paymentsOf(recipient).length;
    if (total > paidCount) {
      const problem = `recipient ${recipient.index} has ${total} listed quotes, ${paidCount} were paid`;
      checkRecorder.addProblem('notEarly', problem);
    }
    for (const quote of quotes) {
      const payment = this.#expectedPayments.payment(quote.quoteId);
      if (payment?.invoice.recipient === recipient) {
        this.#recordListing(payment, quote);
      } else {
        const unexpected = payment === undefined ? 'an unpaid quote' : describePayment(payment);
        checkRecorder.addProblem(
          'notEarly',
          `the list of recipient ${recipient.index} has ${unexpected}`,
        );
      }
    }
  }

  #recordListing(payment: Payment, { quoteId, state, paidAt }: ListedQuote): void {
    const { checkRecorder } = this.#storm;
    const stateAtMint = this.#expectedPayments.mints.quote(quoteId)?.state ?? 'UNPAID';
    if (STATE_RANKS[state] > STATE_RANKS[stateAtMint]) {
      const problem = `is listed as ${state}, but is ${stateAtMint} at its mint`;
      checkRecorder.addProblem('notEarly', `${describePayment(payment)} ${problem}`);
    }
    const firstListing = this.#firstListings.get(quoteId);
    if (firstListing === undefined) {
      this.#firstListings.set(quoteId, {
        firstListedAtMs: Date.now(),
        paidAt,
        wasListedBeforeIssued: state !== 'ISSUED',
      });
    } else if (firstListing.paidAt !== paidAt) {
      const problem = `was listed with paidAt ${firstListing.paidAt}, then ${paidAt}`;
      checkRecorder.addProblem('order', `${describePayment(payment)} ${problem}`);
    }
  }
}
