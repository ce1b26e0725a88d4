import { once } from 'node:events';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { SUBSCRIPTION_TIMING, type SubscriptionTiming } from '../../src/mints/limits.ts';
import { MintSubscription, type SubscribableQuotes } from '../../src/mints/mint-subscription.ts';
import type { QuoteObservation } from '../../src/mints/quote-responses.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { SiteSemaphore } from '../../src/net/site-semaphore.ts';
import { MAX_UNSUBSCRIBED_QUOTES } from '../../src/watcher/limits.ts';
import { AsyncQueue } from '../helpers/async-queue.ts';
import {
  buildQuoteNotification,
  type FakeMintConnection,
  FakeWebSocketMint,
} from '../helpers/mints/fake-websocket-mint.ts';
import { createTestMintRateLimiter } from '../helpers/mints/mint-rate-limiter-fixture.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

const RATE_LIMIT_COOLDOWN_MS = 2 * SECOND_MS;

const MAX_QUOTES_PER_CONNECTION = 1_000;

/** Shortens batching and reconnect delays. Rate limit delays, ping intervals and timeouts stay as in production. */
const FAST_TIMING: SubscriptionTiming = {
  ...SUBSCRIPTION_TIMING,
  maxBatchIntervalMs: 1,
  initialReconnectDelayMs: 1,
  maxReconnectDelayMs: 2,
  stableAfterMs: 0,
};

// Runs before the `onTestFinished` cleanups, which need real time.
afterEach(() => void vi.useRealTimers());

describe('MintSubscription', () => {
  it.each([
    ['an error', { error: { code: -32602, message: 'Invalid params' } }],
    ['a status other than OK', { result: { status: 'ERROR' } }],
  ])('does not resubscribe a quote that the mint rejects with %s', async (_case, response) => {
    const { subscription, connection, subscribeOutcomes } = await startSubscribed(['a']);
    subscription.subscribe(['b']);
    const { id } = await connection.requests.next();
    connection.send({ jsonrpc: '2.0', id, ...response });
    expect(await subscribeOutcomes.next()).toBe('rejected');
    subscription.subscribe(['c']);
    expect((await connection.requests.next()).params.filters).toEqual(['c']);
  });

  it('ignores messages that are malformed, of unknown type or about unsubscribed quotes', async () => {
    const { connection, observations } = await startSubscribed(['a']);
    connection.sendText('this is not JSON');
    for (const message of [
      null,
      [],
      { jsonrpc: '2.0', id: 99, result: { status: 'OK', subId: 'x' } },
      { jsonrpc: '2.0', id: 0, error: { code: -32700, message: 'Error' } },
      { jsonrpc: '2.0', method: 'subscribe', params: {} },
      { jsonrpc: '2.0', method: 'subscribe', params: { payload: { quote: 'a' } } },
      { jsonrpc: '2.0', method: 'other', params: { payload: { quote: 'a', state: 'PAID' } } },
    ]) {
      connection.send(message);
    }
    const binaryMessage = Buffer.from(JSON.stringify(buildQuoteNotification('a', 'PAID')));
    connection.socket.send(binaryMessage);
    connection.sendQuoteState('never-subscribed', 'PAID');
    connection.sendQuoteState('a', 'UNKNOWN_STATE');
    // Only this message is valid.
    connection.sendQuoteState('a', 'PENDING');
    expect(await observations.next()).toEqual({ quoteId: 'a', state: 'INFLIGHT' });
    expect(observations.items).toEqual([]);
  });

  it('reconnects with exponential backoff while the mint rejects handshakes', async () => {
    const mint = await FakeWebSocketMint.start();
    mint.upgradeRejectionStatus = 404;
    const { subscription, reconnectDelaysMs } = createSubscription(mint.url, {
      initialReconnectDelayMs: 2,
      maxReconnectDelayMs: 16,
      stableAfterMs: MINUTE_MS,
    });
    subscription.subscribe(['a']);
    for (const maxDelayMs of [2, 4, 8, 16, 16]) {
      const delayMs = await reconnectDelaysMs.next();
      expect(delayMs).toBeGreaterThanOrEqual(maxDelayMs / 2);
      expect(delayMs).toBeLessThanOrEqual(maxDelayMs);
    }
    mint.upgradeRejectionStatus = null;
    const connection = await mint.connections.next();
    expect((await connection.requests.next()).params.filters).toEqual(['a']);
  });

  it('replaces a connection if the mint does not respond to a ping', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { mint, reconnectDelaysMs } = await startSubscribed(['a'], {}, { autoPong: false });
    vi.advanceTimersByTime(FAST_TIMING.pingIntervalMs);
    vi.advanceTimersByTime(FAST_TIMING.pingIntervalMs);
    await reconnectDelaysMs.next();
    vi.advanceTimersByTime(FAST_TIMING.maxReconnectDelayMs);
    await mint.connections.next();
  });

  it('replaces a connection if the mint does not respond to a subscription', async () => {
    useFakeTime();
    const { mint, subscription, connection, subscribeOutcomes, reconnectDelaysMs } =
      await startSubscribed(['a']);
    subscription.subscribe(['b']);
    vi.advanceTimersByTime(FAST_TIMING.maxBatchIntervalMs);
    await connection.requests.next();
    vi.advanceTimersByTime(FAST_TIMING.responseTimeoutMs);
    expect(await subscribeOutcomes.next()).toBe('no_response');
    await reconnectDelaysMs.next();
    vi.advanceTimersByTime(FAST_TIMING.maxReconnectDelayMs);
    const newConnection = await mint.connections.next();
    expect((await newConnection.requests.next()).params.filters).toEqual(['a', 'b']);
  });
});

