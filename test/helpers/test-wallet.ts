import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { WebSocket } from 'ws';
import { assertMatchesOpenApi } from './openapi-validator.ts';

/** Overrides for a NIP-98 event. */
export interface Nip98Overrides {
  url?: string;
  method?: string;
  createdAt?: number;
  kind?: number;
  tags?: string[][];
}

/** A recipient with a Nostr key and the HTTP and WebSocket calls that wallets make. */
export class TestWallet {
  readonly secretKey: Uint8Array;
  readonly pubkey: string;
  readonly npub: string;
  readonly origin: string;
  readonly #now: () => number;

  /**
   * @param base the public origin of the service
   * @param now the clock for signatures, milliseconds since 1970
   */
  constructor(base: string, now: () => number = Date.now, secretKey = generateSecretKey()) {
    this.origin = base;
    this.#now = now;
    this.secretKey = secretKey;
    this.pubkey = getPublicKey(secretKey);
    this.npub = nip19.npubEncode(this.pubkey);
  }

  withOrigin(base: string): TestWallet {
    return new TestWallet(base, this.#now, this.secretKey);
  }

  /** Returns the `Authorization` header of a request (NIP-98), by default a valid one. */
  signRequest(path: string, method = 'GET', options: Nip98Overrides = {}): string {
    return `Nostr ${Buffer.from(JSON.stringify(this.createNip98Event(path, method, options))).toString('base64')}`;
  }

  createNip98Event(path: string, method: string, options: Nip98Overrides = {}) {
    return finalizeEvent(
      {
        kind: options.kind ?? 27_235,
        created_at: options.createdAt ?? Math.floor(this.#now() / 1000),
        content: '',
        tags: [
          ['u', options.url ?? `${this.origin}${path.replace(/\?.*$/, '')}`],
          ['method', options.method ?? method],
          ...(options.tags ?? []),
        ],
      },
      this.secretKey,
    );
  }

  get(path: string): Promise<ApiResponse> {
    return requestJson(this.origin, path, { headers: { authorization: this.signRequest(path) } });
  }

  send(method: 'PATCH' | 'POST', path: string, body: unknown): Promise<ApiResponse> {
    return requestJson(this.origin, path, {
      method,
      headers: {
        authorization: this.signRequest(path, method),
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    });
  }

  /** Lists all paid quotes, page by page like the SDK. */
  async listQuotes(since?: number): Promise<Record<string, unknown>[]> {
    const quotes: Record<string, unknown>[] = [];
    for (let offset = 0; ; offset += 50) {
      const query = `limit=50&offset=${offset}${since === undefined ? '' : `&since=${since}`}`;
      const { body } = await this.get(`/api/v2/wallet/quotes?${query}`);
      quotes.push(...body.data.quotes);
      if (offset + 50 >= body.metadata.total) {
        return quotes;
      }
    }
  }

  async openSocket(): Promise<TestQuoteSocket> {
    const socket = new TestQuoteSocket(this.origin);
    const challenge = await socket.nextMessage();
    socket.send('challenge-response', this.signRequest('', 'GET', challenge.payload));
    const answer = await socket.nextMessage();
    if (answer.type !== 'challenge-success') {
      throw new Error(`the socket was not accepted: ${JSON.stringify(answer)}`);
    }
    return socket;
  }
}

/** A client of the quote WebSocket that queues messages. */
export class TestQuoteSocket {
  readonly connection: WebSocket;
  readonly #messages: SocketMessage[] = [];
  readonly #waiting: ((message: SocketMessage) => void)[] = [];
  readonly #closed: Promise<number>;

  constructor(base: string, path = '/api/v2/ws/quote', headers: Record<string, string> = {}) {
    this.connection = new WebSocket(`${base.replace(/^http/, 'ws')}${path}`, { headers });
    this.#closed = new Promise((resolve) => this.connection.once('close', resolve));
    this.connection.on('message', (data) => {
      const message = JSON.parse(String(data)) as SocketMessage;
      const waiting = this.#waiting.shift();
      if (waiting === undefined) {
        this.#messages.push(message);
      } else {
        waiting(message);
      }
    });
  }

  send(type: string, payload?: unknown): void {
    this.connection.send(JSON.stringify({ type, payload }));
  }

  nextMessage(): Promise<SocketMessage> {
    const message = this.#messages.shift();
    return message === undefined
      ? new Promise((resolve) => this.#waiting.push(resolve))
      : Promise.resolve(message);
  }

  /** Received messages that were not read yet. */
  get unreadMessages(): readonly SocketMessage[] {
    return this.#messages;
  }

  /** Returns all messages sent so far: those received before the pong of a new ping. */
  async drainMessages(): Promise<SocketMessage[]> {
    this.send('ping');
    const seen: SocketMessage[] = [];
    for (
      let message = await this.nextMessage();
      message.type !== 'pong';
      message = await this.nextMessage()
    ) {
      seen.push(message);
    }
    return seen;
  }

  waitForClose(): Promise<number> {
    return this.#closed;
  }

  async close(): Promise<void> {
    this.connection.close();
    await this.#closed;
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

/** Sends a request; the response must be JSON, and match the OpenAPI document if the service sent it. */
export async function requestJson(
  base: string,
  path: string,
  init: RequestInit = {},
): Promise<ApiResponse> {
  const url = new URL(`${base}${path}`);
  const response = await fetch(url, { redirect: 'error', ...init });
  const text = await response.text();
  const answer = {
    status: response.status,
    headers: response.headers,
    body: text === '' ? null : JSON.parse(text),
  };
  assertMatchesOpenApi(init.method ?? 'GET', url.pathname, answer);
  return answer;
}
