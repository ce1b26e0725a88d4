import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import type { Clock } from '../../src/domain/clock.ts';
import type { QuoteObservation } from '../../src/domain/quote.ts';
import { MintClient } from '../../src/mint/mint-client.ts';
import { MintConduct } from '../../src/mint/mint-conduct.ts';
import { MintSubscription, type SocketMisconduct } from '../../src/mint/mint-subscription.ts';
import { SocketAllowance } from '../../src/mint/socket-allowance.ts';
import { DEFAULT_TIMING, type SubscriptionTiming } from '../../src/mint/subscription-timing.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';

/** Everything at once, except for what only a peer meets that is dead or sick. */
const FAST: SubscriptionTiming = {
  batchMs: 1,
  regroupMs: 1,
  messageRefillMs: 0.01,
  quietMs: 1,
  firstReconnectMs: 1,
  longestReconnectMs: 2,
  rateLimitRestMs: 1,
  floodRestMs: 1,
  noPlaceRestMs: 1,
  stableAfterMs: 0,
  pingIntervalMs: 60_000,
  shortestLifeMs: 0,
  answerTimeoutMs: 60_000,
  settledAfterMs: 0,
  silenceGraceMs: 60_000,
  distrustMs: 3_600_000,
  uncoveredAfterMs: 60_000,
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

  it('gives the places of forgotten quotes to older ones, without hurry', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const ids = idsOf('quote', 800);
    const { subscription, peer, observations } = await covered(ids, { regroupMs: 30_000 });
    vi.advanceTimersByTime(1);
    subscription.unwatch(ids.slice(-10));
    vi.advanceTimersByTime(29_999);
    await peer.heardBy(observations, 'quote-100');
    expect(peer.calls.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect((await peer.calls.next()).params.filters).toEqual(ids.slice(40, 50));
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

  it('keeps to what the mint allows where every connection is cut at once', async () => {
    const mint = await FakeMint.start();
    const { subscription, sentAt } = subscribe(mint.url, { messageRefillMs: 10 });
    subscription.watch(['a']);
    let received = 0;
    while (received < 60) {
      const peer = await mint.connections.next();
      await peer.calls.next();
      peer.socket.terminate();
      received += 2;
    }
    expect(sentAt.length).toBeGreaterThanOrEqual(received);
    for (const first of sentAt) {
      const inOneMinute = sentAt.filter((at) => at >= first && at < first + 12 * 10);
      expect(inOneMinute.length).toBeLessThanOrEqual(18);
    }
  });

  it('comes back in time to a mint after the clock was set back', async () => {
    let offsetMs = 0;
    const { mint, peer, openings } = await covered(['a'], { clock: () => Date.now() + offsetMs });
    expect(await openings.next()).toBe(true);
    peer.socket.close();
    expect(await openings.next()).toBe(false);
    offsetMs = -3_600_000;
    expect((await (await mint.connections.next()).calls.next()).params.filters).toEqual(['a']);
  });

  it('watches a new quote at once after the clock was set ahead', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let offsetMs = 0;
    const { subscription, peer } = await covered(['a'], {
      clock: () => Date.now() + offsetMs,
      regroupMs: 30_000,
    });
    vi.advanceTimersByTime(1);
    subscription.unwatch(['a']);
    offsetMs = 3_600_000;
    subscription.watch(['b']);
    vi.advanceTimersByTime(1);
    expect((await peer.calls.next()).params.filters).toEqual(['b']);
  });

  it('tells a state once, and on a new connection once more', async () => {
    const harness = await covered(['a', 'b']);
    const { peer, observations } = harness;
    for (const state of ['UNPAID', 'UNPAID', 'PAID', 'PAID', 'UNPAID']) {
      peer.notify({ quote: 'a', state });
    }
    peer.notify({ quote: 'b', state: 'UNPAID' });
    const told = [];
    for (let count = 0; count < 4; count += 1) {
      const { quoteId, state } = await observations.next();
      told.push([quoteId, state]);
    }
    expect(told).toEqual([
      ['a', 'UNPAID'],
      ['a', 'PAID'],
      ['a', 'UNPAID'],
      ['b', 'UNPAID'],
    ]);
    peer.socket.close();
    const next = await coveredAgain(harness);
    next.notify({ quote: 'b', state: 'UNPAID' });
    expect(await observations.next()).toMatchObject({ quoteId: 'b', state: 'UNPAID' });
  });

  it('gives up a connection on which the mint does not answer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const harness = await covered(['a'], { answerTimeoutMs: 15_000 });
    const { mint, subscription, peer, endings, warnings } = harness;
    const ended = once(peer.socket, 'close');
    for (const quoteId of ['b', 'c']) {
      subscription.watch([quoteId]);
      vi.advanceTimersByTime(1);
      await peer.calls.next();
    }
    vi.advanceTimersByTime(15_000);
    await endings.next();
    await ended;
    vi.advanceTimersByTime(2);
    await coveredAgain(harness);
    expect(['a', 'b', 'c'].map((quoteId) => subscription.covers(quoteId))).toEqual([
      true,
      true,
      true,
    ]);
    expect([endings.size, warnings.size, mint.paths.length]).toEqual([0, 0, 2]);
  });

  it('keeps a connection on which the mint has answered, if only to refuse', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const { mint, subscription, peer, observations, answers } = await covered(['a'], {
      answerTimeoutMs: 15_000,
    });
    subscription.watch(['b']);
    vi.advanceTimersByTime(1);
    peer.refuse(await peer.calls.next());
    expect(await answers.next()).toBe(false);
    vi.advanceTimersByTime(15_000);
    await turn();
    await peer.heardBy(observations, 'a');
    expect(mint.paths).toHaveLength(1);
  });
});

