import { once } from 'node:events';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { WebSocket } from 'ws';
import type { TestMintOptions } from '../../demo/test-mint/state.ts';
import { TestMint } from '../../demo/test-mint.ts';
import type { MintAnomaly } from '../../src/mints/mint-anomalies.ts';
import {
  MintSubscription,
  SUBSCRIPTION_TIMING,
  type SubscriptionTiming,
} from '../../src/mints/mint-subscription.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { HostSlots } from '../../src/net/host-slots.ts';
import type { QuoteObservation } from '../../src/mints/quote-answer.ts';
import { FakeMint, Inbox, notification, type Peer } from '../helpers/fake-socket-mint.ts';
import { createLimiter } from '../helpers/test-limiter.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** Without delays, except for those that concern a peer that is dead or misbehaves. */
const FAST: SubscriptionTiming = {
  ...SUBSCRIPTION_TIMING,
  batchMs: 1,
  firstReconnectMs: 1,
  longestReconnectMs: 2,
  floodRestMs: 1,
  stableAfterMs: 0,
};

// Before cleanups of `onTestFinished`, which need real time.
afterEach(() => void vi.useRealTimers());

describe.each(['nutshell', 'cdk'] as const)('a subscription to a mint like %s', (style) => {
  it('reports the state of a quote and then its payment', async () => {
    const mint = await startMint({ switches: { style, dropLaterFacts: true } });
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

  it('reports after a reconnect what happened while it was disconnected', async () => {
    const mint = await startMint({ switches: { style } });
    const quote = await createQuote(mint);
    const { subscription, observations } = subscribe(mint.url);
    subscription.watch([quote.quoteId]);
    expect(await observations.next()).toMatchObject({ state: 'UNPAID' });
    mint.dropSockets();
    mint.pay(quote.request);
    expect(await observations.next()).toMatchObject({ state: 'PAID' });
  });
});

describe('a subscription', () => {
  it('opens the socket below the path of the mint when the first quote is watched', async () => {
    const mint = await FakeMint.start();
    const { subscription } = subscribe(`${mint.url}/Bitcoin`);
    expect(mint.paths).toEqual([]);
    subscription.watch(['a']);
    await mint.connections.next();
    expect(mint.paths).toEqual(['/Bitcoin/v1/ws']);
  });

  it('subscribes a quote at once, and those of the next 50 ms with one message', async () => {
    useFakeTime();
    const { subscription, peer } = await subscribed(['first'], SUBSCRIPTION_TIMING);
    subscription.watch(['a', 'b']);
    vi.advanceTimersByTime(49);
    subscription.watch(['b', 'c']);
    expect(peer.calls.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect(await peer.calls.next()).toEqual({
      jsonrpc: '2.0',
      id: 2,
      method: 'subscribe',
      params: { kind: 'bolt11_mint_quote', subId: 'quotes-2', filters: ['a', 'b', 'c'] },
    });
    await passTime(SECOND);
    subscription.watch(['d']);
    expect((await peer.calls.next()).params.filters).toEqual(['d']);
  });

  it('sends fewer messages on a connection that has had many', async () => {
    useFakeTime();
    const { mint, subscription, peer } = await subscribed(['first'], SUBSCRIPTION_TIMING);
    const subscribedIds: string[] = [];
    for (let count = 0; count < 600; count += 1) {
      subscription.watch([`quote-${count}`]);
      vi.advanceTimersByTime(50);
      await turn();
      for (const call of peer.calls.takeAll()) {
        subscribedIds.push(...call.params.filters);
        peer.confirm(call);
      }
    }
    expect(mint.paths).toHaveLength(1);
    expect(subscribedIds.length).toBeGreaterThan(580);
  });

  it('covers a quote from its first report until the socket ends', async () => {
    const { subscription, peer, observations, closings } = await subscribed(['a', 'b']);
    expect(subscription.covers('a')).toBe(false);
    peer.notify('a', 'UNPAID');
    await observations.next();
    expect(['a', 'b', 'c'].map((id) => subscription.covers(id))).toEqual([true, false, false]);
    peer.socket.close();
    await closings.next();
    expect(subscription.covers('a')).toBe(false);
  });

  it('resubscribes the quotes that are still watched after the mint closed the socket', async () => {
    const { mint, subscription, peer } = await subscribed(['a', 'b']);
    subscription.unwatch(['a']);
    peer.socket.close();
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['b']);
  });

  it('does not reconnect while nothing is watched', async () => {
    const { mint, subscription, peer, closings } = await subscribed(['a']);
    subscription.unwatch(['a']);
    peer.socket.close();
    await closings.next();
    subscription.watch(['b']);
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['b']);
    expect(mint.paths).toHaveLength(2);
  });

  it.each([
    ['an error', { error: { code: -32602, message: 'Invalid params' } }],
    ['a confirmation without OK', { result: { status: 'ERROR' } }],
  ])('leaves quotes that the mint rejects with %s to polling', async (_what, answer) => {
    const { subscription, peer, answers } = await subscribed(['a']);
    subscription.watch(['b']);
    const { id } = await peer.calls.next();
    peer.send({ jsonrpc: '2.0', id, ...answer });
    expect(await answers.next()).toBe('rejected');
    expect(subscription.covers('b')).toBe(false);
    subscription.watch(['b', 'c']);
    expect((await peer.calls.next()).params.filters).toEqual(['c']);
  });

  it('ignores messages that are malformed, unknown or about other quotes', async () => {
    const { subscription, peer, observations, anomalies } = await subscribed(['a', 'unwatched']);
    subscription.unwatch(['unwatched']);
    peer.sendText('this is not JSON');
    for (const message of [
      null,
      [],
      { jsonrpc: '2.0', id: 99, result: { status: 'OK', subId: 'x' } },
      { jsonrpc: '2.0', id: 0, error: { code: -32700, message: 'Error' } },
      { jsonrpc: '2.0', method: 'subscribe', params: {} },
      { jsonrpc: '2.0', method: 'subscribe', params: { payload: { quote: 'a' } } },
      { jsonrpc: '2.0', method: 'other', params: { payload: { quote: 'a', state: 'PAID' } } },
    ]) {
      peer.send(message);
    }
    peer.socket.send(Buffer.from(JSON.stringify(notification('a', 'PAID'))));
    peer.notify('stranger', 'PAID');
    peer.notify('unwatched', 'PAID');
    peer.notify('a', 'SOMETHING');
    peer.notify('a', 'PENDING');
    expect(await observations.next()).toEqual({ quoteId: 'a', state: 'INFLIGHT' });
    expect(observations.size).toBe(0);
    expect(anomalies.takeAll()).toEqual(['unasked']);
  });

  it('reports each state once, and once more on a new connection', async () => {
    const { mint, peer, observations } = await subscribed(['a']);
    for (const state of ['UNPAID', 'UNPAID', 'PAID', 'PAID', 'UNPAID']) {
      peer.notify('a', state);
    }
    for (const state of ['UNPAID', 'PAID', 'UNPAID']) {
      expect(await observations.next()).toMatchObject({ state });
    }
    peer.socket.close();
    const next = await mint.connections.next();
    next.confirm(await next.calls.next());
    next.notify('a', 'UNPAID');
    expect(await observations.next()).toMatchObject({ state: 'UNPAID' });
    expect(observations.size).toBe(0);
  });

  it('reconnects with exponential backoff while the mint is down', async () => {
    const mint = await FakeMint.start();
    mint.refusal = 404;
    const { subscription, closings } = subscribe(mint.url, {
      firstReconnectMs: 2,
      longestReconnectMs: 16,
      stableAfterMs: MINUTE,
    });
    subscription.watch(['a']);
    for (const longestMs of [2, 4, 8, 16, 16]) {
      const reconnectInMs = await closings.next();
      expect(reconnectInMs).toBeGreaterThanOrEqual(longestMs / 2);
      expect(reconnectInMs).toBeLessThanOrEqual(longestMs);
    }
    mint.refusal = null;
    const peer = await mint.connections.next();
    expect((await peer.calls.next()).params.filters).toEqual(['a']);
  });

  it('replaces a connection whose peer no longer answers pings', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { mint, closings } = await subscribed(['a'], {}, { autoPong: false });
    vi.advanceTimersByTime(30 * SECOND);
    vi.advanceTimersByTime(30 * SECOND);
    await closings.next();
    vi.advanceTimersByTime(2);
    await mint.connections.next();
  });

  it('replaces a connection on which the mint does not answer a subscription', async () => {
    useFakeTime();
    const { mint, subscription, peer, answers, closings } = await subscribed(['a']);
    subscription.watch(['b']);
    vi.advanceTimersByTime(1);
    await peer.calls.next();
    vi.advanceTimersByTime(15 * SECOND);
    expect(await answers.next()).toBe('unanswered');
    await closings.next();
    vi.advanceTimersByTime(2);
    const next = await mint.connections.next();
    const filters = (await next.calls.next()).params.filters;
    expect(filters).toEqual(['a', 'b']);
  });
});

