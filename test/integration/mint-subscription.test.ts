import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { TestMint } from '../../src/demo/test-mint.ts';
import type { QuoteObservation } from '../../src/domain/quote.ts';
import { MintClient } from '../../src/mint/mint-client.ts';
import { MintSubscription, type SubscriptionTiming } from '../../src/mint/mint-subscription.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';

/** Everything at once, except for what only a dead peer meets. */
const FAST: SubscriptionTiming = {
  batchMs: 1,
  messageRefillMs: 0.01,
  firstReconnectMs: 1,
  longestReconnectMs: 2,
  rateLimitRestMs: 1,
  stableAfterMs: 0,
  pingIntervalMs: 60_000,
  shortestLifeMs: 0,
};

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const cleanup of cleanups.splice(0).reverse()) {
    await cleanup();
  }
});

describe.each(['nutshell', 'cdk'] as const)('a subscription to a mint like %s', (style) => {
  it('brings the state of a quote and then its payment', async () => {
    const mint = await TestMint.start({ switches: { style, dropLaterFacts: true } });
    cleanups.push(() => mint.close());
    const quote = await createQuote(mint);
    const { subscription, observations } = subscribe(mint.url);
    subscription.watch([quote.quoteId]);
    expect(await observations.next()).toMatchObject({ quoteId: quote.quoteId, state: 'UNPAID' });
    expect(subscription.covers(quote.quoteId)).toBe(true);
    mint.pay(quote.request);
    expect(await observations.next()).toEqual({
      quoteId: quote.quoteId,
      state: 'PAID',
      amountSat: 21,
      request: quote.request,
    });
  });

  it('hears after a broken connection what happened meanwhile', async () => {
    const mint = await TestMint.start({ switches: { style } });
    cleanups.push(() => mint.close());
    const quote = await createQuote(mint);
    const { subscription, observations, openings } = subscribe(mint.url);
    subscription.watch([quote.quoteId]);
    expect(await openings.next()).toBe(true);
    expect(await observations.next()).toMatchObject({ state: 'UNPAID' });
    mint.dropSockets();
    mint.pay(quote.request);
    expect(await openings.next()).toBe(false);
    expect(await openings.next()).toBe(true);
    let last: QuoteObservation;
    do {
      last = await observations.next();
    } while (last.state === 'UNPAID');
    expect(last.state).toBe('PAID');
  });
});

