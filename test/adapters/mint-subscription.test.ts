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
import type { QuoteObservation } from '../../src/mints/quote-responses.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { HostSemaphore } from '../../src/net/host-semaphore.ts';
import {
  AsyncQueue,
  FakeWebSocketMint,
  type MintConnection,
  quoteNotification,
} from '../helpers/fake-websocket-mint.ts';
import { createTestRateLimiter } from '../helpers/test-mint-rate-limiter.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** No delays, except for unresponsive or hostile peers. */
const FAST: SubscriptionTiming = {
  ...SUBSCRIPTION_TIMING,
  batchIntervalMs: 1,
  initialReconnectDelayMs: 1,
  maxReconnectDelayMs: 2,
  floodCooldownMs: 1,
  stableAfterMs: 0,
};

// Runs before cleanups of `onTestFinished`, which need real time.
afterEach(() => void vi.useRealTimers());

describe.each(['nutshell', 'cdk'] as const)('a subscription to a mint like %s', (style) => {
  it('reports the state of a quote and then its payment', async () => {
    const mint = await startMint({ switches: { style, omitsExpiryAndPubkeyAfterCreation: true } });
    const quote = await createQuote(mint);
    const { subscription, observations } = subscribe(mint.url);
    subscription.subscribe([quote.quoteId]);
    expect(await observations.next()).toMatchObject({ quoteId: quote.quoteId, state: 'UNPAID' });
    expect(subscription.isCovered(quote.quoteId)).toBe(true);
    mint.pay(quote.request);
    expect(await observations.next()).toEqual({
      quoteId: quote.quoteId,
      state: 'PAID',
      amountSat: 21,
      request: quote.request,
    });
  });

  it('reports, after a reconnect, the changes of the time without a connection', async () => {
    const mint = await startMint({ switches: { style } });
    const quote = await createQuote(mint);
    const { subscription, observations } = subscribe(mint.url);
    subscription.subscribe([quote.quoteId]);
    expect(await observations.next()).toMatchObject({ state: 'UNPAID' });
    mint.dropSockets();
    mint.pay(quote.request);
    expect(await observations.next()).toMatchObject({ state: 'PAID' });
  });
});