describe('a full connection', () => {
  it('stays open beside the next one, and both report', async () => {
    const { mint, subscription, peer, observations } = await full('old');
    subscription.watch(['new']);
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['new']);
    peer.notify('old-999', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'old-999', state: 'PAID' });
    next.notify('new', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'new', state: 'PAID' });
    expect(subscription.covers('old-999')).toBe(true);
  });

  it('has had a hundred subscriptions', async () => {
    const { mint, subscription, peer } = await subscribed(['quote-0']);
    for (const quoteId of idsOf('quote', 100).slice(1)) {
      subscription.watch([quoteId]);
      peer.confirm(await peer.calls.next());
    }
    subscription.watch(['one-more']);
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['one-more']);
    expect(peer.calls.size).toBe(0);
  });

  it('is closed for a fourth one, and its quotes are left to polling', async () => {
    const harness = await full('first');
    const { mint, subscription, closings } = harness;
    const ended = once(harness.peer.socket, 'close');
    for (const name of ['second', 'third']) {
      subscription.watch([name]);
      await fill({ ...harness, peer: await nextConnection(harness) }, idsOf(name, 999));
    }
    subscription.watch(['fourth']);
    const last = await nextConnection(harness);
    await ended;
    expect([mint.paths.length, closings.size, last.calls.size]).toEqual([4, 0, 0]);
  });

  it('that is lost leaves room for new quotes on the next one', async () => {
    const harness = await full('quote');
    harness.peer.socket.terminate();
    const next = await harness.mint.connections.next();
    const { filters } = (await next.calls.next()).params;
    expect(filters).toEqual(idsOf('quote', 1_000).slice(-750));
  });

  it('leaves out older quotes rather than one that was just created', async () => {
    const mint = await FakeMint.start();
    const { subscription } = subscribe(mint.url);
    subscription.watch(['new']);
    subscription.watchOlder(idsOf('old', 1_000));
    const { filters } = (await (await mint.connections.next()).calls.next()).params;
    expect(filters).toEqual([...idsOf('old', 1_000).slice(-749), 'new']);
  });
});