describe('a subscription', () => {
  it('opens the socket below the path of the mint, and only when there is something to watch', async () => {
    const mint = await FakeMint.start();
    const { subscription } = subscribe(`${mint.url}/Bitcoin`);
    expect(mint.paths).toEqual([]);
    subscription.watch(['a']);
    await mint.connections.next();
    expect(mint.paths).toEqual(['/Bitcoin/v1/ws']);
  });

  it('puts ids that come together into one message', async () => {
    const mint = await FakeMint.start();
    const { subscription } = subscribe(mint.url);
    subscription.watch(['a', 'b']);
    subscription.watch(['b', 'c']);
    const peer = await mint.connections.next();
    expect(await peer.calls.next()).toEqual({
      jsonrpc: '2.0',
      id: 1,
      method: 'subscribe',
      params: { kind: 'bolt11_mint_quote', subId: 'quotes-1', filters: ['a', 'b', 'c'] },
    });
  });

  it('asks for each id once', async () => {
    const { subscription, peer } = await subscribed(['a', 'b']);
    subscription.watch(['a', 'b']);
    subscription.watch(['b', 'c']);
    expect((await peer.calls.next()).params.filters).toEqual(['c']);
  });

  it('covers a quote from the confirmation on, until it is forgotten or the socket ends', async () => {
    const mint = await FakeMint.start();
    const { subscription, observations, openings } = subscribe(mint.url);
    subscription.watch(['a', 'b']);
    const peer = await mint.connections.next();
    const call = await peer.calls.next();
    expect(subscription.covers('a')).toBe(false);
    peer.confirm(call);
    await peer.heardBy(observations, 'a');
    expect([subscription.covers('a'), subscription.covers('never')]).toEqual([true, false]);
    subscription.unwatch(['a']);
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([false, true]);
    await openings.next();
    peer.socket.close();
    expect(await openings.next()).toBe(false);
    expect(subscription.covers('b')).toBe(false);
  });

  it('subscribes anew, with the ids that are still watched, after the mint closed', async () => {
    const { mint, subscription, peer } = await subscribed(['a', 'b']);
    subscription.unwatch(['a']);
    peer.socket.close();
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['b']);
  });

  it('does not come back to a mint of which nothing is watched', async () => {
    const { mint, subscription, peer, openings } = await subscribed(['a']);
    subscription.unwatch(['a']);
    peer.socket.close();
    expect(await openings.next()).toBe(true);
    expect(await openings.next()).toBe(false);
    subscription.watch(['b']);
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['b']);
    expect(mint.paths).toHaveLength(2);
  });

  it('leaves ids that the mint refused to polling', async () => {
    const { subscription, peer, observations } = await subscribed(['a']);
    subscription.watch(['b']);
    peer.refuse(await peer.calls.next());
    await peer.heardBy(observations, 'a');
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([true, false]);
    subscription.watch(['b', 'c']);
    expect((await peer.calls.next()).params.filters).toEqual(['c']);
  });

  it('takes a confirmation without an OK for a refusal', async () => {
    const { subscription, peer, observations } = await subscribed(['a']);
    subscription.watch(['b']);
    const { id } = await peer.calls.next();
    peer.send({ jsonrpc: '2.0', id, result: { status: 'ERROR' } });
    await peer.heardBy(observations, 'a');
    expect(subscription.covers('b')).toBe(false);
  });

  it('ignores what is malformed, unknown or of quotes that nobody watches', async () => {
    const { peer, observations } = await subscribed(['a']);
    peer.sendText('this is not JSON');
    peer.sendText('null');
    peer.send([]);
    peer.send({ jsonrpc: '2.0', id: 99, result: { status: 'OK', subId: 'x' } });
    peer.send({ jsonrpc: '2.0', id: 0, error: { code: -32700, message: 'Error' } });
    peer.send({ jsonrpc: '2.0', method: 'subscribe', params: {} });
    peer.send({ jsonrpc: '2.0', method: 'subscribe', params: { payload: { quote: 'a' } } });
    peer.send({ jsonrpc: '2.0', method: 'other', params: { payload: { quote: 'a' } } });
    peer.socket.send(Buffer.from([1, 2, 3]));
    peer.notify({ quote: 'stranger', state: 'PAID' });
    peer.notify({ quote: 'a', state: 'SOMETHING' });
    peer.notify({ quote: 'a', state: 'PENDING' });
    expect(await observations.next()).toEqual({ quoteId: 'a', state: 'INFLIGHT' });
    expect(observations.size).toBe(0);
  });

  it('hands over what comes together in lots, every word of it in order', async () => {
    const ids = idsOf('quote', 600);
    const { peer, lots } = await subscribed(ids);
    peer.notify({ quote: 'quote-0', state: 'PAID' });
    for (const quote of ids) {
      peer.notify({ quote, state: 'UNPAID' });
    }
    const received: QuoteObservation[] = [];
    while (received.length < 601) {
      const lot = await lots.next();
      expect(lot.length).toBeLessThanOrEqual(500);
      received.push(...lot);
    }
    expect(received.slice(0, 3).map(({ quoteId, state }) => [quoteId, state])).toEqual([
      ['quote-0', 'PAID'],
      ['quote-0', 'UNPAID'],
      ['quote-1', 'UNPAID'],
    ]);
  });

  it('gives the newest quotes the room that there is, and keeps some for those to come', async () => {
    const ids = idsOf('quote', 1_200);
    const { subscription, peer, observations, first } = await subscribed(ids);
    expect(first.params.filters).toEqual(ids.slice(-750));
    subscription.watch(['newcomer']);
    const call = await peer.calls.next();
    expect(call.params.filters).toEqual(['newcomer']);
    peer.confirm(call);
    await peer.heardBy(observations, 'newcomer');
    expect(subscription.covers('newcomer')).toBe(true);
    expect(subscription.covers('quote-1199')).toBe(true);
    expect(subscription.covers('quote-0')).toBe(false);
  });

  it('opens a new connection before one has had a thousand ids in its life', async () => {
    const { mint, subscription, peer, openings } = await subscribed(idsOf('old', 700));
    expect(await openings.next()).toBe(true);
    subscription.unwatch(idsOf('old', 700));
    const ids = idsOf('new', 700);
    subscription.watch(ids);
    expect((await peer.calls.next()).params.filters).toEqual(ids.slice(-300));
    const ended = once(peer.socket, 'close');
    const next = await mint.connections.next();
    const call = await next.calls.next();
    expect(call.params.filters).toEqual(ids);
    await ended;
    expect([await openings.next(), await openings.next()]).toEqual([false, true]);
  });

  it('opens a new connection before one has had more than a hundred subscriptions', async () => {
    const { mint, subscription, peer } = await subscribed(['quote-0']);
    for (const id of idsOf('quote', 100).slice(1)) {
      subscription.watch([id]);
      await peer.calls.next();
    }
    subscription.watch(['one-more']);
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toHaveLength(101);
    expect(peer.calls.size).toBe(0);
  });

  it('finds out a peer that has died without a word', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const mint = await FakeMint.start({ autoPong: false });
    const { subscription, openings } = subscribe(mint.url, { pingIntervalMs: 30_000 });
    subscription.watch(['a']);
    expect(await openings.next()).toBe(true);
    vi.advanceTimersByTime(30_000);
    vi.advanceTimersByTime(30_000);
    expect([await openings.next(), await openings.next()]).toEqual([false, true]);
  });

  it('keeps a peer that answers pings', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const { mint, peer, observations } = await subscribed(['a'], { pingIntervalMs: 30_000 });
    await peer.heardBy(observations, 'a');
    for (let ping = 0; ping < 5; ping += 1) {
      const heard = once(peer.socket, 'ping');
      vi.advanceTimersByTime(30_000);
      await heard;
      await peer.heardBy(observations, 'a');
    }
    expect(mint.paths).toHaveLength(1);
  });

  it('sends a few messages at once and then no more than the mint allows', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const { subscription, peer, observations } = await subscribed(['quote-0'], {
      messageRefillMs: 5_000,
    });
    for (const id of idsOf('quote', 5).slice(1)) {
      subscription.watch([id]);
      vi.advanceTimersByTime(1);
      await peer.calls.next();
    }
    subscription.watch(['late-1']);
    subscription.watch(['late-2']);
    vi.advanceTimersByTime(4_990);
    await peer.heardBy(observations, 'quote-0');
    expect(peer.calls.size).toBe(0);
    vi.advanceTimersByTime(10);
    expect((await peer.calls.next()).params.filters).toEqual(['late-1', 'late-2']);
  });

  it.each([429, 500])(
    'leaves a mint alone for over a minute that refuses with %i',
    async (status) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
      const mint = await FakeMint.start();
      mint.refusal = status;
      const { subscription, endings } = subscribe(mint.url, { rateLimitRestMs: 65_000 });
      subscription.watch(['a']);
      vi.advanceTimersByTime(1);
      expect(await endings.next()).toEqual({ refusedStatus: status, restMs: 65_000 });
      mint.refusal = null;
      vi.advanceTimersByTime(64_999);
      expect(mint.paths).toHaveLength(1);
      vi.advanceTimersByTime(1);
      await mint.connections.next();
    },
  );

  it('comes back more and more slowly to a mint that is away', async () => {
    const mint = await FakeMint.start();
    mint.refusal = 404;
    const { subscription, endings } = subscribe(mint.url, {
      firstReconnectMs: 2,
      longestReconnectMs: 16,
    });
    subscription.watch(['a']);
    for (const longest of [2, 4, 8, 16, 16]) {
      const { restMs } = await endings.next();
      expect(restMs).toBeGreaterThanOrEqual(longest / 2);
      expect(restMs).toBeLessThanOrEqual(longest);
    }
  });

  it('is quiet and gone after it was closed', async () => {
    const { mint, subscription, peer, lots, openings } = await subscribed(['a']);
    expect(await openings.next()).toBe(true);
    const ended = once(peer.socket, 'close');
    peer.notify({ quote: 'a', state: 'PAID' });
    await subscription.close();
    await ended;
    subscription.watch(['b']);
    expect([subscription.covers('a'), lots.size, openings.size]).toEqual([false, 0, 0]);
    expect(mint.paths).toHaveLength(1);
  });

  it('can be closed while it connects, rests, or has never connected', async () => {
    const mint = await FakeMint.start();
    await subscribe(mint.url).subscription.close();
    const connecting = subscribe(mint.url, { batchMs: 0 });
    connecting.subscription.watch(['a']);
    await connecting.connected.next();
    await connecting.subscription.close();
    mint.refusal = 503;
    const resting = subscribe(mint.url, { firstReconnectMs: 60_000, longestReconnectMs: 60_000 });
    resting.subscription.watch(['a']);
    await resting.endings.next();
    await resting.subscription.close();
  });
});

