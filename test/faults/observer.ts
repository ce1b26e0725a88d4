import { pause } from './client.ts';
import type { Findings } from './findings.ts';
import { type ListedQuote, type ListPage, type ListReader, PAGE_SIZE } from './list-reader.ts';
import { describePayment, type Payment, type Recipient, type Truth } from './truth.ts';

/** Between two rounds of reading. */
const ROUND_GAP_MS = 200;

/** What was seen of a payment in the list. */
export interface Sighting {
  /** Milliseconds since 1970. */
  firstSeenAtMs: number;
  /** As the list said, Unix seconds. */
  paidAt: number;
  /** Whether it was seen before it was collected. */
  wasSeenUncollected: boolean;
}

/**
 * Reads the recipients' lists while the storm goes on, and finds what no list may ever say, at any
 * moment: a payment that the mint does not have, a state that it is not in yet, a change of place.
 */
export class Observer {
  readonly #truth: Truth;
  readonly #lists: ListReader;
  readonly #findings: Findings;
  readonly #sightings = new Map<string, Sighting>();
  /** The page of each list with the highest total. */
  readonly #longest = new Map<Recipient, ListPage>();
  /** Recipients whose wallets have received an update. */
  readonly #told = new Set<Recipient>();
  /** Payments of each recipient that were seen in the list. */
  readonly #seenCounts = new Map<Recipient, number>();
  #turn = 0;

  constructor(truth: Truth, lists: ListReader, findings: Findings) {
    this.#truth = truth;
    this.#lists = lists;
    this.#findings = findings;
  }

  /** Undefined if the payment has not been seen in the list yet. */
  sighting(quoteId: string): Sighting | undefined {
    return this.#sightings.get(quoteId);
  }

  /** Reads this recipient's list first in the next round. */
  hurry(recipient: Recipient): void {
    this.#told.add(recipient);
  }

  /** Reads round after round, until the signal. */
  async keepReading(signal: AbortSignal): Promise<void> {
    do {
      for (const recipient of this.#worthReading()) {
        await this.#readNew(recipient, signal);
      }
    } while (await pause(ROUND_GAP_MS, signal));
  }

  /** Reads pages until every listed payment has been seen: many can be listed between two rounds. */
  async #readNew(recipient: Recipient, signal: AbortSignal): Promise<void> {
    for (let offset = 0; !signal.aborted; offset += PAGE_SIZE) {
      const page = await this.#lists.page(recipient, offset);
      if (page === null) {
        return;
      }
      this.judge(recipient, page);
      const isAllSeen = (this.#seenCounts.get(recipient) ?? 0) >= page.total;
      if (isAllSeen || offset + PAGE_SIZE >= page.total) {
        return;
      }
    }
  }

  /**
   * Judges an answer of the list. The mint is looked at after the answer has come, and what it has
   * it keeps: what it does not have now, it did not have when the answer was made.
   */
  judge(recipient: Recipient, page: ListPage): void {
    const paidByNow = this.#truth.paymentsTo(recipient).length;
    const before = this.#longest.get(recipient);
    if (page.total > paidByNow) {
      const problem = `recipient ${recipient.index} has ${page.total} listed, ${paidByNow} paid`;
      this.#findings.note('notEarly', problem);
    }
    if (before === undefined || page.total > before.total) {
      this.#longest.set(recipient, page);
    } else if (page.total < before.total && page.askedAtMs > before.readAtMs) {
      const problem = `the total fell from ${before.total} to ${page.total}`;
      this.#findings.note('order', `recipient ${recipient.index}: ${problem}`);
    }
    for (const quote of page.quotes) {
      const payment = this.#truth.payment(quote.quoteId);
      if (payment === undefined || payment.invoice.recipient !== recipient) {
        const what =
          payment === undefined ? 'a quote that nobody has paid' : describePayment(payment);
        this.#findings.note('notEarly', `the list of recipient ${recipient.index} has ${what}`);
      } else {
        this.#note(payment, quote, page.readAtMs);
      }
    }
  }

  #note(payment: Payment, quote: ListedQuote, readAtMs: number): void {
    const stateAtMint = this.#truth.mints.quote(quote.quoteId)?.state ?? 'UNPAID';
    if (RANKS[quote.state] > RANKS[stateAtMint]) {
      const problem = `is listed as ${quote.state}, but its mint says ${stateAtMint}`;
      this.#findings.note('notEarly', `${describePayment(payment)} ${problem}`);
    }
    const known = this.#sightings.get(quote.quoteId);
    if (known === undefined) {
      this.#sightings.set(quote.quoteId, {
        firstSeenAtMs: readAtMs,
        paidAt: quote.paidAt,
        wasSeenUncollected: quote.state !== 'ISSUED',
      });
      const { recipient } = payment.invoice;
      this.#seenCounts.set(recipient, (this.#seenCounts.get(recipient) ?? 0) + 1);
    } else if (known.paidAt !== quote.paidAt) {
      const problem = `was listed with paidAt ${known.paidAt}, then ${quote.paidAt}`;
      this.#findings.note('order', `${describePayment(payment)} ${problem}`);
    }
  }

  /** First those of whom there is news, then those who wait for a payment, and another one in turn. */
  #worthReading(): Set<Recipient> {
    const { recipients, payments } = this.#truth;
    const waiting = payments.filter(({ quoteId }) => !this.#sightings.has(quoteId));
    const chosen = new Set([...this.#told, ...waiting.map(({ invoice }) => invoice.recipient)]);
    this.#told.clear();
    this.#turn = (this.#turn + 1) % recipients.length;
    return chosen.add(recipients[this.#turn] as Recipient);
  }
}

/** How far a quote has come, for the list's states and the mint's. */
const RANKS = { UNPAID: 0, PAID: 1, INFLIGHT: 2, PENDING: 2, ISSUED: 3 } as const;