describe('MintSubscription whose connection is full', () => {
  it('opens a second connection for a new quote and receives reports on both connections', async () => {
    const { mint, subscription, connection, observations } = await startWithFullConnection('old');
    subscription.subscribe(['new']);
    const newConnection = await mint.connections.next();
    expect((await newConnection.requests.next()).params.filters).toEqual(['new']);
    connection.sendQuoteState('old-999', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'old-999', state: 'PAID' });
    newConnection.sendQuoteState('new', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'new', state: 'PAID' });
  });

  it('moves the newest quotes of the oldest connection to a fourth, and closes the oldest', async () => {
    const harness = await startWithFullConnection('first');
    const { mint, subscription, lost, subscribeOutcomes } = harness;
    const oldestClosed = once(harness.connection.socket, 'close');
    for (const name of ['second', 'third']) {
      subscription.subscribe([name]);
      const connection = await confirmNextConnection(harness);
      await subscribeInPortions(
        { ...harness, connection },
        createQuoteIds(name, MAX_QUOTES_PER_CONNECTION - 1),
      );
    }
    subscription.subscribe(['fourth']);
    const fourthConnection = await mint.connections.next();
    const request = await fourthConnection.requests.next();
    const firstIds = createQuoteIds('first', MAX_QUOTES_PER_CONNECTION);
    expect(request.params.filters).toEqual([
      ...firstIds.slice(1 - MAX_UNSUBSCRIBED_QUOTES),
      'fourth',
    ]);
    fourthConnection.confirmSubscription(request);
    expect(await subscribeOutcomes.next()).toBe('confirmed');
    await oldestClosed;
    expect(await lost.next()).toEqual(firstIds);
    expect(mint.requestedPaths).toHaveLength(4);
  });
});

describe('MintSubscription to a rate-limiting mint', () => {
  it.each([429, 500])(
    'reconnects 2 s after the mint rejects a handshake with HTTP %i',
    async (status) => {
      useFakeTime();
      const mint = await FakeWebSocketMint.start();
      mint.upgradeRejectionStatus = status;
      const { subscription, reconnectDelaysMs } = createSubscription(mint.url);
      subscription.subscribe(['a']);
      vi.advanceTimersByTime(FAST_TIMING.maxBatchIntervalMs);
      await reconnectDelaysMs.next();
      mint.upgradeRejectionStatus = null;
      await advanceTime(RATE_LIMIT_COOLDOWN_MS - 10);
      expect(mint.requestedPaths).toHaveLength(1);
      await advanceTime(100);
      const connection = await mint.connections.next();
      expect((await connection.requests.next()).params.filters).toEqual(['a']);
    },
  );

  it.each([
    ['without a request id', 0, 'Error: Rate limit exceeded'],
    ['with a request id', 2, 'RATE LIMIT reached, try later'],
  ])(
    'resubscribes on the same connection 2 to 3 s after a rate limit error %s',
    async (_case, id, message) => {
      useFakeTime();
      const { mint, subscription, connection, subscribeOutcomes } = await startSubscribed(['a']);
      subscription.subscribe(['b']);
      vi.advanceTimersByTime(FAST_TIMING.maxBatchIntervalMs);
      await connection.requests.next();
      connection.send({ jsonrpc: '2.0', error: { code: -32000, message }, id });
      expect(await subscribeOutcomes.next()).toBe('rate_limited');
      await advanceTime(RATE_LIMIT_COOLDOWN_MS - 10);
      subscription.subscribe(['c']);
      expect(connection.requests.items).toEqual([]);
      await advanceTime(SECOND_MS + 10);
      const resubscription = await connection.requests.next();
      expect(resubscription.params.filters.toSorted()).toEqual(['b', 'c']);
      connection.confirmSubscription(resubscription);
      expect(await subscribeOutcomes.next()).toBe('confirmed');
      expect(mint.requestedPaths).toHaveLength(1);
    },
  );
});

it('MintSubscription releases its connection slot after a closed, rejected or terminated connection and on close()', async () => {
  const connectionSlots = createConnectionSlots(1);
  const harness = await startSubscribed(['a'], { connectionSlots });
  const { mint, subscription, reconnectDelaysMs } = harness;
  mint.upgradeRejectionStatus = 404;
  harness.connection.socket.close();
  // One delay follows the closed connection, and one the rejected handshake.
  await reconnectDelaysMs.next();
  await reconnectDelaysMs.next();
  mint.upgradeRejectionStatus = null;
  const connection = await confirmNextConnection(harness);
  connection.socket.terminate();
  await confirmNextConnection(harness);
  expect(connectionSlots.count).toBe(1);
  await subscription.close();
  expect(connectionSlots.count).toBe(0);
});

