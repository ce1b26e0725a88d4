import { isUtf8 } from 'node:buffer';
import { Agent, buildConnector, type Client, type Dispatcher, Pool } from 'undici';
import { MAX_JSON_ELEMENTS, tryParseJson } from '../untrusted-text.ts';
import {
  type ConnectionPolicy,
  createLookupOption,
  findForbiddenPart,
  TLS_OPTIONS,
} from './guarded-connection.ts';
import { type FetchLimits, MAX_FRAMING_BYTES, MAX_HEADER_BYTES } from './limits.ts';
import { MeteredClient, type MeteredRequest } from './metered-socket.ts';
import { RequestFailure, type RequestFailureReason, toFailureReason } from './request-failure.ts';

export interface HttpRequest {
  url: string;
  /** Sent with POST; null: the request is a GET. */
  body: string | Uint8Array | null;
  /** In addition to the usual ones. */
  headers?: Readonly<Record<string, string>>;
  maxBodyBytes: number;
  timeoutMs: number;
}

/** A response may have any status; redirects are not followed. */
export type HttpResponse =
  | {
      outcome: 'responded';
      status: number;
      /** Names are in lower case. Of a repeated header, only the first value is included. */
      headers: ReadonlyMap<string, string>;
      /** The parsed body; undefined if it is not JSON, or has too many elements. */
      json: unknown;
      /** The body if `json` is no object or array. Empty if it is not UTF-8. */
      text: string;
    }
  /** `isUnsent`: no part of the request was sent. Absent if a part may have been sent. */
  | { outcome: 'unreachable'; reason: RequestFailureReason; isUnsent?: true };

/** An {@link HttpClient} of this thread, or a proxy for one in the network thread. */
export type HttpSender = Pick<HttpClient, 'request' | 'close'>;

/** Connects only by https to allowed ports of public addresses. Uses no redirects, proxy or compression. */
export class HttpClient {
  readonly #policy: ConnectionPolicy;
  readonly #agent: Agent;
  readonly #bufferBudget: ResponseBufferBudget;