describe('MintSubscription', () => {
  it("opens the socket below the mint's path when the first quote is watched", async () => {
    const mint = await FakeWebSocketMint.start();
    const { subscription } = subscribe(`${mint.url}/Bitcoin`);
    expect(mint.requestedPaths).toEqual([]);
    subscription.subscribe(['a']);
    await mint.connections.next();
    expect(mint.requestedPaths).toEqual(['/Bitcoin/v1/ws']);
  });

  it('subscribes a quote immediately, and those of the next 50 ms with one message', async () => {
    useFakeTime();
    const { subscription, peer } = await subscribed(['first'], SUBSCRIPTION_TIMING);
    subscription.subscribe(['a', 'b']);
    vi.advanceTimersByTime(49);
    subscription.subscribe(['b', 'c']);
    expect(peer.requests.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect(await peer.requests.next()).toEqual({
      jsonrpc: '2.0',
      id: 2,
      method: 'subscribe',
      params: { kind: 'bolt11_mint_quote', subId: 'quotes-2', filters: ['a', 'b', 'c'] },
    });
    await passTime(SECOND);
    subscription.subscribe(['d']);
    expect((await peer.requests.next()).params.filters).toEqual(['d']);
  });

  it('sends messages less often on a connection that has had many', async () => {
    useFakeTime();
    const { mint, subscription, peer } = await subscribed(['first'], SUBSCRIPTION_TIMING);
    const subscribedIds: string[] = [];
    for (let count = 0; count < 600; count += 1) {
      subscription.subscribe([`quote-${count}`]);
      vi.advanceTimersByTime(50);
      await turn();
      for (const call of peer.requests.drain()) {
        subscribedIds.push(...call.params.filters);
        peer.confirmSubscription(call);
      }
    }
    expect(mint.requestedPaths).toHaveLength(1);
    expect(subscribedIds.length).toBeGreaterThan(580);
  });

  it('covers a quote from its first report until the socket closes', async () => {
    const { subscription, peer, observations, closings } = await subscribed(['a', 'b']);
    expect(subscription.isCovered('a')).toBe(false);
    peer.sendQuoteState('a', 'UNPAID');
    await observations.next();
    expect(['a', 'b', 'c'].map((id) => subscription.isCovered(id))).toEqual([true, false, false]);
    peer.socket.close();
    await closings.next();
    expect(subscription.isCovered('a')).toBe(false);
  });

  it('resubscribes the quotes that are still watched after the mint closed the socket', async () => {
    const { mint, subscription, peer } = await subscribed(['a', 'b']);
    subscription.ignore(['a']);
    peer.socket.close();
    const next = await mint.connections.next();
    expect((await next.requests.next()).params.filters).toEqual(['b']);
  });

  it('does not reconnect while nothing is watched', async () => {
    const { mint, subscription, peer, closings } = await subscribed(['a']);
    subscription.ignore(['a']);
    peer.socket.close();
    await closings.next();
    subscription.subscribe(['b']);
    const next = await mint.connections.next();
    expect((await next.requests.next()).params.filters).toEqual(['b']);
    expect(mint.requestedPaths).toHaveLength(2);
  });

  it.each([
    ['an error', { error: { code: -32602, message: 'Invalid params' } }],
    ['a confirmation without OK', { result: { status: 'ERROR' } }],
  ])('does not subscribe quotes again that the mint rejects with %s', async (_what, answer) => {
    const { subscription, peer, answers } = await subscribed(['a']);
    subscription.subscribe(['b']);
    const { id } = await peer.requests.next();
    peer.send({ jsonrpc: '2.0', id, ...answer });
    expect(await answers.next()).toBe('rejected');
    expect(subscription.isCovered('b')).toBe(false);
    subscription.subscribe(['b', 'c']);
    expect((await peer.requests.next()).params.filters).toEqual(['c']);
  });

  it('ignores messages that are malformed, unknown or about other quotes', async () => {
    const { subscription, peer, observations, anomalies } = await subscribed(['a', 'unwatched']);
    subscription.ignore(['unwatched']);
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
    peer.socket.send(Buffer.from(JSON.stringify(quoteNotification('a', 'PAID'))));
    peer.sendQuoteState('stranger', 'PAID');
    peer.sendQuoteState('unwatched', 'PAID');
    peer.sendQuoteState('a', 'SOMETHING');
    peer.sendQuoteState('a', 'PENDING');
    expect(await observations.next()).toEqual({ quoteId: 'a', state: 'INFLIGHT' });
    expect(observations.size).toBe(0);
    expect(anomalies.drain()).toEqual(['unsolicited_notification']);
  });

  it('reports each state once, and once more on a new connection', async () => {
    const { mint, peer, observations } = await subscribed(['a']);
    for (const state of ['UNPAID', 'UNPAID', 'PAID', 'PAID', 'UNPAID']) {
      peer.sendQuoteState('a', state);
    }
    for (const state of ['UNPAID', 'PAID', 'UNPAID']) {
      expect(await observations.next()).toMatchObject({ state });
    }
    peer.socket.close();
    const next = await mint.connections.next();
    next.confirmSubscription(await next.requests.next());
    next.sendQuoteState('a', 'UNPAID');
    expect(await observations.next()).toMatchObject({ state: 'UNPAID' });
    expect(observations.size).toBe(0);
  });

  it('reconnects with exponential backoff while the mint is down', async () => {
    const mint = await FakeWebSocketMint.start();
    mint.upgradeRejectionStatus = 404;
    const { subscription, closings } = subscribe(mint.url, {
      initialReconnectDelayMs: 2,
      maxReconnectDelayMs: 16,
      stableAfterMs: MINUTE,
    });
    subscription.subscribe(['a']);
    for (const longestMs of [2, 4, 8, 16, 16]) {
      const reconnectInMs = await closings.next();
      expect(reconnectInMs).toBeGreaterThanOrEqual(longestMs / 2);
      expect(reconnectInMs).toBeLessThanOrEqual(longestMs);
    }
    mint.upgradeRejectionStatus = null;
    const peer = await mint.connections.next();
    expect((await peer.requests.next()).params.filters).toEqual(['a']);
  });

  it('replaces a connection whose peer no longer responds to pings', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { mint, closings } = await subscribed(['a'], {}, { autoPong: false });
    vi.advanceTimersByTime(30 * SECOND);
    vi.advanceTimersByTime(30 * SECOND);
    await closings.next();
    vi.advanceTimersByTime(2);
    await mint.connections.next();
  });

  it('replaces a connection on which the mint does not respond to a subscription', async () => {
    useFakeTime();
    const { mint, subscription, peer, answers, closings } = await subscribed(['a']);
    subscription.subscribe(['b']);
    vi.advanceTimersByTime(1);
    await peer.requests.next();
    vi.advanceTimersByTime(15 * SECOND);
    expect(await answers.next()).toBe('no_response');
    await closings.next();
    vi.advanceTimersByTime(2);
    const next = await mint.connections.next();
    const filters = (await next.requests.next()).params.filters;
    expect(filters).toEqual(['a', 'b']);
  });
});

