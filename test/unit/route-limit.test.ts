import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  MINT_LIMITER_TIMING,
  type RequestOutcome,
  RouteLimit,
  type SentRequest,
} from '../../src/mints/route-limit.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** The longest rest, and the time that a known limit counts. */
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

  it('remembers a bounded number of requests, and learns no limit beyond it', () => {
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
    expect(route.limit.known).toBeNull();
    expect(route.limit.used(0)).toBeLessThanOrEqual(8_000);
  });

  it('rests two seconds after a stray 429, sends one request, and then doubles', () => {
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
    expect(route.limit.known).toBeNull();
  });

  it('rests 2 s, 4 s, 61 s, and then one to three times as long while the mint keeps refusing', () => {
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

  it('counts refusals of requests that were under way together as one', () => {
    const route = new TestedRoute();
    const requests = route.sendMany(5);
    route.pass(SECOND);
    route.settleAll(requests, BARE_429);
    expect(route.waitMs()).toBe(2 * SECOND);
    route.pass(2 * SECOND);
    route.request(BARE_429);
    expect(route.waitMs()).toBe(4 * SECOND);
  });

  it('assumes a limit when tests are refused repeatedly at the same count', () => {
    const route = new TestedRoute();
    route.requestMany(20, SUCCESS);
    route.refuse(2);
    expect(route.limit.known).toBeNull();
    route.refuse(1);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
  });

  it('assumes none if tests are refused at very different counts', () => {
    const route = new TestedRoute();
    route.requestMany(20, SUCCESS);
    route.refuse(2);
    route.requestMany(20, SUCCESS);
    route.refuse(2);
    expect(route.limit.known).toBeNull();
  });

  it('assumes none if the mint accepted more requests in between', () => {
    const route = new TestedRoute();
    route.requestMany(20, SUCCESS);
    route.refuse(2);
    route.requestMany(2, SUCCESS);
    route.pass(LONG);
    route.requestMany(20, SUCCESS);
    route.refuse(2);
    expect(route.limit.known).toBeNull();
  });

  it('assumes none of a mint that refuses everything', () => {
    const route = new TestedRoute();
    route.refuse(20);
    expect(route.limit.known).toBeNull();
  });
});

describe('Retry-After', () => {
  it('of zero says nothing', () => {
    const route = new TestedRoute();
    route.request({ outcome: 'rate_limited', retryAfterMs: 0 });
    expect(route.waitMs()).toBe(2 * SECOND);
  });

  it('is respected exactly, and proves no lasting limit', () => {
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
    expect(route.limit.known).toBeNull();
  });

  it('is not shortened by a later answer', () => {
    const route = new TestedRoute();
    const [first, second] = route.sendMany(2) as [SentRequest, SentRequest];
    route.settle(first, { outcome: 'rate_limited', retryAfterMs: MINUTE });
    route.settle(second, { outcome: 'rate_limited', retryAfterMs: SECOND });
    expect(route.waitMs()).toBe(MINUTE);
  });
});

describe('a known limit', () => {
  it('is used but for one in twenty, and counts a request for 61 s from its answer', () => {
    const route = TestedRoute.limitedTo(40);
    const first = route.send();
    route.pass(5 * SECOND);
    route.settle(first, SUCCESS);
    route.requestMany(37, SUCCESS);
    expect(route.waitMs()).toBe(LONG);
    route.pass(LONG);
    expect(route.waitMs()).toBe(0);
  });

  it('gives one address group at most half of it while others use it too', () => {
    const route = TestedRoute.limitedTo(40);
    route.request(SUCCESS, 'b');
    route.requestMany(19, SUCCESS, 'a');
    expect([route.waitMs('a'), route.waitMs('b'), route.waitMs('c')]).toEqual([LONG, 0, 0]);
  });

  it('leaves a sixth to newcomers if one address group is alone', () => {
    const route = TestedRoute.limitedTo(40);
    route.requestMany(32, SUCCESS, 'a');
    expect([route.waitMs('a'), route.waitMs('b')]).toEqual([LONG, 0]);
    expect(route.waitMs()).toBe(0);
  });

  it('does not count what never reached the mint', () => {
    const route = TestedRoute.limitedTo(20);
    for (let count = 0; count < 100; count += 1) {
      route.limit.withdraw(route.send());
    }
    expect([route.waitMs(), route.limit.used(route.nowMs)]).toEqual([0, 0]);
  });

  it('is tried every two minutes, one request at a time, and kept if the mint refuses', () => {
    const route = TestedRoute.limitedTo(20);
    route.pass(2 * MINUTE);
    route.requestMany(20, SUCCESS);
    const probe = route.send();
    expect(route.waitMs()).toBe(Number.POSITIVE_INFINITY);
    route.settle(probe, BARE_429);
    expect(route.waitMs()).toBe(2 * SECOND);
    route.pass(2 * SECOND);
    expect(route.waitMs()).toBe(59 * SECOND);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
  });

  it('is raised by half at the first success beyond it, and dropped at the second', () => {
    const route = TestedRoute.limitedTo(20);
    route.pass(2 * MINUTE);
    route.requestMany(21, SUCCESS);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
    route.request(SUCCESS);
    expect(route.limit.known).toEqual({ count: 30, isElastic: false });
    route.requestMany(10, SUCCESS);
    expect(route.limit.known).toBeNull();
  });

  it('is not raised by requests that the mint may have counted in different minutes', () => {
    const route = TestedRoute.limitedTo(20);
    route.pass(2 * MINUTE);
    route.requestMany(10, SUCCESS);
    route.pass(56 * SECOND);
    route.requestMany(15, SUCCESS);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
  });

  it('is lowered when tests are refused repeatedly at a lower count', () => {
    const route = TestedRoute.limitedTo(40);
    route.requestMany(10, SUCCESS);
    route.refuse(2);
    route.pass(LONG);
    route.requestMany(10, SUCCESS);
    route.refuse(2);
    expect(route.limit.known).toEqual({ count: 10, isElastic: false });
  });

  it('is not replaced by one that another process learned', () => {
    const route = TestedRoute.limitedTo(40);
    route.limit.adopt({ count: 5, isElastic: true }, route.nowMs);
    expect(route.limit.known).toEqual({ count: 40, isElastic: false });
  });
});