describe('a mint that refuses a message because there were too many', () => {
  it.each([
    ['without saying which', 0, 'Error: Rate limit exceeded'],
    ['by its number', 3, 'RATE LIMIT reached, try later'],
    ['of which it knows no number', null, 'rate limit'],
  ])(
    '%s, keeps its connection, and is asked again after more than a minute',
    async (_, id, message) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
      const harness = await covered(['a'], { ...LIMITED, answerTimeoutMs: 15_000 });
      const { mint, subscription, peer, observations, answers, endings, warnings } = harness;
      for (const quoteId of ['b', 'c']) {
        subscription.watch([quoteId]);
        vi.advanceTimersByTime(1);
        await peer.calls.next();
      }
      peer.send({ jsonrpc: '2.0', error: { code: -32000, message }, id });
      await peer.heardBy(observations, 'a');
      expect(coveredOf(subscription, ['a', 'b', 'c'])).toEqual(['a']);
      subscription.watch(['d']);
      vi.advanceTimersByTime(64_999);
      await turn();
      await peer.heardBy(observations, 'a');
      expect([peer.calls.size, endings.size, warnings.size, mint.paths.length]).toEqual([
        0, 0, 0, 1,
      ]);
      vi.advanceTimersByTime(1);
      const again = await peer.calls.next();
      expect(again.params.filters).toEqual(['b', 'c', 'd']);
      peer.confirm(again);
      expect(await answers.next()).toBe(true);
      expect(coveredOf(subscription, ['a', 'b', 'c', 'd'])).toEqual(['a', 'b', 'c', 'd']);
    },
  );

  it('is believed where it then says OK to one that seemed to be refused too', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const harness = await covered(['a'], LIMITED);
    const { subscription, peer, observations, answers, endings, misconduct } = harness;
    subscription.watch(['b']);
    vi.advanceTimersByTime(1);
    const call = await peer.calls.next();
    peer.refuseForTooMany();
    peer.confirm(call);
    expect(await answers.next()).toBe(true);
    expect(coveredOf(subscription, ['a', 'b'])).toEqual(['a', 'b']);
    peer.notify({ quote: 'b', state: 'PAID' });
    expect(await observations.next()).toMatchObject({ quoteId: 'b', state: 'PAID' });
    vi.advanceTimersByTime(65_000);
    await peer.heardBy(observations, 'a');
    expect(peer.calls.size).toBe(0);
    peer.socket.close();
    await endings.next();
    expect(misconduct.size).toBe(0);
  });

  it('is not asked for a new connection either, where this one ends', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const { peer, observations, endings, connected } = await covered(['a'], LIMITED);
    peer.refuseForTooMany();
    await peer.heardBy(observations, 'a');
    peer.socket.close();
    await endings.next();
    vi.advanceTimersByTime(64_999);
    expect(connected.size).toBe(1);
    vi.advanceTimersByTime(1);
    expect(connected.size).toBe(2);
  });

  it('is sparingly used from then on, and so is one that refused a connection', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const mint = await FakeMint.start();
    mint.refusal = 500;
    const { subscription, sentAt, openings, endings, answers } = subscribe(mint.url, LIMITED);
    subscription.watch(['a']);
    vi.advanceTimersByTime(1);
    await endings.next();
    mint.refusal = null;
    vi.advanceTimersByTime(65_000);
    const peer = await mint.connections.next();
    await openings.next();
    for (const [quoteId, gapMs] of [
      ['a', 834],
      ['b', 1_667],
      ['c', 2_500],
    ] as const) {
      subscription.watch([quoteId]);
      const sent = sentAt.length;
      vi.advanceTimersByTime(gapMs - 1);
      expect(sentAt).toHaveLength(sent);
      vi.advanceTimersByTime(1);
      const call = await peer.calls.next();
      expect(call.params.filters).toEqual([quoteId]);
      peer.confirm(call);
      await answers.next();
    }
  });

  it('keeps its used-up connection until another may be both opened and used', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const ids = idsOf('old', 700);
    const harness = await covered(ids, LIMITED);
    const { mint, subscription, peer, observations, answers } = harness;
    peer.refuseForTooMany();
    await peer.heardBy(observations, 'old-0');
    vi.advanceTimersByTime(65_000);
    for (const id of idsOf('new', 14)) {
      subscription.watch([id]);
      vi.advanceTimersByTime(5_000);
      peer.confirm(await peer.calls.next());
      await answers.next();
    }
    subscription.unwatch(ids.slice(1));
    const many = idsOf('many', 700);
    subscription.watch(many);
    vi.advanceTimersByTime(1);
    peer.confirm(await peer.calls.next());
    await answers.next();
    vi.advanceTimersByTime(60_999);
    await peer.heardBy(observations, 'old-0');
    expect(subscription.covers('old-0')).toBe(true);
    vi.advanceTimersByTime(1);
    const next = await mint.connections.next();
    vi.advanceTimersByTime(1_000);
    expect((await next.calls.next()).params.filters).toHaveLength(715);
  });
});

