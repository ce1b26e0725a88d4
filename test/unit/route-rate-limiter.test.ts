import { afterEach, describe, expect, it, vi } from 'vitest';
import type { SentRequest } from '../../src/mints/request-history.ts';
import {
  RATE_LIMITER_TIMING,
  type RequestOutcome,
  RouteRateLimiter,
} from '../../src/mints/route-rate-limiter.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** The longest cooldown, and the window of a known limit. */
const LONG = 61 * SECOND;

const SUCCESS = { outcome: 'created' };
const FAILURE = { outcome: 'unavailable' };
const BARE_429 = { outcome: 'rate_limited', retryAfterMs: null };

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a route without a known limit', () => {
  it('permits any number of requests, sixteen at a time', () => {
    const route = new TestedRoute();
    const requests = route.sendMany(16);
    expect(route.waitMs()).toBe(Number.POSITIVE_INFINITY);
    route.settleAll(requests, SUCCESS);
    for (let count = 0; count < 1_000; count += 1) {
      expect(route.waitMs()).toBe(0);
      route.request(SUCCESS);
    }
  });

  it('remembers a bounded number of requests and learns no limit beyond it', () => {
    const route = new TestedRoute();
    for (let round = 0; round < 3; round += 1) {
      for (let count = 0; count < 10_000; count += 1) {
        route.request(SUCCESS);
      }
      route.request(BARE_429);
      route.pass(2 * SECOND);
      route.request(BARE_429);
      route.pass(LONG);
    }
    for (let count = 0; count < 10_000; count += 1) {
      route.request(SUCCESS);
    }
    expect(route.limit.learnedLimit).toBeNull();
    expect(route.limit.countUsed(0)).toBeLessThanOrEqual(8_000);
  });

  it('pauses two seconds after a stray 429, sends one request, and then doubles', () => {
    const route = new TestedRoute();
    route.request(SUCCESS);
    route.request(BARE_429);
    expect(route.waitMs()).toBe(2 * SECOND);
    route.pass(2 * SECOND);
    for (const allowed of [1, 2, 8, 16]) {
      const requests = route.sendMany(allowed);
      expect(route.waitMs()).toBe(Number.POSITIVE_INFINITY);
      route.settleAll(requests, SUCCESS);
    }
    expect(route.limit.learnedLimit).toBeNull();
  });

  it('pauses 2 s, 4 s, 61 s, and then one to three times as long while the mint keeps returning 429', () => {
    vi.spyOn(Math, 'random')
      .mockReturnValueOnce(0)
      .mockReturnValueOnce(0.25)
      .mockReturnValueOnce(1);
    const route = new TestedRoute();
    for (const restMs of [2 * SECOND, 4 * SECOND, LONG, LONG, 1.5 * LONG, 3 * LONG]) {
      route.request(BARE_429);
      expect(route.waitMs()).toBe(restMs);
      route.pass(restMs);
    }
    route.request(SUCCESS);
    route.request(BARE_429);
    expect(route.waitMs()).toBe(2 * SECOND);
  });

  it('counts rejections of concurrent requests as one', () => {
    const route = new TestedRoute();
    const requests = route.sendMany(5);
    route.pass(SECOND);
    route.settleAll(requests, BARE_429);
    expect(route.waitMs()).toBe(2 * SECOND);
    route.pass(2 * SECOND);
    route.request(BARE_429);
    expect(route.waitMs()).toBe(4 * SECOND);
  });

  it('assumes a limit when probes are rejected repeatedly at the same count', () => {
    const route = new TestedRoute();
    route.requestMany(20, SUCCESS);
    route.reject(2);
    expect(route.limit.learnedLimit).toBeNull();
    route.reject(1);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
  });

  it('assumes no limit if probes are rejected at very different counts', () => {
    const route = new TestedRoute();
    route.requestMany(20, SUCCESS);
    route.reject(2);
    route.requestMany(20, SUCCESS);
    route.reject(2);
    expect(route.limit.learnedLimit).toBeNull();
  });

  it('assumes no limit if the mint accepted more requests in between', () => {
    const route = new TestedRoute();
    route.requestMany(20, SUCCESS);
    route.reject(2);
    route.requestMany(2, SUCCESS);
    route.pass(LONG);
    route.requestMany(20, SUCCESS);
    route.reject(2);
    expect(route.limit.learnedLimit).toBeNull();
  });

  it('assumes no limit for a mint that rejects everything', () => {
    const route = new TestedRoute();
    route.reject(20);
    expect(route.limit.learnedLimit).toBeNull();
  });
});

