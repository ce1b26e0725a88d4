import { once } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { WebSocket } from 'ws';
import type { RateLimit } from '../../src/demo/test-mint/rate-limit.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import type { QuoteObservation } from '../../src/domain/quote.ts';
import type { MintAnomaly } from '../../src/mint/mint-anomalies.ts';
import { MintClient } from '../../src/mint/mint-client.ts';
import type { MintRateLimiter } from '../../src/mint/mint-rate-limiter.ts';
import {
  MintSubscription,
  SUBSCRIPTION_TIMING,
  type SubscriptionTiming,
} from '../../src/mint/mint-subscription.ts';
import { SocketAllowance } from '../../src/mint/socket-allowance.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { FakeMint, Inbox, notification, type Peer } from '../helpers/fake-socket-mint.ts';
import { createLimiter, FakeLimitStore } from '../helpers/test-limiter.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** Everything at once, except for what concerns a peer that is dead or misbehaves. */
const FAST: SubscriptionTiming = {
  ...SUBSCRIPTION_TIMING,
  batchMs: 1,
  firstReconnectMs: 1,
  longestReconnectMs: 2,
  firstFloodRestMs: 1,
  stableAfterMs: 0,
  settledAfterMs: 0,
  silenceGraceMs: 1,
};

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const cleanup of cleanups.splice(0).reverse()) {
    await cleanup();
  }
});