describe('MintSubscription with a full connection', () => {
  it('keeps it open beside the next one, and both report', async () => {
    const { mint, subscription, peer, observations } = await full('old');
    subscription.subscribe(['new']);
    const next = await mint.connections.next();
    expect((await next.requests.next()).params.filters).toEqual(['new']);
    peer.sendQuoteState('old-999', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'old-999', state: 'PAID' });
    next.sendQuoteState('new', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'new', state: 'PAID' });
    expect(subscription.isCovered('old-999')).toBe(true);
  });

  it('considers a connection full after a hundred subscriptions', async () => {
    const { mint, subscription, peer } = await subscribed(['quote-0']);
    for (const quoteId of idsOf('quote', 100).slice(1)) {
      subscription.subscribe([quoteId]);
      peer.confirmSubscription(await peer.requests.next());
    }
    subscription.subscribe(['one-more']);
    const next = await mint.connections.next();
    expect((await next.requests.next()).params.filters).toEqual(['one-more']);
    expect(peer.requests.size).toBe(0);
  });

  it('closes the oldest for a fourth one and leaves its quotes to polling', async () => {
    const harness = await full('first');
    const { mint, subscription, closings } = harness;
    const ended = once(harness.peer.socket, 'close');
    for (const name of ['second', 'third']) {
      subscription.subscribe([name]);
      await fill({ ...harness, peer: await nextConnection(harness) }, idsOf(name, 999));
    }
    subscription.subscribe(['fourth']);
    const last = await nextConnection(harness);
    await ended;
    expect([mint.requestedPaths.length, closings.size, last.requests.size]).toEqual([4, 0, 0]);
  });

  it('resubscribes only some quotes of a lost connection, leaving room for new ones', async () => {
    const harness = await full('quote');
    harness.peer.socket.terminate();
    const next = await harness.mint.connections.next();
    const { filters } = (await next.requests.next()).params;
    expect(filters).toEqual(idsOf('quote', 1_000).slice(-750));
  });

  it('omits older quotes rather than one that was just created', async () => {
    const mint = await FakeWebSocketMint.start();
    const { subscription } = subscribe(mint.url);
    subscription.subscribe(['new']);
    subscription.subscribeOlder(idsOf('old', 1_000));
    const { filters } = (await (await mint.connections.next()).requests.next()).params;
    expect(filters).toEqual([...idsOf('old', 1_000).slice(-749), 'new']);
  });
});

describe('MintSubscription with a mint that limits messages', () => {
  it.each([429, 500])(
    'is connected to again after 2 s if it refuses a handshake with %i',
    async (status) => {
      useFakeTime();
      const mint = await FakeWebSocketMint.start();
      mint.upgradeRejectionStatus = status;
      const { subscription, closings } = subscribe(mint.url);
      subscription.subscribe(['a']);
      vi.advanceTimersByTime(1);
      await closings.next();
      mint.upgradeRejectionStatus = null;
      await passTime(2 * SECOND - 10);
      expect(mint.requestedPaths).toHaveLength(1);
      await passTime(100);
      const peer = await mint.connections.next();
      expect((await peer.requests.next()).params.filters).toEqual(['a']);
    },
  );

  it.each([
    ['no message', 0, 'Error: Rate limit exceeded'],
    ['the message', 2, 'RATE LIMIT reached, try later'],
  ])(
    'receives rejected quotes again on the same connection after 2 s if its error names %s',
    async (_what, id, message) => {
      useFakeTime();
      const { mint, subscription, peer, answers } = await subscribed(['a']);
      subscription.subscribe(['b']);
      vi.advanceTimersByTime(1);
      await peer.requests.next();
      peer.send({ jsonrpc: '2.0', error: { code: -32000, message }, id });
      expect(await answers.next()).toBe('rate_limited');
      await passTime(2 * SECOND - 10);
      subscription.subscribe(['c']);
      expect(peer.requests.size).toBe(0);
      await passTime(1_010);
      const again = await peer.requests.next();
      expect(again.params.filters.toSorted()).toEqual(['b', 'c']);
      peer.confirmSubscription(again);
      expect(await answers.next()).toBe('confirmed');
      expect(mint.requestedPaths).toHaveLength(1);
    },
  );
});

