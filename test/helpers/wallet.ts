import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { WebSocket } from 'ws';
import { expectDescribed } from './api-description.ts';

/** What a NIP-98 event says, where it should differ from what is right. */
export interface SigningOptions {
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
  readonly base: string;
  readonly #now: () => number;

  /**
   * @param base the public origin of the service
   * @param now the clock of its signatures, milliseconds since 1970
   */
  constructor(base: string, now: () => number = Date.now, secretKey = generateSecretKey()) {
    this.base = base;
    this.#now = now;
    this.secretKey = secretKey;
    this.pubkey = getPublicKey(secretKey);
    this.npub = nip19.npubEncode(this.pubkey);
  }

  at(base: string): TestWallet {
    return new TestWallet(base, this.#now, this.secretKey);
  }

  /** The `Authorization` value of a request (NIP-98), by default for now and signed rightly. */
  sign(path: string, method = 'GET', options: SigningOptions = {}): string {
    return `Nostr ${Buffer.from(JSON.stringify(this.signedEvent(path, method, options))).toString('base64')}`;
  }

  signedEvent(path: string, method: string, options: SigningOptions = {}) {
    return finalizeEvent(
      {
        kind: options.kind ?? 27_235,
        created_at: options.createdAt ?? Math.floor(this.#now() / 1000),
        content: '',
        tags: [
          ['u', options.url ?? `${this.base}${path.replace(/\?.*$/, '')}`],
          ['method', options.method ?? method],
          ...(options.tags ?? []),
        ],
      },
      this.secretKey,
    );
  }

  get(path: string): Promise<ApiAnswer> {
    return request(this.base, path, { headers: { authorization: this.sign(path) } });
  }

  send(method: 'PATCH' | 'POST', path: string, body: unknown): Promise<ApiAnswer> {
    return request(this.base, path, {
      method,
      headers: { authorization: this.sign(path, method), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  /** All paid quotes, page by page as today's SDK reads them. */
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

  async openSocket(): Promise<TestSocket> {
    const socket = new TestSocket(this.base);
    const challenge = await socket.next();
    socket.send('challenge-response', this.sign('', 'GET', challenge.payload));
    const answer = await socket.next();
    if (answer.type !== 'challenge-success') {
      throw new Error(`the socket was not accepted: ${JSON.stringify(answer)}`);
    }
    return socket;
  }
}

/** A quote WebSocket as a client sees it; messages wait until they are asked for. */
export class TestSocket {
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

  next(): Promise<SocketMessage> {
    const message = this.#messages.shift();
    return message === undefined
      ? new Promise((resolve) => this.#waiting.push(resolve))
      : Promise.resolve(message);
  }

  /** Messages that came and were not asked for. */
  get unread(): readonly SocketMessage[] {
    return this.#messages;
  }

  /** Everything that came before the answer to a ping: what was sent until now, and nothing later. */
  async drain(): Promise<SocketMessage[]> {
    this.send('ping');
    const seen: SocketMessage[] = [];
    for (let message = await this.next(); message.type !== 'pong'; message = await this.next()) {
      seen.push(message);
    }
    return seen;
  }

  closed(): Promise<number> {
    return this.#closed;
  }

  async close(): Promise<void> {
    this.connection.close();
    await this.#closed;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tests assert the shape of what comes.
type Json = any;

export interface SocketMessage {
  type: string;
  payload?: Json;
}

export interface ApiAnswer {
  status: number;
  headers: Headers;
  body: Json;
}

/** Any request; the answer must be JSON, and what a service of ours answers as its API is described. */
export async function request(
  base: string,
  path: string,
  init: RequestInit = {},
): Promise<ApiAnswer> {
  const url = new URL(`${base}${path}`);
  const response = await fetch(url, { redirect: 'error', ...init });
  const text = await response.text();
  const answer = {
    status: response.status,
    headers: response.headers,
    body: text === '' ? null : JSON.parse(text),
  };
  expectDescribed(init.method ?? 'GET', url.pathname, answer);
  return answer;
}
