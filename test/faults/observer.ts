import { pause } from './client.ts';
import type { Findings } from './findings.ts';
import type { ListedQuote, ListPage, ListReader } from './list-reader.ts';
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
  /** Whose list has changed, as their wallets were told. */
  readonly #told = new Set<Recipient>();
  #turn = 0;

  constructor(truth: Truth, lists: ListReader, findings: Findings) {
    this.#truth = truth;
    this.#lists = lists;
    this.#findings = findings;
  }

  /** Undefined where a payment was not seen in the list yet. */
  sighting(quoteId: string): Sighting | undefined {
    return this.#sightings.get(quoteId);
  }

  /** Reads this recipient's list before those of others. */
  hurry(recipient: Recipient): void {
    this.#told.add(recipient);
  }

  /** Reads round after round, until the signal. */
  async keepReading(signal: AbortSignal): Promise<void> {
    do {
      for (const recipient of this.#worthReading()) {
        const page = signal.aborted ? null : await this.#lists.page(recipient);
        if (page !== null) {
          this.judge(recipient, page);
        }
      }
    } while (await pause(ROUND_GAP_MS, signal));
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
