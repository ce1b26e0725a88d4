import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { WebSocket } from 'ws';
import { AsyncQueue } from '../async-queue.ts';
import { assertMatchesOpenApi } from '../service/openapi-validator.ts';

/** Quotes in each page that npubcash-sdk requests. */
const PAGE_SIZE = 50;

export interface Nip98Overrides {
  url?: string;
  method?: string;
  createdAtSeconds?: number;
  kind?: number;
  tags?: string[][];
}

/** A client of the service's wallet API, with a recipient's Nostr key. It holds no ecash. */
export class RecipientClient {
  readonly secretKey: Uint8Array;
  readonly pubkey: string;
  readonly npub: string;
  readonly origin: string;
  readonly #now: () => number;

  constructor(origin: string, now: () => number = Date.now, secretKey = generateSecretKey()) {
    this.origin = origin;
    this.#now = now;
    this.secretKey = secretKey;
    this.pubkey = getPublicKey(secretKey);
    this.npub = nip19.npubEncode(this.pubkey);
  }

  withOrigin(origin: string): RecipientClient {
    return new RecipientClient(origin, this.#now, this.secretKey);
  }

  /** Returns an `Authorization` header for a request (NIP-98). */
  signRequest(path: string, method = 'GET', overrides: Nip98Overrides = {}): string {
    const json = JSON.stringify(this.createNip98Event(path, method, overrides));
    return `Nostr ${Buffer.from(json).toString('base64')}`;
  }

  createNip98Event(path: string, method: string, overrides: Nip98Overrides = {}) {
    return finalizeEvent(
      {
        kind: overrides.kind ?? 27_235,
        created_at: overrides.createdAtSeconds ?? Math.floor(this.#now() / 1000),
        content: '',
        tags: [
          ['u', overrides.url ?? `${this.origin}${path.replace(/\?.*$/, '')}`],
          ['method', overrides.method ?? method],
          ...(overrides.tags ?? []),
        ],
      },
      this.secretKey,
    );
  }

  get(path: string): Promise<ApiResponse> {
    return requestJson(this.origin, path, { headers: { authorization: this.signRequest(path) } });
  }

  send(
    method: 'PATCH' | 'POST' | 'PUT',
    path: string,
    body: unknown,
    {
      headers = {},
      signal = null,
    }: { headers?: Record<string, string>; signal?: AbortSignal | null } = {},
  ): Promise<ApiResponse> {
    const authorization = this.signRequest(path, method);
    return requestJson(this.origin, path, {
      method,
      headers: { authorization, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
      signal,
    });
  }

  /**
   * Lists all paid quotes, newest first. Requests page after page.
   *
   * @param sinceSeconds lists only quotes that were paid after this time, in seconds since 1970
   */
  async listPaidQuotes(sinceSeconds?: number): Promise<Record<string, unknown>[]> {
    const quotes: Record<string, unknown>[] = [];
    const since = sinceSeconds === undefined ? '' : `&since=${sinceSeconds}`;
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const query = `limit=${PAGE_SIZE}&offset=${offset}${since}`;
      const { body } = await this.get(`/api/v2/wallet/quotes?${query}`);
      quotes.push(...body.data.quotes);
      if (offset + PAGE_SIZE >= body.metadata.total) {
        return quotes;
      }
    }
  }

  async openSocket(): Promise<TestQuoteSocket> {
    const socket = new TestQuoteSocket(this.origin);
    const challenge = await socket.nextMessage();
    socket.send('challenge-response', this.signRequest('', 'GET', challenge.payload));
    const response = await socket.nextMessage();
    if (response.type !== 'challenge-success') {
      throw new Error(`the service rejected the authentication: ${JSON.stringify(response)}`);
    }
    return socket;
  }
}

/** A client of the quote WebSocket that queues received messages. */
export class TestQuoteSocket {
  readonly connection: WebSocket;
  readonly #messages = new AsyncQueue<SocketMessage>();
  readonly #closeCode: Promise<number>;

  constructor(origin: string, path = '/api/v2/ws/quote', headers: Record<string, string> = {}) {
    this.connection = new WebSocket(`${origin.replace(/^http/, 'ws')}${path}`, { headers });
    this.#closeCode = new Promise((resolve) => this.connection.once('close', resolve));
    this.connection.on('message', (data) => this.#messages.push(JSON.parse(String(data))));
  }

  send(type: string, payload?: unknown): void {
    this.connection.send(JSON.stringify({ type, payload }));
  }

  nextMessage(): Promise<SocketMessage> {
    return this.#messages.next();
  }

  get unreadMessages(): readonly SocketMessage[] {
    return this.#messages.items;
  }

  /** Removes and returns all messages that the service has sent so far. */
  async drainMessages(): Promise<SocketMessage[]> {
    this.send('ping');
    const messages: SocketMessage[] = [];
    for (;;) {
      const message = await this.nextMessage();
      if (message.type === 'pong') {
        return messages;
      }
      messages.push(message);
    }
  }

  waitForClose(): Promise<number> {
    return this.#closeCode;
  }

  async close(): Promise<void> {
    this.connection.close();
    await this.#closeCode;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tests assert the shape of messages.
type AnyJson = any;

export interface SocketMessage {
  type: string;
  payload?: AnyJson;
}

export interface ApiResponse {
  status: number;
  headers: Headers;
  body: AnyJson;
}

/** Sends a request. @throws if the response is not JSON or does not match the OpenAPI document */
export async function requestJson(
  origin: string,
  path: string,
  init: RequestInit = {},
): Promise<ApiResponse> {
  const response = await fetchJson(origin, path, init);
  assertMatchesOpenApi(init.method ?? 'GET', path, response);
  return response;
}

/** Sends a request. @throws SyntaxError if the response is not JSON */
export async function fetchJson(
  origin: string,
  path: string,
  init: RequestInit,
): Promise<ApiResponse> {
  const response = await fetch(`${origin}${path}`, { redirect: 'error', ...init });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text === '' ? null : JSON.parse(text),
  };
}