/** Fakes the clock and `setTimeout`. `setImmediate` stays real, because sockets need it. */
function useFakeTime(...otherTimers: ('setInterval' | 'clearInterval')[]): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', ...otherTimers] });
}

/** Advances fake time in steps. After each step, pending socket events are handled. */
async function advanceTime(durationMs: number): Promise<void> {
  const stepMs = Math.max(1, durationMs / 100);
  for (let passedMs = 0; passedMs < durationMs; passedMs += stepMs) {
    vi.advanceTimersByTime(Math.min(stepMs, durationMs - passedMs));
    await waitForEventLoopTurn();
  }
}

async function waitForEventLoopTurn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

type Harness = Awaited<ReturnType<typeof startSubscribed>>;

interface HarnessOptions extends Partial<SubscriptionTiming> {
  connectionSlots?: SiteSemaphore;
}

function createConnectionSlots(max: number): SiteSemaphore {
  return new SiteSemaphore({ max, maxPerSite: 8, exemptUrls: [] });
}

async function startSubscribed(
  quoteIds: string[],
  options: HarnessOptions = {},
  mintOptions: { autoPong?: boolean } = {},
) {
  const mint = await FakeWebSocketMint.start(mintOptions);
  const harness = createSubscription(mint.url, options);
  harness.subscription.subscribe(quoteIds);
  if (vi.isFakeTimers()) {
    vi.advanceTimersByTime(options.maxBatchIntervalMs ?? FAST_TIMING.maxBatchIntervalMs);
  }
  const connection = await mint.connections.next();
  connection.confirmSubscription(await connection.requests.next());
  await harness.subscribeOutcomes.next();
  return { mint, connection, ...harness };
}

async function startWithFullConnection(idPrefix: string) {
  const [firstId = '', ...otherIds] = createQuoteIds(idPrefix, MAX_QUOTES_PER_CONNECTION);
  const harness = await startSubscribed([firstId]);
  await subscribeInPortions(harness, otherIds);
  return harness;
}

async function subscribeInPortions(
  { subscription, connection, subscribeOutcomes }: Harness,
  quoteIds: readonly string[],
): Promise<void> {
  for (let start = 0; start < quoteIds.length; start += 500) {
    subscription.subscribe(quoteIds.slice(start, start + 500));
    connection.confirmSubscription(await connection.requests.next());
    await subscribeOutcomes.next();
  }
}

async function confirmNextConnection({
  mint,
  subscribeOutcomes,
}: Harness): Promise<FakeMintConnection> {
  const connection = await mint.connections.next();
  connection.confirmSubscription(await connection.requests.next());
  expect(await subscribeOutcomes.next()).toBe('confirmed');
  return connection;
}

function createSubscription(
  mintUrl: string,
  { connectionSlots = createConnectionSlots(10), ...timing }: HarnessOptions = {},
) {
  const observations = new AsyncQueue<QuoteObservation>();
  const subscribeOutcomes = new AsyncQueue<string>();
  /** The subscription logs one delay for each connection that closes, so tests also use this to wait for a close. */
  const reconnectDelaysMs = new AsyncQueue<number>();
  const lost = new AsyncQueue<readonly string[]>();
  let unsubscribed: string[] = [];
  const quotes: SubscribableQuotes = {
    hasUnsubscribed: () => unsubscribed.length > 0,
    takeUnsubscribed: (max) => unsubscribed.splice(-max),
    handleSubscribed: () => undefined,
    handleUnsubscribed: (quoteIds) => {
      unsubscribed = [...quoteIds, ...unsubscribed].slice(-MAX_UNSUBSCRIBED_QUOTES);
      lost.push(quoteIds);
    },
    handleNotification: (observation) => observations.push(observation),
  };
  const mintSubscription = new MintSubscription(
    {
      mintUrl,
      connect: createGuardedWebSocketConnector({ allowPrivateNetworks: true }),
      limiter: createTestMintRateLimiter().limiter,
      connectionSlots,
      kind: 'bolt11_mint_quote',
      quotes,
      monotonicMs: () => performance.now(),
      log: {
        debug: (fields: { outcome?: string; reconnectInMs?: number }) => {
          if (fields.outcome !== undefined) {
            subscribeOutcomes.push(fields.outcome);
          }
          if (fields.reconnectInMs !== undefined) {
            reconnectDelaysMs.push(fields.reconnectInMs);
          }
        },
      },
    },
    { ...FAST_TIMING, ...timing },
  );
  const subscription = {
    subscribe: (quoteIds: readonly string[]) => {
      unsubscribed.push(...quoteIds);
      mintSubscription.subscribePending();
    },
    close: () => mintSubscription.close(),
  };
  onTestFinished(() => subscription.close());
  return {
    subscription,
    observations,
    subscribeOutcomes,
    reconnectDelaysMs,
    lost,
  };
}

function createQuoteIds(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}
