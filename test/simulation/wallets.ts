import { type NostrKey, signRequest } from './recipients.ts';
import { Actor } from './scheduler.ts';
import { type ClientResponse, type ClientSocket, ConnectionError } from './simulated-network.ts';
import type { World } from './world.ts';

/** A quote in a recipient's list. Times are Unix seconds. */
export interface ListedQuote {
  quoteId: string;
  mintUrl: string;
  amount: number;
  state: 'PAID' | 'ISSUED' | 'INFLIGHT';
  createdAt: number;
  paidAt: number;
}

/** How existing wallets read the list. */
export const WALLET_KINDS = ['npubcash-sdk', 'coco', 'cdk', 'cashu.me', 'nutshell'] as const;

export type WalletKind = (typeof WALLET_KINDS)[number];

/** A socket of a wallet, as the wallet saw it. Times are virtual milliseconds. */
export interface SocketSession {
  pubkey: string;
  authenticatedAtMs: number | null;
  closedAtMs: number | null;
  /** The client stopped to read, as a phone that sleeps. */
  isSilent: boolean;
  updates: Map<string, number>;
}

/** A wallet on one device: reads the list, listens for updates, and redeems what it finds. */
export class Wallet {
  readonly key: NostrKey;
  readonly kind: WalletKind;
  readonly actor: Actor;
  readonly sessions: SocketSession[] = [];
  readonly known = new Map<string, ListedQuote>();
  readonly #world: World;
  readonly #address: string;
  readonly #redeems: 'at once' | 'late' | 'never';
  readonly #usesSocket: boolean;
  #jwt: { token: string; atMs: number } | null = null;
  #since: number | null = null;
  #isSyncing = false;
  #needsSync = false;
  #socket: ClientSocket | null = null;
  #attempts = 0;

  constructor(world: World, name: string, key: NostrKey, kind: WalletKind) {
    this.#world = world;
    this.key = key;
    this.kind = kind;
    this.actor = new Actor(name);
    const { random } = world;
    this.#address = `192.0.2.${random.integer(1, 255)}`;
    this.#redeems = random.pick(['at once', 'at once', 'late', 'never']);
    this.#usesSocket = ['npubcash-sdk', 'coco'].includes(kind) && random.chance(0.8);
  }

  start(): void {
    const { scheduler } = this.#world;
    scheduler.start(this.actor, async () => {
      await scheduler.sleep(this.#world.random.between(0, 2_000));
      if (this.#usesSocket) {
        this.#connect();
      }
      for (;;) {
        await this.sync();
        await scheduler.sleep(this.#world.random.between(30_000, 120_000));
      }
    });
  }

  /** Reads new payments in the wallet's own way. Repeats if an update arrives meanwhile. */
  async sync(): Promise<void> {
    this.#needsSync = true;
    if (this.#isSyncing) {
      return;
    }
    this.#isSyncing = true;
    try {
      while (this.#needsSync) {
        this.#needsSync = false;
        await this.#readNew();
      }
    } catch (error) {
      if (!(error instanceof ConnectionError)) {
        throw error;
      }
    } finally {
      this.#isSyncing = false;
    }
  }

  /** Reads the whole list, as after an installation. Returns null if a request fails. */
  async readAll(): Promise<ListedQuote[] | null> {
    const { scheduler, referee } = this.#world;
    const startedAtMs = scheduler.nowMs;
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += 50) {
      const page = await this.#readPage(`limit=50&offset=${offset}`);
      if (page === null) {
        return null;
      }
      quotes.push(...page.quotes);
      if (offset + 50 >= page.total) {
        // Pages that payments have shifted meanwhile contain the same quote twice.
        const unique = new Map(quotes.map((quote) => [quote.quoteId, quote]));
        referee.checkWholeList(this.key.pubkey, [...unique.values()], startedAtMs);
        return [...unique.values()];
      }
    }
  }

  async #readNew(): Promise<void> {
    const since = this.#since === null ? '' : `&since=${this.#since}`;
    let found: ListedQuote[] | null;
    if (this.kind === 'npubcash-sdk') {
      found = await this.readAll();
    } else if (this.kind === 'nutshell') {
      found = (await this.#readPage('limit=50'))?.quotes ?? null;
    } else if (this.kind === 'cashu.me') {
      found = await this.#readUntilEmpty(since);
    } else {
      found = await this.#readFixedPages(since);
    }
    if (found === null) {
      return;
    }
    // coco ignores quotes that are not later than its watermark.
    const accepted =
      this.kind === 'coco' ? found.filter(({ paidAt }) => paidAt > (this.#since ?? -1)) : found;
    for (const quote of accepted) {
      const isNew = !this.known.has(quote.quoteId);
      this.known.set(quote.quoteId, quote);
      if (isNew && quote.state === 'PAID') {
        this.#redeem(quote);
      }
    }
    this.#since = this.#nextSince(accepted);
  }

  #nextSince(quotes: readonly ListedQuote[]): number | null {
    const newest = (times: number[]) => Math.max(this.#since ?? 0, ...times);
    switch (this.kind) {
      case 'coco':
        return newest(quotes.map(({ paidAt }) => paidAt));
      case 'cdk':
        return newest(quotes.map(({ createdAt }) => createdAt));
      case 'cashu.me':
        return newest(quotes.map(({ paidAt }) => paidAt - 1));
      default:
        return null;
    }
  }

  async #readFixedPages(since: string): Promise<ListedQuote[] | null> {
    const quotes: ListedQuote[] = [];
    for (let offset = 0; ; offset += 50) {
      const page = await this.#readPage(`limit=50&offset=${offset}${since}`);
      if (page === null) {
        return null;
      }
      quotes.push(...page.quotes);
      if (offset + 50 >= page.total) {
        return quotes;
      }
    }
  }

  async #readUntilEmpty(since: string): Promise<ListedQuote[] | null> {
    const quotes: ListedQuote[] = [];
    for (;;) {
      const page = await this.#readPage(`limit=50&offset=${quotes.length}${since}`);
      if (page === null) {
        return null;
      }
      quotes.push(...page.quotes);
      if (page.quotes.length === 0) {
        return quotes;
      }
    }
  }

  /** Returns null if the request fails. */
  async #readPage(query: string): Promise<{ quotes: ListedQuote[]; total: number } | null> {
    const { scheduler, referee } = this.#world;
    const requestedAtMs = scheduler.nowMs;
    const response = await this.request('GET', `/api/v2/wallet/quotes?${query}`);
    if (response?.status !== 200) {
      return null;
    }
    const { data, metadata } = response.body;
    referee.checkPage(this.key.pubkey, data.quotes, requestedAtMs);
    return { quotes: data.quotes, total: metadata.total };
  }