describe('a mint that limits messages', () => {
  it.each([429, 500])(
    'is connected to again after 2 s if it refuses a handshake with %i',
    async (status) => {
      useFakeTime();
      const mint = await FakeMint.start();
      mint.refusal = status;
      const { subscription, closings } = subscribe(mint.url);
      subscription.watch(['a']);
      vi.advanceTimersByTime(1);
      await closings.next();
      mint.refusal = null;
      await passTime(2 * SECOND - 10);
      expect(mint.paths).toHaveLength(1);
      await passTime(100);
      const peer = await mint.connections.next();
      expect((await peer.calls.next()).params.filters).toEqual(['a']);
    },
  );

  it.each([
    ['no message', 0, 'Error: Rate limit exceeded'],
    ['the message', 2, 'RATE LIMIT reached, try later'],
  ])(
    'gets rejected quotes again on the same connection after 2 s if it names %s',
    async (_what, id, message) => {
      useFakeTime();
      const { mint, subscription, peer, answers } = await subscribed(['a']);
      subscription.watch(['b']);
      vi.advanceTimersByTime(1);
      await peer.calls.next();
      peer.send({ jsonrpc: '2.0', error: { code: -32000, message }, id });
      expect(await answers.next()).toBe('rate_limited');
      await passTime(2 * SECOND - 10);
      subscription.watch(['c']);
      expect(peer.calls.size).toBe(0);
      await passTime(1_010);
      const again = await peer.calls.next();
      expect(again.params.filters.toSorted()).toEqual(['b', 'c']);
      peer.confirm(again);
      expect(await answers.next()).toBe('confirmed');
      expect(mint.paths).toHaveLength(1);
    },
  );
});

describe('a socket that is open but silent', () => {
  it('is not relied on after a poll found a payment, until the mint reports a change', async () => {
    const { subscription, peer, observations } = await subscribed(['a', 'b']);
    for (const quoteId of ['a', 'b']) {
      peer.notify(quoteId, 'UNPAID');
      await observations.next();
    }
    subscription.polledNews(['unknown']);
    expect(subscription.covers('b')).toBe(true);
    subscription.polledNews(['a']);
    expect(subscription.covers('b')).toBe(false);
    peer.notify('a', 'PAID');
    await observations.next();
    expect(subscription.covers('b')).toBe(true);
  });
});

