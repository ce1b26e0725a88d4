import type { Dispatcher } from 'undici';
import { UnreachableError } from './unreachable-reason.ts';

/** Memory that each chunk takes beside its bytes: chunks of one byte fill memory just as well. */
const CHUNK_OVERHEAD_BYTES = 256;

/** Interim responses (RFC 9110 section 15.2): hosts send none or one. */
const MAX_INTERIM_RESPONSES = 8;

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/** The memory that all pending responses share. */
export interface ResponseMemory {
  readonly maxBytes: number;
  bytes: number;
  /** The one that began first is first. */
  readonly pending: Set<BufferedResponse>;
}

/**
 * Sends a request and buffers its response as text. Aborts a response that is too large, and a compressed
 * one: none was requested, and a few kB could unpack to gigabytes. If all pending responses together are
 * too large, aborts the oldest, because an honest one arrives in a moment.
 */
export class BufferedResponse implements Dispatcher.DispatchHandler {
  readonly #memory: ResponseMemory;
  readonly #maxBytes: number;
  readonly #whole = Promise.withResolvers<{ status: number; headers: Headers; text: string }>();
  #controller: Controller | null = null;
  #abortedFor: Error | null = null;
  #interimResponses = 0;
  #status = 0;
  #headers: Headers = {};
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(memory: ResponseMemory, maxBytes: number) {
    this.#memory = memory;
    this.#maxBytes = maxBytes;
  }

  /** Whether a part of the request may have been sent. */
  get isStarted(): boolean {
    return this.#controller !== null;
  }

  /** Sends the request; rejects if there is no complete response. */
  receive(agent: Dispatcher, request: Dispatcher.DispatchOptions) {
    agent.dispatch(request, this);
    return this.#whole.promise;
  }

  /** Ends the request at once, also while it waits for a connection. */
  abort(reason: Error): void {
    this.#abortedFor = reason;
    this.#controller?.abort(reason);
    this.#whole.reject(reason);
  }

  /** Called by undici right before it writes the request. */
  onRequestStart(controller: Controller): void {
    if (this.#abortedFor !== null) {
      controller.abort(this.#abortedFor);
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
      this.abort(new UnreachableError('answer too large'));
    } else if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
      this.abort(new UnreachableError('answer compressed'));
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const memory = this.#memory;
    const bytes = chunk.byteLength + CHUNK_OVERHEAD_BYTES;
    this.#chunks.push(chunk);
    this.#bytes += bytes;
    memory.bytes += bytes;
    memory.pending.add(this);
    if (this.#bytes > this.#maxBytes) {
      this.abort(new UnreachableError('answer too large'));
    }
    if (memory.bytes > memory.maxBytes) {
      const [oldest] = memory.pending;
      oldest?.abort(new UnreachableError('answer too large'));
    }
  }

  onResponseEnd(): void {
    this.#release();
    // Removes a byte order mark, which JSON must not have (RFC 8259 section 8.1).
    const text = new TextDecoder().decode(Buffer.concat(this.#chunks));
    this.#whole.resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#release();
    this.#whole.reject(error);
  }

  #release(): void {
    this.#memory.bytes -= this.#bytes;
    this.#memory.pending.delete(this);
    this.#bytes = 0;
  }
}