/** A subscription to a fake mint that has confirmed these ids. */
async function subscribed(quoteIds: string[], timing: Partial<SubscriptionTiming> = {}) {
  const mint = await FakeMint.start();
  const harness = subscribe(mint.url, timing);
  harness.subscription.watch(quoteIds);
  if (vi.isFakeTimers() && timing.pingIntervalMs === undefined) {
    vi.advanceTimersByTime(1);
  }
  const peer = await mint.connections.next();
  const first = await peer.calls.next();
  peer.confirm(first);
  return { mint, peer, first, ...harness };
}

function subscribe(mintUrl: string, timing: Partial<SubscriptionTiming> = {}) {
  const lots = new Inbox<QuoteObservation[]>();
  const observations = new Inbox<QuoteObservation>();
  const openings = new Inbox<boolean>();
  const endings = new Inbox<{ refusedStatus: number | null; restMs: number }>();
  const connected = new Inbox<string>();
  const connect = guardedSocketConnector({ allowPrivateNetworks: true });
  const subscription = new MintSubscription({
    mintUrl,
    connect: (url) => {
      connected.put(url);
      return connect(url);
    },
    onObservations: (lot) => {
      lots.put(lot);
      for (const observation of lot) {
        observations.put(observation);
      }
    },
    clock: Date.now,
    logger: {
      debug: (fields: { refusedStatus: number | null; restMs?: number; isOpen?: boolean }) => {
        if (fields.isOpen !== undefined) {
          openings.put(fields.isOpen);
        }
        if (fields.restMs !== undefined) {
          endings.put({ refusedStatus: fields.refusedStatus, restMs: fields.restMs });
        }
      },
    },
    timing: { ...FAST, ...timing },
  });
  cleanups.push(() => subscription.close());
  return { subscription, lots, observations, openings, endings, connected };
}

