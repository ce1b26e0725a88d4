import { type NostrKey, signRequest } from './recipients.ts';
import type { Actor } from './scheduler.ts';
import { type ClientRequest, type ClientResponse, ConnectionError } from './simulated-network.ts';
import type { World } from './world.ts';

/** A quote in a recipient's list. Times are Unix seconds. */
export interface ListedQuote {
  quoteId: string;
  mintUrl: string;
  request: string;
  amount: number;
  state: 'PAID' | 'ISSUED' | 'INFLIGHT';
  locked: boolean;
  createdAt: number;
  paidAt: number;
  expiresAt: number;
  collectBy?: number;
}

export interface ListedPage {
  quotes: ListedQuote[];
  total: number;
  offset: number;
  since: number | null;
  requestedAtMs: number;
}

/** Real wallets request a new token after this time, although it is valid for 30 minutes. */
const TOKEN_LIFETIME_MS = 5 * 60_000;

/** Sends the requests of one wallet. Each response passes the referee. */
export class WalletClient {
  readonly key: NostrKey;
  readonly address: string;
  readonly #world: World;
  readonly #actor: Actor;
  readonly #usesToken: boolean;
  #token: { text: string; atMs: number } | null = null;

  constructor(world: World, actor: Actor, key: NostrKey, usesToken: boolean) {
    this.#world = world;
    this.#actor = actor;
    this.key = key;
    this.#usesToken = usesToken;
    this.address = `192.0.2.${world.random.integer(1, 255)}`;
  }

  /**
   * Reads all pages: with fixed offsets, as npubcash-sdk does, or until one is empty, as cashu.me does. Returns null if a
   * request fails.
   */
  async readPages(since: number | null, { untilEmpty = false } = {}): Promise<ListedPage[] | null> {
    const pages: ListedPage[] = [];
    let offset = 0;
    for (;;) {
      const page = await this.readPage(offset, since);
      if (page === null) {
        return null;
      }
      pages.push(page);
      offset += untilEmpty ? page.quotes.length : 50;
      if (untilEmpty ? page.quotes.length === 0 : offset >= page.total) {
        return pages;
      }
    }
  }

  async readPage(offset: number, since: number | null): Promise<ListedPage | null> {
    const { scheduler, referee } = this.#world;
    const requestedAtMs = scheduler.nowMs;
    const query = `limit=50&offset=${offset}${since === null ? '' : `&since=${since}`}`;
    const body = await this.request({ path: `/api/v2/wallet/quotes?${query}` });
    if (body === null) {
      return null;
    }
    const page = { ...body.data, total: body.metadata.total, offset, since, requestedAtMs };
    referee.checkPage(this.key.pubkey, page);
    return page;
  }

  /** Reads quotes by their ids, as cdk-nostr 0.18 does. */
  async find(quoteIds: readonly string[]): Promise<ListedQuote[] | null> {
    const { scheduler, referee } = this.#world;
    const requestedAtMs = scheduler.nowMs;
    const path = '/api/v2/wallet/quotes/missing';
    const body = await this.request({ method: 'POST', path, body: { quoteIds } });
    if (body !== null) {
      referee.checkFound(this.key.pubkey, quoteIds, body.quotes, requestedAtMs);
    }
    return body?.quotes ?? null;
  }

  /** Sends a request. Returns the body of a successful response, otherwise null. */
  async request(request: ClientRequest): Promise<ClientResponse['body'] | null> {
    const { proxy, scheduler, referee } = this.#world;
    const requestedAtMs = scheduler.nowMs;
    try {
      const authorization = await this.#authorize(request);
      if (authorization === null) {
        return null;
      }
      const response = await proxy.request(
        { ...request, headers: { authorization } },
        this.address,
      );
      referee.checkResponse(this.#actor, request, response.status, requestedAtMs);
      return response.status === 200 ? response.body : null;
    } catch (error) {
      if (error instanceof ConnectionError) {
        return null;
      }
      throw error;
    }
  }

  async #authorize({ method = 'GET', path }: ClientRequest): Promise<string | null> {
    const { scheduler, proxy } = this.#world;
    if (!this.#usesToken || method !== 'GET') {
      return signRequest(this.key, method, path);
    }
    if (this.#token === null || scheduler.nowMs - this.#token.atMs > TOKEN_LIFETIME_MS) {
      const tokenPath = '/api/v2/auth/nip98';
      const headers = { authorization: signRequest(this.key, 'GET', tokenPath) };
      const { status, body } = await proxy.request({ path: tokenPath, headers }, this.address);
      if (status !== 200) {
        return null;
      }
      this.#token = { text: body.data.token, atMs: scheduler.nowMs };
    }
    return `Bearer ${this.#token.text}`;
  }
}