describe('one new quote every three seconds, for ten minutes', () => {
  it('is covered within five seconds where the mint has no limit', async () => {
    const { refusals, inTime, inAll } = await watchStream(null);
    expect({ refusals, inAll }).toEqual({ refusals: 0, inAll: 200 });
    // Two come just when a connection that has had its hundred subscriptions makes way for another.
    expect(inTime).toBeGreaterThanOrEqual(198);
  });

  it('is refused once by a mint with a limit, and more than half is covered in time', async () => {
    const { refusals, inTime, inAll, sockets } = await watchStream({ perMinute: 20 });
    expect({ refusals, inAll, sockets }).toEqual({ refusals: 1, inAll: 200, sockets: 1 });
    expect(inTime).toBeGreaterThanOrEqual(110);
  });
});

describe('a socket that is open but silent', () => {
  it.each([
    ['has never told a state', []],
    ['has told an earlier state', ['UNPAID']],
  ])('is opened anew when a poll brings a payment and it %s', async (_, states) => {
    const harness = await covered(['secret-id'], { silenceGraceMs: 1 });
    const { subscription, peer, observations, warnings, misconduct } = harness;
    const ended = once(peer.socket, 'close');
    for (const state of states) {
      peer.notify({ quote: 'secret-id', state });
      await observations.next();
    }
    subscription.polledNews('secret-id', 'PAID');
    const warning = await warnings.next();
    expect(warning).toMatchObject({ message: "a mint's socket is silent", isTrusted: true });
    expect(JSON.stringify(warning)).not.toContain('secret-id');
    expect(await misconduct.next()).toEqual(['socket_silent', 1]);
    await ended;
    await coveredAgain(harness);
    expect(subscription.covers('secret-id')).toBe(true);
    expect([warnings.size, misconduct.size]).toEqual([0, 0]);
  });

  it('is found out too when it did not tell that a quote was issued', async () => {
    const { subscription, peer, observations, warnings } = await covered(['a'], {
      silenceGraceMs: 1,
    });
    peer.notify({ quote: 'a', state: 'PAID' });
    await observations.next();
    subscription.unwatch(['a']);
    subscription.polledNews('a', 'ISSUED');
    expect(await warnings.next()).toMatchObject({ fault: 'silent' });
  });

  it('is not suspected of what it told before, soon after, or need not have told', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const ids = ['early', 'late', 'later', 'fresh'];
    const { mint, subscription, peer, observations, warnings } = await covered(ids, {
      settledAfterMs: 5_000,
      silenceGraceMs: 10_000,
    });
    for (const quote of ids) {
      peer.notify({ quote, state: 'UNPAID' });
      await observations.next();
    }
    subscription.polledNews('fresh', 'PAID');
    vi.advanceTimersByTime(5_000);
    peer.notify({ quote: 'early', state: 'PAID' });
    await observations.next();
    subscription.polledNews('early', 'INFLIGHT');
    subscription.polledNews('late', 'PAID');
    subscription.polledNews('later', 'PAID');
    subscription.polledNews('unknown', 'PAID');
    vi.advanceTimersByTime(9_999);
    peer.notify({ quote: 'late', state: 'PAID' });
    peer.notify({ quote: 'later', state: 'ISSUED' });
    await observations.next();
    await observations.next();
    vi.advanceTimersByTime(10_000);
    await turn();
    expect([warnings.size, mint.paths.length]).toEqual([0, 1]);
    subscription.polledNews('early', 'ISSUED');
    vi.advanceTimersByTime(10_000);
    expect(await warnings.next()).toMatchObject({ fault: 'silent' });
  });

  it('is not relied on for an hour after three such in a row, though its news are passed on', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const harness = await covered(['a'], { silenceGraceMs: 10_000 });
    const { mint, subscription, observations, uncovered, warnings } = harness;
    const peer = await beSilentThrice(harness);
    const since = Date.now() - 2;
    expect(subscription.covers('a')).toBe(false);
    expect(await uncovered.next()).toBe('uncovered');
    peer.notify({ quote: 'a', state: 'UNPAID' });
    expect(await observations.next()).toMatchObject({ quoteId: 'a', state: 'UNPAID' });
    subscription.polledNews('a', 'PAID');
    vi.advanceTimersByTime(10_000);
    await turn();
    expect([warnings.size, mint.paths.length]).toEqual([0, 4]);

    vi.setSystemTime(since + 3_599_999);
    expect(subscription.covers('a')).toBe(false);
    vi.setSystemTime(since + 3_600_000);
    expect(subscription.covers('a')).toBe(true);
    subscription.polledNews('a', 'ISSUED');
    vi.advanceTimersByTime(10_000);
    expect(await warnings.next()).toMatchObject({ fault: 'silent', isTrusted: false });
    expect(uncovered.size).toBe(1);
  });

  it('is relied on again as soon as it tells news before the polls do', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const ids = ['a', 'b', 'c', 'd'];
    const harness = await covered(ids, { silenceGraceMs: 10_000 });
    const { subscription, observations } = harness;
    const peer = await beSilentThrice(harness);
    for (const quote of ids) {
      peer.notify({ quote, state: 'UNPAID' });
      await observations.next();
    }
    subscription.polledNews('a', 'PAID');
    for (const quote of ids) {
      expect(subscription.covers('a')).toBe(false);
      peer.notify({ quote, state: 'PAID' });
      await observations.next();
    }
    expect(subscription.covers('a')).toBe(true);
  });
});