describe('Retry-After', () => {
  it('is ignored if it is zero', () => {
    const route = new TestedRoute();
    route.request({ outcome: 'rate_limited', retryAfterMs: 0 });
    expect(route.waitMs()).toBe(2 * SECOND);
  });

  it('is respected exactly and does not create a limit', () => {
    const route = new TestedRoute();
    for (let count = 0; count < 5; count += 1) {
      route.requestMany(10, SUCCESS);
      route.request({ outcome: 'rate_limited', retryAfterMs: 17_500 });
      expect(route.waitMs()).toBe(17_500);
      route.pass(17_499);
      expect(route.waitMs()).toBe(1);
      route.pass(1);
      expect(route.waitMs()).toBe(0);
    }
    expect(route.limit.learnedLimit).toBeNull();
  });

  it('is not shortened by a later response', () => {
    const route = new TestedRoute();
    const [first, second] = route.sendMany(2) as [SentRequest, SentRequest];
    route.settle(first, { outcome: 'rate_limited', retryAfterMs: MINUTE });
    route.settle(second, { outcome: 'rate_limited', retryAfterMs: SECOND });
    expect(route.waitMs()).toBe(MINUTE);
  });
});

describe('a known limit', () => {
  it('is used up to 95 %, and counts a request for 61 s from its response', () => {
    const route = TestedRoute.limitedTo(40);
    const first = route.send();
    route.pass(5 * SECOND);
    route.settle(first, SUCCESS);
    route.requestMany(37, SUCCESS);
    expect(route.waitMs()).toBe(LONG);
    route.pass(LONG);
    expect(route.waitMs()).toBe(0);
  });

  it('gives one address group at most half while other groups are active', () => {
    const route = TestedRoute.limitedTo(40);
    route.request(SUCCESS, 'b');
    route.requestMany(19, SUCCESS, 'a');
    expect([route.waitMs('a'), route.waitMs('b'), route.waitMs('c')]).toEqual([LONG, 0, 0]);
  });

  it('leaves a sixth for newcomers if one address group is alone', () => {
    const route = TestedRoute.limitedTo(40);
    route.requestMany(32, SUCCESS, 'a');
    expect([route.waitMs('a'), route.waitMs('b')]).toEqual([LONG, 0]);
    expect(route.waitMs()).toBe(0);
  });

  it('does not count requests that never reached the mint', () => {
    const route = TestedRoute.limitedTo(20);
    for (let count = 0; count < 100; count += 1) {
      route.limit.cancel(route.send());
    }
    expect([route.waitMs(), route.limit.countUsed(route.nowMs)]).toEqual([0, 0]);
  });

  it('is probed every two minutes, one request at a time, and kept if the mint returns 429', () => {
    const route = TestedRoute.limitedTo(20);
    route.pass(2 * MINUTE);
    route.requestMany(20, SUCCESS);
    const probe = route.send();
    expect(route.waitMs()).toBe(Number.POSITIVE_INFINITY);
    route.settle(probe, BARE_429);
    expect(route.waitMs()).toBe(2 * SECOND);
    route.pass(2 * SECOND);
    expect(route.waitMs()).toBe(59 * SECOND);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
  });

  it('is raised by half at the first success beyond it and dropped at the second', () => {
    const route = TestedRoute.limitedTo(20);
    route.pass(2 * MINUTE);
    route.requestMany(21, SUCCESS);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
    route.request(SUCCESS);
    expect(route.limit.learnedLimit).toEqual({ count: 30, isElastic: false });
    route.requestMany(10, SUCCESS);
    expect(route.limit.learnedLimit).toBeNull();
  });

  it('is not raised by requests that the mint may have counted in different windows', () => {
    const route = TestedRoute.limitedTo(20);
    route.pass(2 * MINUTE);
    route.requestMany(10, SUCCESS);
    route.pass(56 * SECOND);
    route.requestMany(15, SUCCESS);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
  });

  it('is lowered when probes are rejected repeatedly at a lower count', () => {
    const route = TestedRoute.limitedTo(40);
    route.requestMany(10, SUCCESS);
    route.reject(2);
    route.pass(LONG);
    route.requestMany(10, SUCCESS);
    route.reject(2);
    expect(route.limit.learnedLimit).toEqual({ count: 10, isElastic: false });
  });

  it('is not replaced by one that another process learned', () => {
    const route = TestedRoute.limitedTo(40);
    route.limit.adoptLimit({ count: 5, isElastic: true }, route.nowMs);
    expect(route.limit.learnedLimit).toEqual({ count: 40, isElastic: false });
  });
});

