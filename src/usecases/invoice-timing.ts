import { Refusal, type RefusalNature } from '../domain/errors.ts';

/** How a request for an invoice ended, and what took how long. */
export interface InvoiceTiming {
  /** Of one that was refused, why; `failed` is a bug or a database that does not answer. */
  outcome: 'issued' | RefusalNature | 'failed';
  tookMs: number;
  /** Of that, how long its mint was waited for: its turn there, and its answers. */
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

  /** Waits for an answer of the mint, or for what is remembered of one. */
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

  /** @param error what was thrown in place of an invoice */
  threw(error: unknown): InvoiceTiming {
    return this.#end(error instanceof Refusal ? error.nature : 'failed');
  }

  #end(outcome: InvoiceTiming['outcome']): InvoiceTiming {
    return { outcome, tookMs: this.#monotonicMs() - this.#startedAtMs, mintMs: this.#mintMs };
  }
}
