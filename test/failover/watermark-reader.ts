import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { StormObservations } from '../faults/payments/checks.ts';
import { describePayment, type Recipient } from '../faults/payments/expected-payments.ts';
import type { ListedQuote } from '../faults/payments/list-reader.ts';
import { sleepUnlessAborted } from '../faults/storm-client.ts';

const LIST_PATH = '/api/v2/wallet/quotes';
const PAGE_SIZE = 50;

const MIN_READ_INTERVAL_MS = 1_000;
const MAX_READ_INTERVAL_MS = 3_000;

/** A wallet like coco: it keeps the time of the newest payment as a watermark, and ignores quotes that are not later. */
export class WatermarkReader {
  readonly recipient: Recipient;
  readonly #run: StormObservations;
  readonly #random: SeededRandom;
  readonly #quoteIds = new Set<string>();
  #watermark = 0;

  constructor(run: StormObservations, recipient: Recipient) {
    this.recipient = recipient;
    this.#run = run;
    this.#random = run.random.fork(`watermark reader ${recipient.index}`);
  }

  async readUntilAborted(): Promise<void> {
    const chooseIntervalMs = () => this.#random.between(MIN_READ_INTERVAL_MS, MAX_READ_INTERVAL_MS);
    while (await sleepUnlessAborted(chooseIntervalMs(), this.#run.signal)) {
      const quotes = await this.#readNewQuotes();
      for (const { quoteId } of quotes) {
        if (this.#quoteIds.has(quoteId)) {
          this.#run.checkRecorder.addProblem(
            'watermark',
            `recipient ${this.recipient.index}: a quote was returned again`,
          );
        }
        this.#quoteIds.add(quoteId);
      }
      this.#watermark = Math.max(this.#watermark, ...quotes.map(({ paidAt }) => paidAt));
    }
  }

  check({ checkRecorder, expectedPayments }: StormObservations): void {
    for (const payment of expectedPayments.paymentsOf(this.recipient)) {
      if (!this.#quoteIds.has(payment.quoteId)) {
        checkRecorder.addProblem('watermark', `${describePayment(payment)} was not received`);
      }
    }
  }

  /** Returns the quotes that are later than the watermark; none if a page could not be read. */
  async #readNewQuotes(): Promise<ListedQuote[]> {
    const { wallet } = this.recipient;
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const response = await this.#run.request(
        wallet.origin,
        `${LIST_PATH}?limit=${PAGE_SIZE}&offset=${offset}&since=${this.#watermark}`,
        { headers: { authorization: wallet.signRequest(LIST_PATH) } },
      );
      if (response === null) {
        return [];
      }
      const page: ListedQuote[] = response.body.data.quotes;
      quotes.push(...page.filter(({ paidAt }) => paidAt > this.#watermark));
      if (offset + PAGE_SIZE >= response.body.metadata.total) {
        return quotes;
      }
    }
  }
}