describe('MintSubscription with a silent socket', () => {
  it('does not rely on the socket after a poll found a payment, until the mint reports a change', async () => {
    const { subscription, peer, observations } = await subscribed(['a', 'b']);
    for (const quoteId of ['a', 'b']) {
      peer.sendQuoteState(quoteId, 'UNPAID');
      await observations.next();
    }
    subscription.recordPolledChanges(['unknown']);
    expect(subscription.isCovered('b')).toBe(true);
    subscription.recordPolledChanges(['a']);
    expect(subscription.isCovered('b')).toBe(false);
    peer.sendQuoteState('a', 'PAID');
    await observations.next();
    expect(subscription.isCovered('b')).toBe(true);
  });
});

describe('MintSubscription with a flooding mint', () => {
  it.each([
    ['many messages', 'noise', 57],
    ['a few long ones', 'x'.repeat(10 * 4096), 5],
  ])('disconnects for ten minutes after %s', async (_what, text, admitted) => {
    useFakeTime();
    const harness = await subscribed(['a'], { floodCooldownMs: 10 * MINUTE });
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
    expect(await anomalies.next()).toBe('socket_flood');
    expect(await closings.next()).toBe(10 * MINUTE);
    // No closing handshake, because the flood would continue during it.
    expect((await ended)[0]).toBe(1006);
    await passTime(10 * MINUTE - 100);
    expect(mint.requestedPaths).toHaveLength(1);
    await passTime(200);
    await mint.connections.next();
  });

  it('disconnects after many pings in a burst, but not after many over a long time', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { peer, observations, anomalies } = await subscribed(['a']);
    for (let interval = 0; interval < 4; interval += 1) {
      await ping(peer, 50);
      const pinged = once(peer.socket, 'ping');
      vi.advanceTimersByTime(30 * SECOND);
      await pinged;
      await peer.waitUntilRead(observations, 'a');
    }
    expect(anomalies.size).toBe(0);
    await ping(peer, 55);
    for (let count = 0; count < 5; count += 1) {
      peer.socket.ping();
    }
    expect(await anomalies.next()).toBe('socket_flood');
  });
});

describe('the socket limit of a process', () => {
  it('retries a mint without a slot after a minute', async () => {
    useFakeTime();
    const slots = slotsOf(1);
    const first = await subscribed(['a'], { slots });
    const mint = await FakeWebSocketMint.start();
    const { subscription } = subscribe(mint.url, { slots, maxReconnectDelayMs: MINUTE });
    subscription.subscribe(['b']);
    await passTime(1);
    await first.subscription.close();
    await passTime(MINUTE - 10);
    expect(mint.requestedPaths).toHaveLength(0);
    await passTime(20);
    await mint.connections.next();
  });

  it('releases slots however a connection ends', async () => {
    const slots = slotsOf(1);
    const harness = await subscribed(['a'], { slots });
    const { mint, subscription, closings } = harness;
    mint.upgradeRejectionStatus = 404;
    harness.peer.socket.close();
    await closings.next();
    await closings.next();
    mint.upgradeRejectionStatus = null;
    const peer = await nextConnection(harness);
    peer.socket.terminate();
    await nextConnection(harness);
    expect(slots.count).toBe(1);
    await subscription.close();
    expect(slots.count).toBe(0);
  });
});

describe('MintSubscription.close', () => {
  it('closes its sockets and calls no callback later', async () => {
    const { mint, subscription, peer, observations, sockets } = await subscribed(['a', 'b']);
    const closed = Promise.withResolvers<void>();
    (await sockets.next()).once('message', () => closed.resolve(subscription.close()));
    const ended = once(peer.socket, 'close');
    peer.sendQuoteState('a', 'PAID');
    peer.sendQuoteState('b', 'PAID');
    await closed.promise;
    await ended;
    subscription.subscribe(['c']);
    await turn();
    expect(observations.drain()).toMatchObject([{ quoteId: 'a', state: 'PAID' }]);
    expect([subscription.isCovered('a'), mint.requestedPaths.length]).toEqual([false, 1]);
  });

  it('works while it connects, waits to reconnect, or has never connected', async () => {
    const mint = await FakeWebSocketMint.start();
    await subscribe(mint.url).subscription.close();
    const connecting = subscribe(mint.url);
    connecting.subscription.subscribe(['a']);
    await connecting.sockets.next();
    await connecting.subscription.close();
    mint.upgradeRejectionStatus = 503;
    const waiting = subscribe(mint.url, {
      initialReconnectDelayMs: MINUTE,
      maxReconnectDelayMs: MINUTE,
    });
    waiting.subscription.subscribe(['a']);
    await waiting.closings.next();
    await waiting.subscription.close();
  });
});

