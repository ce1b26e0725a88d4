import type { Dispatcher } from 'undici';
import { UnreachableError } from './unreachable-reason.ts';

/** The memory of a chunk in addition to its bytes: a host may send chunks of one byte. */
const CHUNK_OVERHEAD_BYTES = 256;

/** RFC 9110 section 15.2; hosts send none or one. */
const MAX_INTERIM_RESPONSES = 8;

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/** The memory for all pending responses together. */
export interface ResponseBufferBudget {
  readonly maxBytes: number;
  usedBytes: number;
  /** Oldest first. */
  readonly pending: Set<BufferedResponse>;
}

/**
 * Sends a request and buffers its response as text. Aborts a response that is too large, or compressed, which was
 * not requested: a few kB can unpack to gigabytes. If all pending responses together are too large, aborts the
 * oldest, because an honest response is short-lived.
 */
export class BufferedResponse implements Dispatcher.DispatchHandler {
  readonly #budget: ResponseBufferBudget;
  readonly #maxBytes: number;
  readonly #completed = Promise.withResolvers<{ status: number; headers: Headers; text: string }>();
  #controller: Controller | null = null;
  #abortReason: Error | null = null;
  #interimResponses = 0;
  #status = 0;
  #headers: Headers = {};
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(budget: ResponseBufferBudget, maxBytes: number) {
    this.#budget = budget;
    this.#maxBytes = maxBytes;
  }

  /** Whether any part of the request may have been sent. */
  get isRequestStarted(): boolean {
    return this.#controller !== null;
  }

  /** Rejects if there is no complete response. */
  send(agent: Dispatcher, request: Dispatcher.DispatchOptions) {
    agent.dispatch(request, this);
    return this.#completed.promise;
  }

  /** Ends the request immediately, also while it waits for a connection. */
  abort(reason: Error): void {
    this.#abortReason = reason;
    this.#controller?.abort(reason);
    this.#completed.reject(reason);
  }

  /** undici calls this immediately before it writes the request. */
  onRequestStart(controller: Controller): void {
    if (this.#abortReason !== null) {
      controller.abort(this.#abortReason);
    } else {
      this.#controller = controller;
    }
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    this.#status = status;
    this.#headers = headers;
    this.#interimResponses += status < 200 ? 1 : 0;
    const encoding = String(headers['content-encoding'] ?? '').trim();
    if (this.#interimResponses > MAX_INTERIM_RESPONSES) {
      this.abort(new UnreachableError('response too large'));
    } else if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
      this.abort(new UnreachableError('response compressed'));
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const budget = this.#budget;
    const bytes = chunk.byteLength + CHUNK_OVERHEAD_BYTES;
    this.#chunks.push(chunk);
    this.#bytes += bytes;
    budget.usedBytes += bytes;
    budget.pending.add(this);
    if (this.#bytes > this.#maxBytes) {
      this.abort(new UnreachableError('response too large'));
    }
    if (budget.usedBytes > budget.maxBytes) {
      const [oldest] = budget.pending;
      oldest?.abort(new UnreachableError('response too large'));
    }
  }

  onResponseEnd(): void {
    this.#release();
    // Removes a byte order mark, which JSON must not have (RFC 8259 section 8.1).
    const text = new TextDecoder().decode(Buffer.concat(this.#chunks));
    this.#completed.resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#release();
    this.#completed.reject(error);
  }

  #release(): void {
    this.#budget.usedBytes -= this.#bytes;
    this.#budget.pending.delete(this);
    this.#bytes = 0;
  }
}