describe('a mint that floods its socket', () => {
  it('has no more than 32 states of one quote passed on, which polling then covers alone', async () => {
    const { subscription, peer, observations, misconduct } = await covered(['a', 'b']);
    for (let count = 0; count < 20; count += 1) {
      peer.notify({ quote: 'a', state: 'PENDING' });
      peer.notify({ quote: 'a', state: 'PAID' });
    }
    peer.notify({ quote: 'b', state: 'PAID' });
    const ofA = [];
    let observation = await observations.next();
    while (observation.quoteId === 'a') {
      ofA.push(observation);
      observation = await observations.next();
    }
    expect(ofA).toHaveLength(32);
    expect([subscription.covers('a'), subscription.covers('b')]).toEqual([false, true]);
    peer.socket.close();
    expect(await misconduct.next()).toEqual(['socket_flooding', 8]);
  });

  it('is cut off after many times what there is to say, for a time that doubles', async () => {
    const harness = await covered(['a'], { floodRestMs: 4 });
    const { observations, warnings, misconduct } = harness;
    let { peer } = harness;
    for (const restMs of [4, 8, 16]) {
      const ended = once(peer.socket, 'close');
      // The confirmation and this are two of 1,000 and 64 for the one quote.
      await peer.heardBy(observations, 'a');
      for (let count = 0; count < 1_062; count += 1) {
        peer.sendText('noise');
      }
      peer.socket.ping();
      await once(peer.socket, 'pong');
      expect(warnings.size).toBe(0);
      peer.sendText('noise');
      expect(await warnings.next()).toMatchObject({
        message: "a mint's socket is flooding",
        restMs,
      });
      expect(await misconduct.next()).toEqual(['socket_flooding', 1]);
      // Without a closing handshake, during which the flood would go on.
      expect((await ended)[0]).toBe(1006);
      peer = await coveredAgain(harness);
    }
    expect([warnings.size, misconduct.size]).toEqual([0, 0]);
  });

  it('is cut off for a few huge messages too', async () => {
    const { peer, warnings } = await covered(['a']);
    for (let count = 0; count < 17; count += 1) {
      peer.sendText('x'.repeat(255 * 1024));
    }
    expect(await warnings.next()).toMatchObject({ fault: 'flooding' });
  });

  it('is cut off for a flood of pings, and not for many in a long life', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const { peer, observations, warnings, misconduct } = await covered(['a'], {
      pingIntervalMs: 30_000,
    });
    for (let interval = 0; interval < 4; interval += 1) {
      await ping(peer, 90);
      const heard = once(peer.socket, 'ping');
      vi.advanceTimersByTime(30_000);
      await heard;
      await peer.heardBy(observations, 'a');
    }
    expect(warnings.size).toBe(0);
    await ping(peer, 99);
    for (let count = 0; count < 5; count += 1) {
      peer.socket.ping();
    }
    expect(await warnings.next()).toMatchObject({ fault: 'flooding' });
    expect(await misconduct.next()).toEqual(['socket_flooding', 1]);
    expect(warnings.size).toBe(0);
  });

  it('is counted now and then for what it was never asked', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const { peer, observations, misconduct } = await covered(['a'], { pingIntervalMs: 30_000 });
    for (const stranger of ['x', 'y', 'x']) {
      peer.notify({ quote: stranger, state: 'PAID' });
    }
    await peer.heardBy(observations, 'a');
    expect([observations.size, misconduct.size]).toEqual([0, 0]);
    vi.advanceTimersByTime(30_000);
    expect(await misconduct.next()).toEqual(['unasked', 3]);
    peer.notify({ quote: 'z', state: 'PAID' });
    peer.socket.close();
    expect(await misconduct.next()).toEqual(['unasked', 1]);
  });
});