  /** Sends an authenticated request. Returns null if the connection fails. */
  async request(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    body?: object,
  ): Promise<ClientResponse | null> {
    const { proxy } = this.#world;
    try {
      const authorization = await this.#authorize(method, path);
      if (authorization === null) {
        return null;
      }
      const headers = { authorization };
      const response = await proxy.request(
        { method, path, headers, ...(body && { body }) },
        this.#address,
      );
      if (response.status === 401) {
        this.#jwt = null;
      }
      return response;
    } catch (error) {
      if (error instanceof ConnectionError) {
        return null;
      }
      throw error;
    }
  }

  async #authorize(method: string, path: string): Promise<string | null> {
    const { scheduler, proxy } = this.#world;
    if (this.kind === 'cashu.me' || this.kind === 'nutshell') {
      return signRequest(this.key, method, path);
    }
    if (this.#jwt === null || scheduler.nowMs - this.#jwt.atMs > 5 * 60_000) {
      const tokenPath = '/api/v2/auth/nip98';
      const headers = { authorization: signRequest(this.key, 'GET', tokenPath) };
      const { status, body } = await proxy.request({ path: tokenPath, headers }, this.#address);
      if (status !== 200) {
        return null;
      }
      this.#jwt = { token: body.data.token, atMs: scheduler.nowMs };
    }
    return `Bearer ${this.#jwt.token}`;
  }

  #redeem({ quoteId, mintUrl }: ListedQuote): void {
    const { scheduler, random, mints } = this.#world;
    if (this.#redeems === 'never') {
      return;
    }
    const mint = mints.find(({ url }) => url === mintUrl);
    const delayMs =
      this.#redeems === 'late' ? random.exponential(300_000) : random.between(50, 500);
    scheduler.schedule(delayMs, () => void mint?.issue(quoteId), mint?.actor);
  }

  #connect(): void {
    const { scheduler, proxy, random, faults } = this.#world;
    const session: SocketSession = {
      pubkey: this.key.pubkey,
      authenticatedAtMs: null,
      closedAtMs: null,
      isSilent: false,
      updates: new Map(),
    };
    this.sessions.push(session);
    const socket = proxy.openSocket(this.#address, {
      onMessage: (text) => this.#handleMessage(session, socket, text),
      onClose: () => {
        session.closedAtMs = scheduler.nowMs;
        this.#attempts += 1;
        const pauseMs = Math.min(1_000 * 2 ** this.#attempts, 30_000);
        scheduler.schedule(pauseMs * random.between(0.5, 1), () => this.#connect());
      },
    });
    this.#socket = socket;
    if (faults.choose('silent sockets', 0.05)) {
      scheduler.schedule(random.between(1_000, 60_000), () => {
        session.isSilent = true;
        socket.fallSilent();
      });
    }
  }

  #handleMessage(session: SocketSession, socket: ClientSocket, text: string): void {
    const { scheduler, referee, history } = this.#world;
    history.add(this.actor, () => `receives ${text}`);
    const { type, payload } = JSON.parse(text);
    if (type === 'challenge') {
      const path = new URL(payload.url).pathname;
      const payloadText = signRequest(this.key, payload.method, path);
      socket.send(JSON.stringify({ type: 'challenge-response', payload: payloadText }));
    } else if (type === 'challenge-success') {
      session.authenticatedAtMs = scheduler.nowMs;
      this.#attempts = 0;
      void this.sync();
    } else if (type === 'update') {
      referee.checkUpdate(this.key.pubkey, payload.quoteId);
      session.updates.set(payload.quoteId, scheduler.nowMs);
      void this.sync();
    }
  }

  get hasSocket(): boolean {
    return this.#socket !== null;
  }
}