describe('an elastic window', () => {
  it('is assumed when the mint keeps rejecting fewer requests than its limit', () => {
    const route = TestedRoute.limitedTo(20);
    for (let count = 0; count < 20; count += 1) {
      route.pass(4 * SECOND);
      route.request(SUCCESS);
    }
    route.reject(2);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
    route.reject(1);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: true });
  });

  it('is not assumed after a stray 429', () => {
    const route = TestedRoute.limitedTo(20);
    route.requestMany(5, SUCCESS);
    route.reject(1);
    route.pass(2 * SECOND);
    expect(route.waitMs()).toBe(0);
    route.request(SUCCESS);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
    expect(route.waitMs()).toBe(0);
  });

  it('receives requests in bursts, each after a quiet minute', () => {
    const route = TestedRoute.limitedTo(20, { isElastic: true });
    for (let run = 0; run < 2; run += 1) {
      for (let count = 0; count < 19; count += 1) {
        expect(route.waitMs()).toBe(0);
        route.request(SUCCESS);
        route.pass(2 * SECOND);
      }
      expect(route.waitMs()).toBe(LONG - 2 * SECOND);
      route.pass(LONG - 2 * SECOND);
    }
  });

  it('is not disturbed by probes: they continue a burst that began when they were due', () => {
    const route = TestedRoute.limitedTo(20, { isElastic: true });
    route.pass(MINUTE + 50 * SECOND);
    route.requestMany(19, SUCCESS);
    route.pass(20 * SECOND);
    expect(route.waitMs()).toBe(LONG - 20 * SECOND);
    route.pass(LONG - 20 * SECOND);
    route.requestMany(20, SUCCESS);
    route.request(BARE_429);
    expect(route.waitMs()).toBe(LONG);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: true });
  });

  it('is no longer assumed when probes are rejected in the middle of a burst', () => {
    const route = TestedRoute.limitedTo(200, { isElastic: true });
    route.requestMany(20, SUCCESS);
    route.reject(3);
    expect(route.limit.learnedLimit).toEqual({ count: 20, isElastic: false });
  });
});

describe('a mint that fails', () => {
  it('receives fewer requests after five failures in a row, at intervals of up to ten seconds', () => {
    const route = new TestedRoute();
    const pausesMs: number[] = [];
    for (let count = 0; count < 10; count += 1) {
      route.pass(1);
      route.request(FAILURE);
      pausesMs.push(route.waitMs());
      route.pass(route.waitMs());
    }
    expect(pausesMs).toEqual([0, 0, 0, 0, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    route.request(SUCCESS);
    route.request(FAILURE);
    expect(route.waitMs()).toBe(0);
  });

  it('receives the next request immediately after a timeout', () => {
    const route = new TestedRoute();
    for (let count = 0; count < 10; count += 1) {
      const request = route.send();
      route.pass(15 * SECOND);
      route.settle(request, FAILURE);
      expect(route.waitMs()).toBe(0);
    }
    route.send();
    expect(route.waitMs()).toBe(Number.POSITIVE_INFINITY);
  });

  it('is not paused by requests that were sent before', () => {
    const route = new TestedRoute();
    const requests = route.sendMany(16);
    route.pass(500);
    route.settleAll(requests, FAILURE);
    expect(route.waitMs()).toBe(500);
  });
});

/** A route with a manual clock. */
class TestedRoute {
  readonly limit = new RouteRateLimiter(RATE_LIMITER_TIMING);
  nowMs = 1_000_000;

  /** Creates a route with a limit that another process just learned. */
  static limitedTo(count: number, { isElastic = false } = {}): TestedRoute {
    const route = new TestedRoute();
    route.limit.adoptLimit({ count, isElastic }, route.nowMs);
    return route;
  }

  pass(durationMs: number): void {
    this.nowMs += durationMs;
  }

  waitMs(addressGroup?: string): number {
    return this.limit.getWaitMs(this.nowMs, addressGroup);
  }

  send(addressGroup?: string): SentRequest {
    return this.limit.recordSent(this.nowMs, addressGroup);
  }

  sendMany(count: number): SentRequest[] {
    return Array.from({ length: count }, () => this.send());
  }

  settle(request: SentRequest, outcome: RequestOutcome): void {
    this.limit.recordOutcome(request, outcome, this.nowMs);
  }

  settleAll(requests: SentRequest[], outcome: RequestOutcome): void {
    for (const request of requests) {
      this.settle(request, outcome);
    }
  }

  request(outcome: RequestOutcome, addressGroup?: string): void {
    this.settle(this.send(addressGroup), outcome);
  }

  requestMany(count: number, outcome: RequestOutcome, addressGroup?: string): void {
    for (let sent = 0; sent < count; sent += 1) {
      this.request(outcome, addressGroup);
    }
  }

  /** Sends requests that the mint rejects with 429, each as soon as it is permitted. */
  reject(times: number): void {
    for (let time = 0; time < times; time += 1) {
      this.pass(this.waitMs() || 1);
      this.request(BARE_429);
    }
  }
}