  /** @param onBytes called before bytes of a host are processed. Its presence limits all bytes, including those of TLS */
  constructor(policy: ConnectionPolicy, limits: FetchLimits, onBytes?: (origin: string) => void) {
    this.#policy = policy;
    this.#bufferBudget = { maxBytes: limits.maxBufferedBytes, usedBytes: 0, pending: new Set() };
    const lookupOption = createLookupOption(policy);
    const connect = buildConnector({
      ...TLS_OPTIONS,
      ...lookupOption,
      timeout: limits.connectTimeoutMs,
      // HTTP/1.1 only, so that a single parser enforces the limits on headers and body.
      allowH2: false,
    });
    const meteredPoolOptions = onBytes && {
      factory: (origin: URL, options: Client.Options) =>
        new MeteredClient(origin, options, { connect, lookupOption, onBytes }),
    };
    this.#agent = new Agent({
      connect,
      factory: (origin, options) => new Pool(origin, { ...options, ...meteredPoolOptions }),
      // Enough for 50 invoices a second at a mint that takes 300 ms for each.
      connections: 16,
      pipelining: 1,
      // The maximum applies if the host sends a longer time. Each idle connection takes a file descriptor.
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 4_000,
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.totalTimeoutMs,
      maxHeaderSize: MAX_HEADER_BYTES,
    });
  }

  /** Failures of the host are results, not exceptions. */
  async request({ body, maxBodyBytes, ...request }: HttpRequest): Promise<HttpResponse> {
    const url = new URL(request.url);
    const forbiddenPart = findForbiddenPart(url, this.#policy);
    if (forbiddenPart !== null) {
      return unsentResponse(forbiddenPart);
    }
    const response = new BufferedResponse(this.#bufferBudget, maxBodyBytes);
    const timer = setTimeout(() => response.abort('timed out'), request.timeoutMs).unref();
    const options: MeteredRequest = {
      origin: url.origin,
      path: url.pathname + url.search,
      method: body === null ? 'GET' : 'POST',
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        // Some hosts reject requests without a user agent.
        'user-agent': 'nutpost',
        ...(body !== null && { 'content-type': 'application/json' }),
        ...request.headers,
      },
      body,
      maxReceivedBytes: maxBodyBytes + MAX_FRAMING_BYTES,
    };
    try {
      this.#agent.dispatch(options, response);
      const { status, headers, text } = await response.completion.promise;
      const json = tryParseJson(text, MAX_JSON_ELEMENTS);
      return {
        outcome: 'responded',
        status,
        headers: toFirstValues(headers),
        json,
        text: typeof json === 'object' ? '' : text,
      };
    } catch (error) {
      const reason = toFailureReason(error);
      return response.isRequestStarted
        ? { outcome: 'unreachable', reason }
        : unsentResponse(reason);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends pending requests as `closed`. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

export function unsentResponse(reason: RequestFailureReason): HttpResponse {
  return { outcome: 'unreachable', reason, isUnsent: true };
}

function toFirstValues(headers: Headers): ReadonlyMap<string, string> {
  const entries = Object.entries(headers);
  // The values of a repeated header are an array.
  return new Map(entries.map(([name, value]) => [name.toLowerCase(), [value].flat()[0] ?? '']));
}

type Controller = Dispatcher.DispatchController;
type Headers = Record<string, string | string[] | undefined>;

interface ResponseBufferBudget {
  readonly maxBytes: number;
  usedBytes: number;
  readonly pending: Set<BufferedResponse>;
}

/** Buffers a response as text. If all pending responses of a client together are too large, aborts the oldest. */
class BufferedResponse implements Dispatcher.DispatchHandler {
  readonly completion = Promise.withResolvers<{ status: number; headers: Headers; text: string }>();
  readonly #budget: ResponseBufferBudget;
  readonly #maxBytes: number;
  #controller: Controller | null = null;
  #abortReason: Error | null = null;
  #head = { status: 0, headers: {} as Headers };
  readonly #chunks: Buffer[] = [];
  #bufferedBytes = 0;

  constructor(budget: ResponseBufferBudget, maxBytes: number) {
    this.#budget = budget;
    this.#maxBytes = maxBytes;
  }

  get isRequestStarted(): boolean {
    return this.#controller !== null;
  }

  abort(reason: RequestFailureReason): void {
    this.#abortReason = new RequestFailure(reason);
    this.#controller?.abort(this.#abortReason);
    this.completion.reject(this.#abortReason);
  }

  /** undici calls this before it writes the request. */
  onRequestStart(controller: Controller): void {
    if (this.#abortReason !== null) {
      controller.abort(this.#abortReason);
    } else {
      this.#controller = controller;
    }
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    this.#head = { status, headers };
    const encoding = String(headers['content-encoding'] ?? '').trim();
    // A few compressed kB can contain gigabytes.
    if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
      this.abort('response compressed');
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const budget = this.#budget;
    // A chunk takes memory in addition to its bytes, and a host may send chunks of one byte.
    const bytes = chunk.byteLength + 256;
    this.#chunks.push(chunk);
    this.#bufferedBytes += bytes;
    budget.usedBytes += bytes;
    budget.pending.add(this);
    if (this.#bufferedBytes > this.#maxBytes) {
      this.abort('response too large');
    }
    if (budget.usedBytes > budget.maxBytes) {
      const [oldest] = budget.pending;
      oldest?.abort('response too large');
    }
  }

  onResponseEnd(): void {
    this.#releaseBudget();
    const body = Buffer.concat(this.#chunks);
    // JSON is UTF-8. Other bodies are not decoded, because the decoder takes 5 ms to replace a megabyte of invalid bytes.
    const text = isUtf8(body) ? new TextDecoder().decode(body) : '';
    this.completion.resolve({ ...this.#head, text });
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#releaseBudget();
    this.completion.reject(error);
  }

  #releaseBudget(): void {
    this.#budget.usedBytes -= this.#bufferedBytes;
    this.#budget.pending.delete(this);
    this.#bufferedBytes = 0;
  }
}