async function createQuote(mint: TestMint) {
  const guarded = new GuardedFetch({ allowPrivateNetworks: true });
  cleanups.push(() => guarded.close());
  const client = new MintClient({ fetch: guarded, clock: Date.now });
  const answer = await client.createQuote(mint.url, { amountSat: 21 });
  if (answer.outcome !== 'created') {
    throw new Error(answer.outcome);
  }
  return answer.quote;
}

function idsOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

/** What arrives, in order, for a test that waits for it. */
class Inbox<T> {
  readonly #arrived: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  get size(): number {
    return this.#arrived.length;
  }

  put(item: T): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) {
      this.#arrived.push(item);
    } else {
      waiting(item);
    }
  }

  async next(): Promise<T> {
    return this.#arrived.length > 0
      ? (this.#arrived.shift() as T)
      : await new Promise((resolve) => this.#waiting.push(resolve));
  }
}

interface Call {
  id: number;
  method: string;
  params: { kind: string; subId: string; filters: string[] };
}

/** The mint's end of one connection. */
class Peer {
  readonly calls = new Inbox<Call>();
  readonly socket: WebSocket;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => this.calls.put(JSON.parse(String(data)) as Call));
    socket.on('error', () => {});
  }

  confirm({ id, params: { subId } }: Call): void {
    this.send({ jsonrpc: '2.0', id, result: { status: 'OK', subId } });
  }

  refuse({ id }: Call): void {
    this.send({ jsonrpc: '2.0', id, error: { code: -32602, message: 'Invalid params' } });
  }

  notify(payload: { quote: string; state: string }): void {
    this.send({ jsonrpc: '2.0', method: 'subscribe', params: { subId: 'any', payload } });
  }

  /** Resolves when all that was sent before has been read at the other end. */
  async heardBy(observations: Inbox<QuoteObservation>, watchedId: string): Promise<void> {
    this.notify({ quote: watchedId, state: 'UNPAID' });
    await observations.next();
  }

  send(message: unknown): void {
    this.sendText(JSON.stringify(message));
  }

  sendText(text: string): void {
    this.socket.send(text);
  }
}

/** A mint that does nothing but take sockets; the test speaks for it. */
class FakeMint {
  readonly connections = new Inbox<Peer>();
  readonly paths: string[] = [];
  readonly url: string;
  /** HTTP status with which handshakes are refused. */
  refusal: number | null = null;

  static async start(options: { autoPong?: boolean } = {}): Promise<FakeMint> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FakeMint(server, new WebSocketServer({ noServer: true, ...options }));
  }

  private constructor(server: Server, sockets: WebSocketServer) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('upgrade', (request, socket, head) => {
      this.paths.push(request.url ?? '');
      if (this.refusal !== null) {
        socket.end(`HTTP/1.1 ${this.refusal} No\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      sockets.handleUpgrade(request, socket, head, (peer) => this.connections.put(new Peer(peer)));
    });
    cleanups.push(() => {
      for (const peer of sockets.clients) {
        peer.terminate();
      }
      server.close();
    });
  }
}
