import { Refusal, type RefusalNature } from '../domain/errors.ts';

/** How a request for an invoice ended, and how long it took. */
export interface InvoiceTiming {
  /** Why it was refused; `failed` is a bug or a database that does not answer. */
  outcome: 'issued' | RefusalNature | 'failed';
  tookMs: number;
  /** The part of it that was spent waiting for the mint's rate limit and for its answers. */
  mintMs: number;
}

/** Times one request for an invoice. */
export class InvoiceTimer {
  readonly #monotonicMs: () => number;
  readonly #startedAtMs: number;
  #mintMs = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
    this.#startedAtMs = monotonicMs();
  }

  /** Waits for an answer of the mint. */
  async mint<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const askedAtMs = this.#monotonicMs();
    try {
      return await answer;
    } finally {
      this.#mintMs += this.#monotonicMs() - askedAtMs;
    }
  }

  issued(): InvoiceTiming {
    return this.#end('issued');
  }

  failed(error: unknown): InvoiceTiming {
    return this.#end(error instanceof Refusal ? error.nature : 'failed');
  }

  #end(outcome: InvoiceTiming['outcome']): InvoiceTiming {
    return { outcome, tookMs: this.#monotonicMs() - this.#startedAtMs, mintMs: this.#mintMs };
  }
}