describe('a mint that floods its socket', () => {
  it.each([
    ['many messages', 'noise', 57],
    ['a few long ones', 'x'.repeat(10 * 4096), 5],
  ])('is disconnected after %s, for ten minutes', async (_what, text, admitted) => {
    useFakeTime();
    const harness = await subscribed(['a'], { floodRestMs: 10 * MINUTE });
    const { peer, mint, closings, anomalies } = harness;
    const ended = once(peer.socket, 'close');
    // The limit is 60 for one quote; the handshake and the confirmation were the first.
    for (let count = 0; count < admitted; count += 1) {
      peer.sendText(text);
    }
    const answered = once(peer.socket, 'pong');
    peer.socket.ping();
    await answered;
    expect(anomalies.size).toBe(0);
    peer.sendText(text);
    expect(await anomalies.next()).toBe('socket_flooding');
    expect(await closings.next()).toBe(10 * MINUTE);
    // Without a closing handshake, during which the flood would go on.
    expect((await ended)[0]).toBe(1006);
    await passTime(10 * MINUTE - 100);
    expect(mint.paths).toHaveLength(1);
    await passTime(200);
    await mint.connections.next();
  });

  it('is disconnected after many pings at once, but not after many in a long time', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { peer, observations, anomalies } = await subscribed(['a']);
    for (let interval = 0; interval < 4; interval += 1) {
      await ping(peer, 50);
      const pinged = once(peer.socket, 'ping');
      vi.advanceTimersByTime(30 * SECOND);
      await pinged;
      await peer.isHeard(observations, 'a');
    }
    expect(anomalies.size).toBe(0);
    await ping(peer, 55);
    for (let count = 0; count < 5; count += 1) {
      peer.socket.ping();
    }
    expect(await anomalies.next()).toBe('socket_flooding');
  });
});

describe('the sockets of one process', () => {
  it('are limited: a mint that gets none is tried again after a minute', async () => {
    useFakeTime();
    const slots = slotsOf(1);
    const first = await subscribed(['a'], { slots });
    const mint = await FakeMint.start();
    const { subscription } = subscribe(mint.url, { slots, longestReconnectMs: MINUTE });
    subscription.watch(['b']);
    await passTime(1);
    await first.subscription.close();
    await passTime(MINUTE - 10);
    expect(mint.paths).toHaveLength(0);
    await passTime(20);
    await mint.connections.next();
  });

  it('are released however they end', async () => {
    const slots = slotsOf(1);
    const harness = await subscribed(['a'], { slots });
    const { mint, subscription, closings } = harness;
    mint.refusal = 404;
    harness.peer.socket.close();
    await closings.next();
    await closings.next();
    mint.refusal = null;
    const peer = await nextConnection(harness);
    peer.socket.terminate();
    await nextConnection(harness);
    expect(slots.count).toBe(1);
    await subscription.close();
    expect(slots.count).toBe(0);
  });
});

describe('closing a subscription', () => {
  it('ends its sockets and calls nothing later', async () => {
    const { mint, subscription, peer, observations, sockets } = await subscribed(['a', 'b']);
    const closed = Promise.withResolvers<void>();
    (await sockets.next()).once('message', () => closed.resolve(subscription.close()));
    const ended = once(peer.socket, 'close');
    peer.notify('a', 'PAID');
    peer.notify('b', 'PAID');
    await closed.promise;
    await ended;
    subscription.watch(['c']);
    await turn();
    expect(observations.takeAll()).toMatchObject([{ quoteId: 'a', state: 'PAID' }]);
    expect([subscription.covers('a'), mint.paths.length]).toEqual([false, 1]);
  });

  it('is possible while it connects, waits to reconnect, or has never connected', async () => {
    const mint = await FakeMint.start();
    await subscribe(mint.url).subscription.close();
    const connecting = subscribe(mint.url);
    connecting.subscription.watch(['a']);
    await connecting.sockets.next();
    await connecting.subscription.close();
    mint.refusal = 503;
    const waiting = subscribe(mint.url, { firstReconnectMs: MINUTE, longestReconnectMs: MINUTE });
    waiting.subscription.watch(['a']);
    await waiting.closings.next();
    await waiting.subscription.close();
  });
});

/** Fakes the clock and timers, but not `setImmediate`, so that sockets work. */
function useFakeTime(...more: ('setInterval' | 'clearInterval')[]): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', ...more] });
}

/** Lets virtual time pass in steps, with a turn of the event loop after each. */
async function passTime(durationMs: number): Promise<void> {
  const stepMs = Math.max(1, durationMs / 100);
  for (let passedMs = 0; passedMs < durationMs; passedMs += stepMs) {
    vi.advanceTimersByTime(Math.min(stepMs, durationMs - passedMs));
    await turn();
  }
}