describe('whoever relied on a socket', () => {
  it('hears that it stays away, once until it was there again', async () => {
    const harness = await covered(['a'], { uncoveredAfterMs: 250 });
    const { mint, subscription, endings, uncovered } = harness;
    let { peer } = harness;
    for (let round = 0; round < 2; round += 1) {
      expect(subscription.covers('a')).toBe(true);
      mint.refusal = 404;
      peer.socket.close();
      expect(await uncovered.next()).toBe('uncovered');
      for (let attempt = 0; attempt < 10; attempt += 1) {
        await endings.next();
      }
      expect(uncovered.size).toBe(0);
      mint.refusal = null;
      peer = await coveredAgain(harness);
    }
  });

  it('hears nothing where it soon came back, or where nobody relied on it any more', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const harness = await covered(['a'], { uncoveredAfterMs: 9_000, longestReconnectMs: 10 });
    const { mint, subscription, peer, endings, uncovered } = harness;
    expect(subscription.covers('a')).toBe(true);
    peer.socket.close();
    await endings.next();
    vi.advanceTimersByTime(10);
    const next = await coveredAgain(harness);
    vi.advanceTimersByTime(60_000);
    expect(uncovered.size).toBe(0);

    mint.refusal = 404;
    next.socket.close();
    await endings.next();
    vi.advanceTimersByTime(9_000);
    expect(uncovered.size).toBe(1);
    await endings.next();
    mint.refusal = null;
    vi.advanceTimersByTime(10);
    const unasked = await coveredAgain(harness);
    expect(subscription.covers('another')).toBe(false);
    unasked.socket.close();
    mint.refusal = 404;
    await endings.next();
    vi.advanceTimersByTime(9_000);
    expect(uncovered.size).toBe(1);
  });

  it.each([
    ['refuses every socket', 404, 10],
    ['gets no socket, as the process has none to spare', null, 0],
    ['takes the socket and says nothing', null, 10],
  ])('in a process before this one hears it where the mint %s', async (_, refusal, places) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const mint = await FakeMint.start();
    mint.refusal = refusal;
    const allowance = allowanceOf(places);
    const timing = { uncoveredAfterMs: 15_000, batchMs: 5_000, noPlaceRestMs: 180_000 };
    const { subscription, uncovered } = subscribe(mint.url, { allowance, ...timing });
    vi.advanceTimersByTime(60_000);
    subscription.watch([]);
    vi.advanceTimersByTime(60_000);
    expect(uncovered.size).toBe(0);

    subscription.watch(['a']);
    vi.advanceTimersByTime(10_000);
    subscription.watch(['b']);
    vi.advanceTimersByTime(4_999);
    expect(uncovered.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect(uncovered.size).toBe(1);
    subscription.watch(['c']);
    vi.advanceTimersByTime(60_000);
    expect(uncovered.size).toBe(1);
  });

  it('in a process before this one hears it too where its socket came and then went', async () => {
    const { mint, subscription, peer, uncovered } = await covered(['a'], { uncoveredAfterMs: 5 });
    expect(subscription.covers('another')).toBe(false);
    mint.refusal = 404;
    peer.socket.close();
    expect(await uncovered.next()).toBe('uncovered');
  });

  it('hears it too where the mint takes the socket and does not confirm', async () => {
    const harness = await covered(['a'], { uncoveredAfterMs: 5 });
    const { mint, subscription, peer, uncovered } = harness;
    expect(subscription.covers('a')).toBe(true);
    peer.socket.close();
    const next = await mint.connections.next();
    next.refuse(await next.calls.next());
    expect(await uncovered.next()).toBe('uncovered');
  });
});