describe.each(['nutshell', 'cdk'] as const)('a subscription to a mint like %s', (style) => {
  it('reports the state of a quote and then its payment', async () => {
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

  it('reports after a broken connection what happened meanwhile', async () => {
    const mint = await TestMint.start({ switches: { style } });
    cleanups.push(() => mint.close());
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
  it('opens the socket below the path of the mint, when there is something to watch', async () => {
    const mint = await FakeMint.start();
    const { subscription } = subscribe(`${mint.url}/Bitcoin`);
    expect(mint.paths).toEqual([]);
    subscription.watch(['a']);
    await mint.connections.next();
    expect(mint.paths).toEqual(['/Bitcoin/v1/ws']);
  });

  it('subscribes a quote after 50 ms, together with others that came meanwhile', async () => {
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
  });

  it('subscribes each quote once', async () => {
    const { subscription, peer } = await subscribed(['a', 'b']);
    subscription.watch(['a', 'b', 'c']);
    expect((await peer.calls.next()).params.filters).toEqual(['c']);
  });

  it('covers a quote from its confirmation until the socket ends', async () => {
    const mint = await FakeMint.start();
    const { subscription, answers, closings } = subscribe(mint.url);
    subscription.watch(['a']);
    const peer = await mint.connections.next();
    const call = await peer.calls.next();
    expect(subscription.covers('a')).toBe(false);
    peer.confirm(call);
    expect(await answers.next()).toBe('confirmed');
    expect([subscription.covers('a'), subscription.covers('unknown')]).toEqual([true, false]);
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
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([true, false]);
    subscription.watch(['b', 'c']);
    expect((await peer.calls.next()).params.filters).toEqual(['c']);
  });

  it('ignores messages that are malformed, unknown or about other quotes', async () => {
    const { subscription, peer, observations } = await subscribed(['a', 'unwatched']);
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
  });

  it('hands over what arrives together in one call, in order', async () => {
    const ids = idsOf('quote', 300);
    const { peer, batches } = await subscribed(ids);
    for (const quoteId of ids) {
      peer.notify(quoteId, 'UNPAID');
      peer.notify(quoteId, 'PAID');
    }
    const received: QuoteObservation[] = [];
    let calls = 0;
    while (received.length < 600) {
      received.push(...(await batches.next()));
      calls += 1;
    }
    expect(calls).toBeLessThan(60);
    expect(received.map(({ quoteId, state }) => `${quoteId} ${state}`)).toEqual(
      ids.flatMap((quoteId) => [`${quoteId} UNPAID`, `${quoteId} PAID`]),
    );
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

  it('reconnects more and more slowly while the mint is away', async () => {
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

  it('replaces a connection whose peer has died without a word', async () => {
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
    next.confirm(await next.calls.next());
    expect(await answers.next()).toBe('confirmed');
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([true, true]);
  });
});

describe('a full connection', () => {
  it('stays open beside the next one, and both report', async () => {
    const ids = idsOf('old', 1_000);
    const { mint, subscription, peer, observations } = await subscribed(ids);
    subscription.watch(['new']);
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['new']);
    peer.notify('old-0', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'old-0', state: 'PAID' });
    next.notify('new', 'PAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'new', state: 'PAID' });
    expect(subscription.covers('old-999')).toBe(true);
  });

  it('takes the newest quotes first', async () => {
    const ids = idsOf('quote', 1_200);
    const { mint, first } = await subscribed(ids);
    expect(first.params.filters).toEqual(ids.slice(-1_000));
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(ids.slice(0, 200));
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
    const { mint, subscription, peer, closings, answers } = await subscribed(idsOf('first', 1_000));
    for (const name of ['second', 'third', 'fourth']) {
      subscription.watch(idsOf(name, 1_000));
      const next = await mint.connections.next();
      next.confirm(await next.calls.next());
      await answers.next();
    }
    if (peer.socket.readyState !== peer.socket.CLOSED) {
      await once(peer.socket, 'close');
    }
    const covered = ['first', 'second', 'third', 'fourth'].map((name) =>
      subscription.covers(`${name}-0`),
    );
    expect(covered).toEqual([false, true, true, true]);
    expect([mint.paths.length, closings.size]).toEqual([4, 0]);
  });

  it('that is lost leaves room for new quotes on the next one', async () => {
    const ids = idsOf('quote', 1_000);
    const { mint, peer } = await subscribed(ids);
    peer.socket.terminate();
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(ids.slice(-750));
  });

  it('that is closed for a flood does not delay new quotes on another one', async () => {
    const { mint, subscription, peer, closings } = await subscribed(idsOf('old', 1_000), {
      firstFloodRestMs: 10 * MINUTE,
    });
    subscription.watch(['new']);
    const next = await mint.connections.next();
    next.confirm(await next.calls.next());
    await ping(peer, 99);
    for (let count = 0; count < 5; count += 1) {
      peer.socket.ping();
    }
    await closings.next();
    subscription.watch(['newer']);
    let filters: string[] = [];
    while (!filters.includes('newer')) {
      filters = (await next.calls.next()).params.filters;
    }
  });
});

describe('a mint that limits messages', () => {
  it.each([429, 500])('is asked again after 2 s if it refuses a socket with %i', async (status) => {
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
  });

  it.each([
    ['without saying which', 0, 'Error: Rate limit exceeded'],
    ['by its number', 2, 'RATE LIMIT reached, try later'],
    ['without a number', null, 'rate limit'],
  ])('keeps its connection and is asked again if it refuses %s', async (_what, id, message) => {
    useFakeTime();
    const { mint, subscription, peer, answers } = await subscribed(['a']);
    subscription.watch(['b']);
    vi.advanceTimersByTime(1);
    await peer.calls.next();
    peer.send({ jsonrpc: '2.0', error: { code: -32000, message }, id });
    expect(await answers.next()).toBe('rate_limited');
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([true, false]);
    await passTime(2 * SECOND - 10);
    subscription.watch(['c']);
    expect(peer.calls.size).toBe(0);
    await passTime(1_010);
    const again = await peer.calls.next();
    expect(again.params.filters.toSorted()).toEqual(['b', 'c']);
    peer.confirm(again);
    expect(await answers.next()).toBe('confirmed');
    expect([subscription.covers('b'), subscription.covers('c')]).toEqual([true, true]);
    expect(mint.paths).toHaveLength(1);
  });

  it('gets a message every two seconds at most once its limit is known', async () => {
    useFakeTime();
    const mint = await FakeMint.start();
    const store = new FakeLimitStore();
    store.limits.set(mint.url, { socket: { count: 20, isElastic: true } });
    const { limiter } = createLimiter({ store });
    const { peer, subscription } = await subscribed(['a'], { limiter, mint });
    subscription.watch(['b']);
    vi.advanceTimersByTime(1_999);
    subscription.watch(['c']);
    expect(peer.calls.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect((await peer.calls.next()).params.filters).toEqual(['b', 'c']);
  });

  it('covers all new quotes within 100 ms if it has no limit', async () => {
    const { coveredAfterMs, refusals } = await streamQuotes(null);
    expect(coveredAfterMs).toHaveLength(200);
    expect(Math.max(...coveredAfterMs)).toBeLessThanOrEqual(100);
    expect(refusals).toBe(0);
  });

  it('covers two in five within 5 s, and all in the end, if it has the limit of Nutshell', async () => {
    const { coveredAfterMs, refusals } = await streamQuotes({ perMinute: 20 });
    expect(coveredAfterMs).toHaveLength(200);
    const inTime = coveredAfterMs.filter((ms) => ms <= 5 * SECOND);
    expect(inTime.length).toBeGreaterThanOrEqual(80);
    expect(refusals).toBeLessThanOrEqual(10);
  });
});

describe('a socket that is open but silent', () => {
  it.each([
    ['reported nothing', []],
    ['reported an earlier state', ['UNPAID']],
  ])('is replaced if a poll finds a payment and it %s', async (_what, states) => {
    const { mint, subscription, peer, observations, anomalies } = await subscribed(['a']);
    for (const state of states) {
      peer.notify('a', state);
      await observations.next();
    }
    subscription.polledNews('a', 'PAID');
    const next = await mint.connections.next();
    expect((await next.calls.next()).params.filters).toEqual(['a']);
    expect(await anomalies.next()).toEqual(['socket_silent', 1]);
  });

  it('is not suspected if its subscription is young, its report is on the way, or need not come', async () => {
    useFakeTime();
    const ids = ['young', 'late', 'later', 'early', 'first-lost'];
    const { subscription, peer, observations, anomalies } = await subscribed(ids, {
      settledAfterMs: 5 * SECOND,
      silenceGraceMs: 10 * SECOND,
    });
    for (const quoteId of ids.slice(0, 4)) {
      peer.notify(quoteId, 'UNPAID');
      await observations.next();
    }
    subscription.polledNews('young', 'PAID');
    vi.advanceTimersByTime(5 * SECOND);
    peer.notify('early', 'PAID');
    await observations.next();
    for (const [quoteId, state] of [
      ['early', 'INFLIGHT'],
      ['late', 'PAID'],
      ['later', 'PAID'],
      ['first-lost', 'PAID'],
      ['unknown', 'PAID'],
    ] as const) {
      subscription.polledNews(quoteId, state);
    }
    vi.advanceTimersByTime(10 * SECOND - 1);
    peer.notify('late', 'PAID');
    await observations.next();
    peer.notify('later', 'ISSUED');
    await observations.next();
    await passTime(1);
    expect(anomalies.size).toBe(0);
    subscription.polledNews('early', 'ISSUED');
    vi.advanceTimersByTime(10 * SECOND);
    expect(await anomalies.next()).toEqual(['socket_silent', 1]);
  });

  it('is not relied on for an hour after three in a row, though its news is passed on', async () => {
    useFakeTime();
    const harness = await subscribed(['a']);
    const { subscription, observations, anomalies } = harness;
    let { peer } = harness;
    for (let silence = 0; silence < 3; silence += 1) {
      // What the mint reports as the first state of a quote proves nothing.
      peer.notify('a', 'PENDING');
      await observations.next();
      expect(subscription.covers('a')).toBe(true);
      subscription.polledNews('a', 'ISSUED');
      peer = await nextConnection(harness);
      expect(await anomalies.next()).toEqual(['socket_silent', 1]);
    }
    expect(subscription.covers('a')).toBe(false);
    peer.notify('a', 'UNPAID');
    expect(await observations.next()).toMatchObject({ quoteId: 'a', state: 'UNPAID' });
    subscription.polledNews('a', 'PAID');
    await passTime(59 * MINUTE);
    expect([subscription.covers('a'), anomalies.size]).toEqual([false, 0]);
    await passTime(MINUTE);
    expect(subscription.covers('a')).toBe(true);
  });

  it('is relied on if it reports some news by itself', async () => {
    useFakeTime();
    const harness = await subscribed(['a', 'b']);
    const { subscription, observations } = harness;
    let { peer } = harness;
    for (let silence = 0; silence < 5; silence += 1) {
      peer.notify('a', 'UNPAID');
      await observations.next();
      peer.notify('a', 'PAID');
      await observations.next();
      subscription.polledNews('a', 'ISSUED');
      peer = await nextConnection(harness);
    }
    expect(subscription.covers('b')).toBe(true);
  });
});

describe('a mint that floods its socket', () => {
  it('has no more than 32 reports of one quote passed on, which then is left to polling', async () => {
    const { subscription, peer, observations, anomalies } = await subscribed(['a', 'b']);
    for (let count = 0; count < 20; count += 1) {
      peer.notify('a', 'PENDING');
      peer.notify('a', 'PAID');
    }
    peer.notify('b', 'PAID');
    let reports = 0;
    while ((await observations.next()).quoteId === 'a') {
      reports += 1;
    }
    expect(reports).toBe(32);
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([false, true]);
    expect(await anomalies.next()).toEqual(['socket_flooding', 1]);
  });

  it('is cut off after many times what there is to report, for a time that doubles', async () => {
    const harness = await subscribed(['a'], { firstFloodRestMs: 4, stableAfterMs: MINUTE });
    const { observations, warnings, anomalies } = harness;
    let { peer } = harness;
    for (const restMs of [4, 8, 16]) {
      const ended = once(peer.socket, 'close');
      await peer.isHeard(observations, 'a');
      // The confirmation and the report are two of 1,000 and 64 for the one quote.
      for (let count = 0; count < 1_062; count += 1) {
        peer.sendText('noise');
      }
      peer.socket.ping();
      await once(peer.socket, 'pong');
      expect(warnings.size).toBe(0);
      peer.sendText('noise');
      expect(await warnings.next()).toMatchObject({ event: 'mint_socket_flooding', restMs });
      expect(await anomalies.next()).toEqual(['socket_flooding', 1]);
      // Without a closing handshake, during which the flood would go on.
      expect((await ended)[0]).toBe(1006);
      peer = await nextConnection(harness);
    }
  });

  it('is cut off for a flood of pings, and not for many in a long life', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { peer, observations, warnings } = await subscribed(['a']);
    for (let interval = 0; interval < 4; interval += 1) {
      await ping(peer, 90);
      const pinged = once(peer.socket, 'ping');
      vi.advanceTimersByTime(30 * SECOND);
      await pinged;
      await peer.isHeard(observations, 'a');
    }
    expect(warnings.size).toBe(0);
    await ping(peer, 99);
    for (let count = 0; count < 5; count += 1) {
      peer.socket.ping();
    }
    expect(await warnings.next()).toMatchObject({ event: 'mint_socket_flooding' });
  });

  it('is counted now and then for reports that were not asked for', async () => {
    useFakeTime('setInterval', 'clearInterval');
    const { peer, observations, anomalies } = await subscribed(['a']);
    for (const stranger of ['x', 'y', 'x']) {
      peer.notify(stranger, 'PAID');
    }
    await peer.isHeard(observations, 'a');
    expect(anomalies.size).toBe(0);
    vi.advanceTimersByTime(30 * SECOND);
    expect(await anomalies.next()).toEqual(['unasked', 3]);
    peer.notify('z', 'PAID');
    peer.socket.close();
    expect(await anomalies.next()).toEqual(['unasked', 1]);
  });
});

describe('the sockets of one process', () => {
  it('are bounded: a mint without one is tried again after three minutes', async () => {
    useFakeTime();
    const allowance = allowanceOf(1);
    const first = await subscribed(['a'], { allowance });
    const mint = await FakeMint.start();
    const { subscription } = subscribe(mint.url, { allowance });
    subscription.watch(['b']);
    await passTime(1);
    expect([mint.paths.length, subscription.covers('b')]).toEqual([0, false]);
    await first.subscription.close();
    await passTime(3 * MINUTE - 10);
    expect(mint.paths).toHaveLength(0);
    await passTime(10);
    await mint.connections.next();
  });

  it('are given back however they end', async () => {
    const allowance = allowanceOf(1);
    const harness = await subscribed(['a'], { allowance });
    const { mint, subscription, closings } = harness;
    mint.refusal = 404;
    harness.peer.socket.close();
    await closings.next();
    await closings.next();
    mint.refusal = null;
    let peer = await nextConnection(harness);
    subscription.polledNews('a', 'PAID');
    peer = await nextConnection(harness);
    peer.socket.terminate();
    await nextConnection(harness);
    expect(allowance.count).toBe(1);
    await subscription.close();
    expect(allowance.count).toBe(0);
  });
});

describe('closing a subscription', () => {
  it('ends its sockets, hands over what arrived, and calls nothing later', async () => {
    const { mint, subscription, peer, batches, sockets } = await subscribed(['a', 'b']);
    const closed = Promise.withResolvers<void>();
    (await sockets.next()).once('message', () => closed.resolve(subscription.close()));
    const ended = once(peer.socket, 'close');
    peer.notify('a', 'PAID');
    peer.notify('b', 'PAID');
    await closed.promise;
    await ended;
    subscription.watch(['c']);
    await turn();
    expect(batches.size).toBe(1);
    expect(await batches.next()).toMatchObject([{ quoteId: 'a', state: 'PAID' }]);
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

it('never writes an id to a log', async () => {
  const harness = await subscribed(['secret-id'], { firstFloodRestMs: 1 });
  const { subscription, logged, warnings, closings } = harness;
  harness.peer.send({ jsonrpc: '2.0', id: 0, error: { code: -32000, message: 'secret-id' } });
  harness.peer.notify('secret-id', 'PENDING');
  subscription.polledNews('secret-id', 'ISSUED');
  const peer = await nextConnection(harness);
  for (let count = 0; count < 18; count += 1) {
    peer.sendText('secret-id'.repeat(28_000));
  }
  await warnings.next();
  await closings.next();
  await subscription.close();
  expect(logged.length).toBeGreaterThan(5);
  expect(JSON.stringify(logged)).not.toContain('secret-id');
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

/** A new quote every three seconds for ten minutes; how long each waited until it was covered. */
async function streamQuotes(rateLimit: RateLimit | null) {
  useFakeTime();
  const mint = await TestMint.start({ switches: { rateLimit }, now: () => performance.now() });
  cleanups.push(() => mint.close());
  const { subscription, answers } = subscribe(mint.url, SUBSCRIPTION_TIMING);
  const watchedAtMs = new Map<string, number>();
  const coveredAfterMs: number[] = [];
  const stepMs = 25;
  for (let atMs = 0; atMs < 12 * MINUTE; atMs += stepMs) {
    if (atMs % (3 * SECOND) === 0 && atMs < 10 * MINUTE) {
      watchedAtMs.set(`quote-${atMs}`, atMs);
      subscription.watch([`quote-${atMs}`]);
    }
    vi.advanceTimersByTime(stepMs);
    // A handshake and an answer take some turns.
    for (let turns = 0; turns < (watchedAtMs.size > 0 ? 8 : 1); turns += 1) {
      await turn();
    }
    for (const [quoteId, sinceMs] of watchedAtMs) {
      if (subscription.covers(quoteId)) {
        watchedAtMs.delete(quoteId);
        coveredAfterMs.push(atMs + stepMs - sinceMs);
      }
    }
  }
  const outcomes = answers.takeAll();
  return { coveredAfterMs, refusals: outcomes.filter((each) => each === 'rate_limited').length };
}

/** So many pings one after the other: the WebSocket library cuts off more at once. */
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
  allowance?: SocketAllowance;
  limiter?: MintRateLimiter;
}

function allowanceOf(max: number): SocketAllowance {
  return new SocketAllowance({ max, ownMints: [], allowPrivateNetworks: true });
}

/** A subscription to a fake mint that has confirmed these quotes. */
async function subscribed(
  quoteIds: string[],
  { mint: ofTest, ...options }: HarnessOptions & { mint?: FakeMint } = {},
  mintOptions: { autoPong?: boolean } = {},
) {
  const mint = ofTest ?? (await FakeMint.start(mintOptions));
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

function subscribe(
  mintUrl: string,
  {
    allowance = allowanceOf(10),
    limiter = createLimiter().limiter,
    ...timing
  }: HarnessOptions = {},
) {
  const batches = new Inbox<readonly QuoteObservation[]>();
  const observations = new Inbox<QuoteObservation>();
  const answers = new Inbox<string>();
  const closings = new Inbox<number>();
  const warnings = new Inbox<object>();
  const anomalies = new Inbox<[MintAnomaly, number]>();
  const sockets = new Inbox<WebSocket>();
  const logged: unknown[] = [];
  const connect = guardedSocketConnector({ allowPrivateNetworks: true });
  const subscription = new MintSubscription({
    mintUrl,
    connect: (url) => {
      const socket = connect(url);
      sockets.put(socket);
      return socket;
    },
    limiter,
    allowance,
    anomalies: { report: (_mintUrl, anomaly, times = 1) => anomalies.put([anomaly, times]) },
    onObservations: (batch) => {
      batches.put(batch);
      for (const observation of batch) {
        observations.put(observation);
      }
    },
    monotonicMs: () => performance.now(),
    logger: {
      debug: (fields: { outcome?: string; reconnectInMs?: number }, message = '') => {
        logged.push(fields, message);
        if (fields.outcome !== undefined) {
          answers.put(fields.outcome);
        }
        if (fields.reconnectInMs !== undefined) {
          closings.put(fields.reconnectInMs);
        }
      },
      warn: (fields: object, message = '') => {
        logged.push(fields, message);
        warnings.put(fields);
      },
    },
    timing: { ...FAST, ...timing },
  });
  cleanups.push(() => subscription.close());
  return {
    subscription,
    batches,
    observations,
    answers,
    closings,
    warnings,
    anomalies,
    sockets,
    logged,
  };
}

async function createQuote(mint: TestMint) {
  const guarded = new GuardedFetch({ allowPrivateNetworks: true });
  cleanups.push(() => guarded.close());
  const anomalies = { report: () => {} };
  const client = new MintClient({ fetch: guarded, anomalies: anomalies as never, clock: Date.now });
  const answer = await client.createQuote(mint.url, { amountSat: 21 });
  if (answer.outcome !== 'created') {
    throw new Error(answer.outcome);
  }
  return answer.quote;
}

function idsOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}