describe('an elastic window', () => {
  it('is assumed when the mint keeps refusing fewer requests than its limit', () => {
    const route = TestedRoute.limitedTo(20);
    for (let count = 0; count < 20; count += 1) {
      route.pass(4 * SECOND);
      route.request(SUCCESS);
    }
    route.refuse(2);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
    route.refuse(1);
    expect(route.limit.known).toEqual({ count: 20, isElastic: true });
  });

  it('is not assumed because of a stray 429', () => {
    const route = TestedRoute.limitedTo(20);
    route.requestMany(5, SUCCESS);
    route.refuse(1);
    route.pass(2 * SECOND);
    expect(route.waitMs()).toBe(0);
    route.request(SUCCESS);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
    expect(route.waitMs()).toBe(0);
  });

  it('gets requests in runs, each after a quiet minute', () => {
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

  it('is not disturbed by tries: they continue a run that began when they were due', () => {
    const route = TestedRoute.limitedTo(20, { isElastic: true });
    route.pass(MINUTE + 50 * SECOND);
    route.requestMany(19, SUCCESS);
    route.pass(20 * SECOND);
    expect(route.waitMs()).toBe(LONG - 20 * SECOND);
    route.pass(LONG - 20 * SECOND);
    route.requestMany(20, SUCCESS);
    route.request(BARE_429);
    expect(route.waitMs()).toBe(LONG);
    expect(route.limit.known).toEqual({ count: 20, isElastic: true });
  });

  it('is no longer assumed when tests are refused in the middle of a run', () => {
    const route = TestedRoute.limitedTo(200, { isElastic: true });
    route.requestMany(20, SUCCESS);
    route.refuse(3);
    expect(route.limit.known).toEqual({ count: 20, isElastic: false });
  });
});

describe('a mint that fails', () => {
  it('is asked less often after five failures in a row, every ten seconds at most', () => {
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

  it('is asked again at once after a request that timed out', () => {
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

/** A route whose clock the test moves. */
class TestedRoute {
  readonly limit = new RouteLimit(MINT_LIMITER_TIMING);
  nowMs = 1_000_000;

  /** A route with a limit that another process learned just now. */
  static limitedTo(count: number, { isElastic = false } = {}): TestedRoute {
    const route = new TestedRoute();
    route.limit.adopt({ count, isElastic }, route.nowMs);
    return route;
  }

  pass(durationMs: number): void {
    this.nowMs += durationMs;
  }

  waitMs(addressGroup?: string): number {
    return this.limit.waitMs(this.nowMs, addressGroup);
  }

  send(addressGroup?: string): SentRequest {
    return this.limit.send(this.nowMs, addressGroup);
  }

  sendMany(count: number): SentRequest[] {
    return Array.from({ length: count }, () => this.send());
  }

  settle(request: SentRequest, outcome: RequestOutcome): void {
    this.limit.settle(request, outcome, this.nowMs);
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

  /** So many requests in a row that the mint refuses, each as soon as it may be sent. */
  refuse(times: number): void {
    for (let time = 0; time < times; time += 1) {
      this.pass(this.waitMs() || 1);
      this.request(BARE_429);
    }
  }
}