describe('the sockets of one process', () => {
  it('are so many and no more: a mint without one is tried again when there is place', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const allowance = allowanceOf(1);
    const first = await covered(['a'], { allowance });
    const mint = await FakeMint.start();
    const second = subscribe(mint.url, { allowance, noPlaceRestMs: 180_000 });
    second.subscription.watch(['b']);
    vi.advanceTimersByTime(1);
    expect([second.connected.size, second.subscription.covers('b')]).toEqual([0, false]);
    await first.subscription.close();
    vi.advanceTimersByTime(179_999);
    expect(second.connected.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect(second.connected.size).toBe(1);
    await mint.connections.next();
  });

  it('leave their place however they end', async () => {
    const allowance = allowanceOf(1);
    const harness = await covered(idsOf('old', 700), { allowance, silenceGraceMs: 1 });
    const { mint, subscription, endings } = harness;
    mint.refusal = 404;
    harness.peer.socket.close();
    await endings.next();
    await endings.next();
    mint.refusal = null;
    await coveredAgain(harness);
    subscription.polledNews('old-0', 'PAID');
    const afterSilence = await coveredAgain(harness);
    subscription.unwatch(idsOf('old', 700));
    subscription.watch(idsOf('new', 700));
    afterSilence.confirm(await afterSilence.calls.next());
    const afterUse = await mint.connections.next();
    expect((await afterUse.calls.next()).params.filters).toHaveLength(700);
    expect(allowance.take(mint.url)).toBe(false);
    await subscription.close();
    expect([allowance.take(mint.url), allowance.take(mint.url)]).toEqual([true, false]);
  });
});

