import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { StormObservations } from '../faults/payments/checks.ts';
import { describePayment, type Recipient } from '../faults/payments/expected-payments.ts';
import type { ListedQuote } from '../faults/payments/list-reader.ts';
import { sleepUnlessAborted } from '../faults/storm-client.ts';

const TOKEN_PATH = '/api/v2/auth/nip98';

const PAGE_SIZE = 50;

const MIN_READ_INTERVAL_MS = 1_000;
const MAX_READ_INTERVAL_MS = 3_000;

/**
 * A wallet like coco: it authenticates with a JWT, keeps the time of the newest payment as a watermark, and ignores
 * quotes that are not later.
 */
export class WatermarkReader {
  readonly recipient: Recipient;
  readonly #run: StormObservations;
  readonly #random: SeededRandom;
  readonly #quoteIds = new Set<string>();
  #token: string | null = null;
  #watermark = 0;

  constructor(run: StormObservations, recipient: Recipient) {
    this.recipient = recipient;
    this.#run = run;
    this.#random = run.random.fork(`watermark reader ${recipient.index}`);
  }

  /** Reads the list until the run ends. */
  async readUntilAborted(): Promise<void> {
    const chooseIntervalMs = () => this.#random.between(MIN_READ_INTERVAL_MS, MAX_READ_INTERVAL_MS);
    while (await sleepUnlessAborted(chooseIntervalMs(), this.#run.signal)) {
      this.#token ??= await this.#requestToken();
      const quotes = this.#token === null ? null : await this.#readNewQuotes(this.#token);
      for (const { quoteId } of quotes ?? []) {
        if (this.#quoteIds.has(quoteId)) {
          this.#run.checkRecorder.addProblem(
            'watermark',
            `recipient ${this.recipient.index}: a quote was returned again`,
          );
        }
        this.#quoteIds.add(quoteId);
      }
      this.#watermark = Math.max(this.#watermark, ...(quotes ?? []).map(({ paidAt }) => paidAt));
    }
  }

  /** Adds a problem for each payment that the wallet did not receive. */
  check({ checkRecorder, expectedPayments }: StormObservations): void {
    for (const payment of expectedPayments.paymentsOf(this.recipient)) {
      if (!this.#quoteIds.has(payment.quoteId)) {
        checkRecorder.addProblem('watermark', `${describePayment(payment)} was not received`);
      }
    }
  }

  async #requestToken(): Promise<string | null> {
    const { wallet } = this.recipient;
    const response = await this.#run.request(wallet.origin, TOKEN_PATH, {
      headers: { authorization: wallet.signRequest(TOKEN_PATH) },
    });
    return response?.body.data.token ?? null;
  }

  /** Returns the quotes that are later than the watermark; null if a page could not be read. */
  async #readNewQuotes(token: string): Promise<ListedQuote[] | null> {
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const response = await this.#run.request(
        this.recipient.wallet.origin,
        `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${offset}&since=${this.#watermark}`,
        { headers: { authorization: `Bearer ${token}` } },
      );
      if (response === null) {
        return null;
      }
      const page: ListedQuote[] = response.body.data.quotes;
      quotes.push(...page.filter(({ paidAt }) => paidAt > this.#watermark));
      if (offset + PAGE_SIZE >= response.body.metadata.total) {
        return quotes;
      }
    }
  }
}