/** Sends pings one after the other: the WebSocket library limits unanswered ones. */
async function ping(peer: Peer, times: number): Promise<void> {
  for (let count = 0; count < times; count += 1) {
    const answered = once(peer.socket, 'pong');
    peer.socket.ping();
    await answered;
  }
}

/** A whole turn of the event loop. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

interface HarnessOptions extends Partial<SubscriptionTiming> {
  slots?: HostSlots;
}

function slotsOf(max: number): HostSlots {
  return new HostSlots({ max, maxPerHost: 8, trusted: [], allowPrivateNetworks: true });
}

/** A subscription to a fake mint that has confirmed these quotes. */
async function subscribed(
  quoteIds: string[],
  options: HarnessOptions = {},
  mintOptions: { autoPong?: boolean } = {},
) {
  const mint = await FakeMint.start(mintOptions);
  const harness = subscribe(mint.url, options);
  harness.subscription.watch(quoteIds);
  if (vi.isFakeTimers()) {
    vi.advanceTimersByTime(options.batchMs ?? FAST.batchMs);
  }
  const peer = await mint.connections.next();
  const first = await peer.calls.next();
  peer.confirm(first);
  await harness.answers.next();
  return { mint, peer, first, ...harness };
}

/** A subscription with 1,000 quotes on its first connection, which is all that it takes. */
async function full(name: string) {
  const [first = '', ...others] = idsOf(name, 1_000);
  const harness = await subscribed([first]);
  await fill(harness, others);
  return harness;
}

/** Watches quotes; no more than a few hundred may be pending at a time. */
async function fill(
  { subscription, peer, answers }: Awaited<ReturnType<typeof subscribed>>,
  quoteIds: readonly string[],
): Promise<void> {
  for (let from = 0; from < quoteIds.length; from += 500) {
    subscription.watch(quoteIds.slice(from, from + 500));
    peer.confirm(await peer.calls.next());
    await answers.next();
  }
}

/** The next connection to the mint, which confirms its first subscription. */
async function nextConnection({
  mint,
  answers,
}: Awaited<ReturnType<typeof subscribed>>): Promise<Peer> {
  const connected = mint.connections.next();
  while (vi.isFakeTimers() && !(await isSettled(connected))) {
    await passTime(1);
  }
  const peer = await connected;
  peer.confirm(await peer.calls.next());
  expect(await answers.next()).toBe('confirmed');
  return peer;
}

async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  return (await Promise.race([promise, Promise.resolve('pending')])) !== 'pending';
}

function subscribe(mintUrl: string, { slots = slotsOf(10), ...timing }: HarnessOptions = {}) {
  const observations = new Inbox<QuoteObservation>();
  const answers = new Inbox<string>();
  const closings = new Inbox<number>();
  const anomalies = new Inbox<MintAnomaly>();
  const sockets = new Inbox<WebSocket>();
  const connect = guardedSocketConnector({ allowPrivateNetworks: true });
  const subscription = new MintSubscription({
    mintUrl,
    connect: (url) => {
      const socket = connect(url);
      sockets.put(socket);
      return socket;
    },
    limiter: createLimiter().limiter,
    slots,
    anomalies: { report: (_mintUrl, anomaly) => anomalies.put(anomaly) },
    onObservation: (observation) => observations.put(observation),
    monotonicMs: () => performance.now(),
    log: {
      debug: (fields: { outcome?: string; reconnectInMs?: number }) => {
        if (fields.outcome !== undefined) {
          answers.put(fields.outcome);
        }
        if (fields.reconnectInMs !== undefined) {
          closings.put(fields.reconnectInMs);
        }
      },
    },
    timing: { ...FAST, ...timing },
  });
  onTestFinished(() => subscription.close());
  return { subscription, observations, answers, closings, anomalies, sockets };
}

async function startMint(options: TestMintOptions): Promise<TestMint> {
  const mint = await TestMint.start(options);
  onTestFinished(() => mint.close());
  return mint;
}

async function createQuote({ url }: TestMint): Promise<{ quoteId: string; request: string }> {
  const body = JSON.stringify({ amount: 21, unit: 'sat' });
  const response = await fetch(`${url}/v1/mint/quote/bolt11`, { method: 'POST', body });
  const { quote, request } = (await response.json()) as { quote: string; request: string };
  return { quoteId: quote, request };
}

function idsOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}