describe('closing a subscription', () => {
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

  it('hands over what came in the same moment, and nothing later', async () => {
    const { subscription, peer, lots, sockets } = await covered(['a', 'b']);
    const closed = Promise.withResolvers<void>();
    (await sockets.next()).once('message', () => closed.resolve(subscription.close()));
    peer.notify({ quote: 'a', state: 'PAID' });
    peer.notify({ quote: 'b', state: 'PAID' });
    await closed.promise;
    await turn();
    expect(lots.size).toBe(1);
    expect(await lots.next()).toMatchObject([{ quoteId: 'a', state: 'PAID' }]);
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

/** The first connection to a fake mint that has confirmed these ids; the confirmation is known. */
async function covered(quoteIds: string[], options: HarnessOptions = {}) {
  const harness = await subscribed(quoteIds, options);
  await harness.answers.next();
  return harness;
}

/** The next connection to the mint, confirmed. */
async function coveredAgain({ mint, answers }: Awaited<ReturnType<typeof covered>>): Promise<Peer> {
  const peer = await mint.connections.next();
  peer.confirm(await peer.calls.next());
  await answers.next();
  return peer;
}

/** Three connections in a row that do not tell of `a` what a poll tells; the fourth, confirmed. */
async function beSilentThrice(harness: Awaited<ReturnType<typeof covered>>): Promise<Peer> {
  const { subscription, warnings } = harness;
  let { peer } = harness;
  for (const isTrusted of [true, true, false]) {
    expect(subscription.covers('a')).toBe(true);
    subscription.polledNews('a', 'PAID');
    vi.advanceTimersByTime(10_000);
    expect(await warnings.next()).toMatchObject({ fault: 'silent', isTrusted });
    vi.advanceTimersByTime(2);
    peer = await coveredAgain(harness);
  }
  return peer;
}

/** What a subscription has of the real time after a refusal. */
const LIMITED = {
  messageRefillMs: 5_000,
  rateLimitRestMs: 65_000,
  quietMs: 61_000,
} satisfies HarnessOptions;

const STREAM_MS = 10 * 60_000;
const QUOTE_EVERY_MS = 3_000;
const IN_TIME_MS = 5_000;

/** After the last quote, whatever waits for a quiet minute has its turn. */
const AFTERMATH_MS = 65_000;

/** How finely a stream is looked at. */
const STREAM_STEP_MS = 100;

/** Watches a stream of new quotes, with all times as they really are, and counts what comes of it. */
async function watchStream(rateLimit: TestMintSwitches['rateLimit']) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  const mint = await TestMint.start({ switches: { rateLimit }, now: () => Date.now() });
  cleanups.push(() => mint.close());
  const { subscription, sentAt, openings, answers, refusals } = subscribe(mint.url, DEFAULT_TIMING);
  const madeAt = new Map<string, number>();
  let inTime = 0;
  let inAll = 0;
  for (let atMs = 0; atMs < STREAM_MS + AFTERMATH_MS; atMs += STREAM_STEP_MS) {
    if (atMs < STREAM_MS && atMs % QUOTE_EVERY_MS === 0) {
      madeAt.set(`quote-${atMs}`, atMs);
      subscription.watch([`quote-${atMs}`]);
    }
    vi.advanceTimersByTime(STREAM_STEP_MS);
    // A connection tells both of its opening and, but for the last one, of its end.
    const socketsOf = () => Math.ceil(openings.size / 2);
    while (socketsOf() + answers.size + refusals.size < sentAt.length) {
      await turn();
    }
    for (const quoteId of coveredOf(subscription, [...madeAt.keys()])) {
      const coveredAfterMs = atMs + STREAM_STEP_MS - (madeAt.get(quoteId) ?? 0);
      madeAt.delete(quoteId);
      inTime += Number(coveredAfterMs <= IN_TIME_MS);
      inAll += 1;
    }
  }
  return { refusals: refusals.size, sockets: mint.requestCounts['GET /v1/ws'], inTime, inAll };
}

/** So many pings, one after the other: more at once are cut off by the WebSocket library. */
async function ping(peer: Peer, times: number): Promise<void> {
  for (let count = 0; count < times; count += 1) {
    const answered = once(peer.socket, 'pong');
    peer.socket.ping();
    await answered;
  }
}

function coveredOf(subscription: MintSubscription, quoteIds: string[]): string[] {
  return quoteIds.filter((quoteId) => subscription.covers(quoteId));
}

/** A whole turn of the event loop, in which whatever is due happens. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

interface HarnessOptions extends Partial<SubscriptionTiming> {
  clock?: Clock;
  allowance?: SocketAllowance;
}

/** Places for sockets to the mints of strangers. */
function allowanceOf(max: number): SocketAllowance {
  return new SocketAllowance({ max, ownMints: [], allowPrivateNetworks: true });
}

/** A subscription to a fake mint that has confirmed these ids. */
async function subscribed(quoteIds: string[], options: HarnessOptions = {}) {
  const mint = await FakeMint.start();
  const harness = subscribe(mint.url, options);
  harness.subscription.watch(quoteIds);
  if (vi.isFakeTimers() && options.pingIntervalMs === undefined) {
    vi.advanceTimersByTime(1);
  }
  const peer = await mint.connections.next();
  const first = await peer.calls.next();
  peer.confirm(first);
  return { mint, peer, first, ...harness };
}

function subscribe(
  mintUrl: string,
  { clock = Date.now, allowance = allowanceOf(10), ...timing }: HarnessOptions = {},
) {
  const lots = new Inbox<QuoteObservation[]>();
  const observations = new Inbox<QuoteObservation>();
  const openings = new Inbox<boolean>();
  const endings = new Inbox<{ refusedStatus: number | null; restMs: number }>();
  const answers = new Inbox<boolean>();
  const refusals = new Inbox<'rate limited'>();
  const warnings = new Inbox<Warning>();
  const uncovered = new Inbox<'uncovered'>();
  const misconduct = new Inbox<[SocketMisconduct, number]>();
  const connected = new Inbox<string>();
  const sockets = new Inbox<WebSocket>();
  const sentAt: number[] = [];
  let lastReading = 0;
  const readClock = () => {
    lastReading = clock();
    return lastReading;
  };
  const connect = guardedSocketConnector({ allowPrivateNetworks: true });
  const subscription = new MintSubscription({
    mintUrl,
    connect: (url) => {
      sentAt.push(lastReading);
      connected.put(url);
      const socket = connect(url);
      const send = socket.send.bind(socket);
      socket.send = (data: string) => {
        sentAt.push(lastReading);
        send(data);
      };
      sockets.put(socket);
      return socket;
    },
    allowance,
    onObservations: (lot) => {
      lots.put(lot);
      for (const observation of lot) {
        observations.put(observation);
      }
    },
    onUncovered: () => uncovered.put('uncovered'),
    onMisconduct: (kind, count) => misconduct.put([kind, count]),
    clock: readClock,
    logger: {
      debug: (fields: DebugFields, message = '') => {
        if (message === 'mint socket rate limited') {
          refusals.put('rate limited');
        }
        if (fields.isOpen !== undefined) {
          openings.put(fields.isOpen);
        }
        if (fields.restMs !== undefined) {
          endings.put({ refusedStatus: fields.refusedStatus ?? null, restMs: fields.restMs });
        }
        if (fields.isConfirmed !== undefined) {
          answers.put(fields.isConfirmed);
        }
      },
      warn: (fields: Omit<Warning, 'message'>, message = '') =>
        warnings.put({ ...fields, message }),
    },
    timing: { ...FAST, ...timing },
  });
  cleanups.push(() => subscription.close());
  return {
    subscription,
    lots,
    observations,
    openings,
    endings,
    answers,
    refusals,
    warnings,
    uncovered,
    misconduct,
    connected,
    sockets,
    sentAt,
  };
}

interface DebugFields {
  refusedStatus?: number | null;
  restMs?: number;
  isOpen?: boolean;
  isConfirmed?: boolean;
}

interface Warning {
  mintUrl: string;
  fault: string;
  restMs: number;
  isTrusted: boolean;
  message: string;
}

async function createQuote(mint: TestMint) {
  const guarded = new GuardedFetch({ allowPrivateNetworks: true });
  cleanups.push(() => guarded.close());
  const conduct = new MintConduct({ warn: () => {} });
  const client = new MintClient({ fetch: guarded, conduct, clock: Date.now });
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
  #marks = 0;

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

  /** As Nutshell does. */
  refuseForTooMany(): void {
    this.send({
      jsonrpc: '2.0',
      error: { code: -32000, message: 'Error: Rate limit exceeded' },
      id: 0,
    });
  }

  notify(payload: { quote: string; state: string }): void {
    this.send({ jsonrpc: '2.0', method: 'subscribe', params: { subId: 'any', payload } });
  }

  /** Resolves when all that was sent before has been read at the other end. */
  async heardBy(observations: Inbox<QuoteObservation>, watchedId: string): Promise<void> {
    this.notify({ quote: watchedId, state: this.#marks % 2 === 0 ? 'UNPAID' : 'PENDING' });
    this.#marks += 1;
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
      // Whoever hangs up at once need not do so politely.
      socket.on('error', () => undefined);
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