/** Fakes the clock and timers, but not `setImmediate`, so that sockets work. */
function useFakeTime(...more: ('setInterval' | 'clearInterval')[]): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', ...more] });
}

/** Advances virtual time in steps, with a turn of the event loop after each. */
async function passTime(durationMs: number): Promise<void> {
  const stepMs = Math.max(1, durationMs / 100);
  for (let passedMs = 0; passedMs < durationMs; passedMs += stepMs) {
    vi.advanceTimersByTime(Math.min(stepMs, durationMs - passedMs));
    await turn();
  }
}

/** Sends pings one by one: the WebSocket library limits pings without a pong. */
async function ping(peer: MintConnection, times: number): Promise<void> {
  for (let count = 0; count < times; count += 1) {
    const answered = once(peer.socket, 'pong');
    peer.socket.ping();
    await answered;
  }
}

/** Waits for one turn of the event loop. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

interface HarnessOptions extends Partial<SubscriptionTiming> {
  slots?: HostSemaphore;
}

function slotsOf(max: number): HostSemaphore {
  return new HostSemaphore({ max, maxPerHost: 8, exemptUrls: [], allowPrivateNetworks: true });
}

/** Creates a subscription to a fake mint that has confirmed these quotes. */
async function subscribed(
  quoteIds: string[],
  options: HarnessOptions = {},
  mintOptions: { autoPong?: boolean } = {},
) {
  const mint = await FakeWebSocketMint.start(mintOptions);
  const harness = subscribe(mint.url, options);
  harness.subscription.subscribe(quoteIds);
  if (vi.isFakeTimers()) {
    vi.advanceTimersByTime(options.batchIntervalMs ?? FAST.batchIntervalMs);
  }
  const peer = await mint.connections.next();
  const first = await peer.requests.next();
  peer.confirmSubscription(first);
  await harness.answers.next();
  return { mint, peer, first, ...harness };
}

/** Creates a subscription with 1,000 quotes on its first connection, its maximum. */
async function full(name: string) {
  const [first = '', ...others] = idsOf(name, 1_000);
  const harness = await subscribed([first]);
  await fill(harness, others);
  return harness;
}

/** Watches quotes in portions, because only a few hundred may be pending. */
async function fill(
  { subscription, peer, answers }: Awaited<ReturnType<typeof subscribed>>,
  quoteIds: readonly string[],
): Promise<void> {
  for (let from = 0; from < quoteIds.length; from += 500) {
    subscription.subscribe(quoteIds.slice(from, from + 500));
    peer.confirmSubscription(await peer.requests.next());
    await answers.next();
  }
}

/** Waits for the next connection to the mint and confirms its first subscription. */
async function nextConnection({
  mint,
  answers,
}: Awaited<ReturnType<typeof subscribed>>): Promise<MintConnection> {
  const connected = mint.connections.next();
  while (vi.isFakeTimers() && !(await isSettled(connected))) {
    await passTime(1);
  }
  const peer = await connected;
  peer.confirmSubscription(await peer.requests.next());
  expect(await answers.next()).toBe('confirmed');
  return peer;
}

async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  return (await Promise.race([promise, Promise.resolve('pending')])) !== 'pending';
}

function subscribe(mintUrl: string, { slots = slotsOf(10), ...timing }: HarnessOptions = {}) {
  const observations = new AsyncQueue<QuoteObservation>();
  const answers = new AsyncQueue<string>();
  const closings = new AsyncQueue<number>();
  const anomalies = new AsyncQueue<MintAnomaly>();
  const sockets = new AsyncQueue<WebSocket>();
  const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: true });
  const subscription = new MintSubscription({
    mintUrl,
    connect: (url) => {
      const socket = connect(url);
      sockets.push(socket);
      return socket;
    },
    limiter: createTestRateLimiter().limiter,
    connectionSlots: slots,
    anomalies: { report: (_mintUrl, anomaly) => anomalies.push(anomaly) },
    onObservation: (observation) => observations.push(observation),
    monotonicMs: () => performance.now(),
    log: {
      debug: (fields: { outcome?: string; reconnectInMs?: number }) => {
        if (fields.outcome !== undefined) {
          answers.push(fields.outcome);
        }
        if (fields.reconnectInMs !== undefined) {
          closings.push(fields.reconnectInMs);
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
