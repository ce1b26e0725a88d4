import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  RATE_LIMITER_TIMING,
  type RequestOutcome,
  RouteRateLimiter,
  type SentRequest,
} from '../../../src/mints/route-rate-limiter.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** How long a learned limit counts a request. */
const WINDOW_MS = 61 * SECOND_MS;
const MAX_COOLDOWN_MS = 61 * SECOND_MS;

const SUCCESS = { outcome: 'created' };
const FAILURE = { outcome: 'unavailable' };
const RATE_LIMITED = { outcome: 'rate_limited', retryAfterMs: null };

afterEach(() => {
  vi.restoreAllMocks();
});

describe('RouteRateLimiter without a learned limit', () => {
  it('permits any number of requests but only 16 at a time', () => {
    const harness = new LimiterHarness();
    const requests = harness.sendMany(16);
    expect(harness.getWaitMs()).toBe(Number.POSITIVE_INFINITY);
    harness.completeAll(requests, SUCCESS);
    for (let count = 0; count < 1_000; count += 1) {
      expect(harness.getWaitMs()).toBe(0);
      harness.sendAndComplete(SUCCESS);
    }
  });

  it('remembers at most 8,000 requests and learns no limit from a 429 after 10,000', () => {
    const harness = new LimiterHarness();
    for (let round = 0; round < 3; round += 1) {
      for (let count = 0; count < 10_000; count += 1) {
        harness.sendAndComplete(SUCCESS);
      }
      harness.sendAndComplete(RATE_LIMITED);
      harness.advance(2 * SECOND_MS);
      harness.sendAndComplete(RATE_LIMITED);
      harness.advance(WINDOW_MS);
    }
    for (let count = 0; count < 10_000; count += 1) {
      harness.sendAndComplete(SUCCESS);
    }
    expect(harness.limiter.learnedLimit).toBeNull();
    expect(harness.limiter.countUsed(0)).toBeLessThanOrEqual(8_000);
  });

  it('after one 429, waits 2 s, permits one request at a time, and doubles that with each success', () => {
    const harness = new LimiterHarness();
    harness.sendAndComplete(SUCCESS);
    harness.sendAndComplete(RATE_LIMITED);
    expect(harness.getWaitMs()).toBe(2 * SECOND_MS);
    harness.advance(2 * SECOND_MS);
    for (const allowed of [1, 2, 8, 16]) {
      const requests = harness.sendMany(allowed);
      expect(harness.getWaitMs()).toBe(Number.POSITIVE_INFINITY);
      harness.completeAll(requests, SUCCESS);
    }
    expect(harness.limiter.learnedLimit).toBeNull();
  });

  it('waits 2 s, 4 s, 61 s and then 61 to 183 s at random while the mint keeps returning 429', () => {
    vi.spyOn(Math, 'random')
      .mockReturnValueOnce(0)
      .mockReturnValueOnce(0.25)
      .mockReturnValueOnce(1);
    const harness = new LimiterHarness();
    for (const cooldownMs of [
      2 * SECOND_MS,
      4 * SECOND_MS,
      MAX_COOLDOWN_MS,
      MAX_COOLDOWN_MS,
      1.5 * MAX_COOLDOWN_MS,
      3 * MAX_COOLDOWN_MS,
    ]) {
      harness.sendAndComplete(RATE_LIMITED);
      expect(harness.getWaitMs()).toBe(cooldownMs);
      harness.advance(cooldownMs);
    }
    harness.sendAndComplete(SUCCESS);
    harness.sendAndComplete(RATE_LIMITED);
    expect(harness.getWaitMs()).toBe(2 * SECOND_MS);
  });

  it('counts the 429 responses to concurrent requests as one rejection', () => {
    const harness = new LimiterHarness();
    const requests = harness.sendMany(5);
    harness.advance(SECOND_MS);
    harness.completeAll(requests, RATE_LIMITED);
    expect(harness.getWaitMs()).toBe(2 * SECOND_MS);
    harness.advance(2 * SECOND_MS);
    harness.sendAndComplete(RATE_LIMITED);
    expect(harness.getWaitMs()).toBe(4 * SECOND_MS);
  });

  it('learns a limit if the mint rejects three requests in a row at the same count', () => {
    const harness = new LimiterHarness();
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendRejected(2);
    expect(harness.limiter.learnedLimit).toBeNull();
    harness.sendRejected(1);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
  });

  it('learns no limit if the mint rejects requests at very different counts', () => {
    const harness = new LimiterHarness();
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendRejected(2);
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendRejected(2);
    expect(harness.limiter.learnedLimit).toBeNull();
  });

  it('learns no limit if the mint accepted more requests between the rejections', () => {
    const harness = new LimiterHarness();
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendRejected(2);
    harness.sendAndCompleteMany(2, SUCCESS);
    harness.advance(WINDOW_MS);
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendRejected(2);
    expect(harness.limiter.learnedLimit).toBeNull();
  });

  it('learns no limit if the mint rejects every request', () => {
    const harness = new LimiterHarness();
    harness.sendRejected(20);
    expect(harness.limiter.learnedLimit).toBeNull();
  });
});

describe('RouteRateLimiter after a 429 with Retry-After', () => {
  it('ignores a Retry-After of zero', () => {
    const harness = new LimiterHarness();
    harness.sendAndComplete({ outcome: 'rate_limited', retryAfterMs: 0 });
    expect(harness.getWaitMs()).toBe(2 * SECOND_MS);
  });

  it('waits exactly as long as Retry-After and learns no limit', () => {
    const harness = new LimiterHarness();
    for (let count = 0; count < 5; count += 1) {
      harness.sendAndCompleteMany(10, SUCCESS);
      harness.sendAndComplete({ outcome: 'rate_limited', retryAfterMs: 17_500 });
      expect(harness.getWaitMs()).toBe(17_500);
      harness.advance(17_499);
      expect(harness.getWaitMs()).toBe(1);
      harness.advance(1);
      expect(harness.getWaitMs()).toBe(0);
    }
    expect(harness.limiter.learnedLimit).toBeNull();
  });

  it('does not shorten the wait for a later response with a shorter Retry-After', () => {
    const harness = new LimiterHarness();
    const [first, second] = harness.sendMany(2) as [SentRequest, SentRequest];
    harness.complete(first, { outcome: 'rate_limited', retryAfterMs: MINUTE_MS });
    harness.complete(second, { outcome: 'rate_limited', retryAfterMs: SECOND_MS });
    expect(harness.getWaitMs()).toBe(MINUTE_MS);
  });
});

describe('RouteRateLimiter with a learned limit', () => {
  it('uses 95 % of the limit and counts a request for 61 s after its response', () => {
    const harness = LimiterHarness.withLimit(40);
    const first = harness.send();
    harness.advance(5 * SECOND_MS);
    harness.complete(first, SUCCESS);
    harness.sendAndCompleteMany(37, SUCCESS);
    expect(harness.getWaitMs()).toBe(WINDOW_MS);
    harness.advance(WINDOW_MS);
    expect(harness.getWaitMs()).toBe(0);
  });

  it('gives one address group at most half of the limit while other groups are active', () => {
    const harness = LimiterHarness.withLimit(40);
    harness.sendAndComplete(SUCCESS, 'b');
    harness.sendAndCompleteMany(19, SUCCESS, 'a');
    expect([harness.getWaitMs('a'), harness.getWaitMs('b'), harness.getWaitMs('c')]).toEqual([
      WINDOW_MS,
      0,
      0,
    ]);
  });

  it('leaves a sixth of the limit to other address groups while only one is active', () => {
    const harness = LimiterHarness.withLimit(40);
    harness.sendAndCompleteMany(32, SUCCESS, 'a');
    expect([harness.getWaitMs('a'), harness.getWaitMs('b')]).toEqual([WINDOW_MS, 0]);
    expect(harness.getWaitMs()).toBe(0);
  });

  it('does not count requests that never reached the mint', () => {
    const harness = LimiterHarness.withLimit(20);
    for (let count = 0; count < 100; count += 1) {
      harness.limiter.cancel(harness.send());
    }
    expect([harness.getWaitMs(), harness.limiter.countUsed(harness.nowMs)]).toEqual([0, 0]);
  });

  it('exceeds the limit by one request after two minutes and keeps it if the mint returns 429', () => {
    const harness = LimiterHarness.withLimit(20);
    harness.advance(2 * MINUTE_MS);
    harness.sendAndCompleteMany(20, SUCCESS);
    const probe = harness.send();
    expect(harness.getWaitMs()).toBe(Number.POSITIVE_INFINITY);
    harness.complete(probe, RATE_LIMITED);
    expect(harness.getWaitMs()).toBe(2 * SECOND_MS);
    harness.advance(2 * SECOND_MS);
    expect(harness.getWaitMs()).toBe(59 * SECOND_MS);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
  });

  it('raises the limit by half at the first success beyond it and drops it at the second', () => {
    const harness = LimiterHarness.withLimit(20);
    harness.advance(2 * MINUTE_MS);
    harness.sendAndCompleteMany(21, SUCCESS);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
    harness.sendAndComplete(SUCCESS);
    expect(harness.limiter.learnedLimit).toEqual({ count: 30, isElastic: false });
    harness.sendAndCompleteMany(10, SUCCESS);
    expect(harness.limiter.learnedLimit).toBeNull();
  });

  it('does not raise the limit if the mint may have counted the requests in different windows', () => {
    const harness = LimiterHarness.withLimit(20);
    harness.advance(2 * MINUTE_MS);
    harness.sendAndCompleteMany(10, SUCCESS);
    harness.advance(56 * SECOND_MS);
    harness.sendAndCompleteMany(15, SUCCESS);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
  });

  it('lowers the limit if the mint repeatedly rejects requests at a lower count', () => {
    const harness = LimiterHarness.withLimit(40);
    harness.sendAndCompleteMany(10, SUCCESS);
    harness.sendRejected(2);
    harness.advance(WINDOW_MS);
    harness.sendAndCompleteMany(10, SUCCESS);
    harness.sendRejected(2);
    expect(harness.limiter.learnedLimit).toEqual({ count: 10, isElastic: false });
  });

  it('does not replace its limit by one that another process learned', () => {
    const harness = LimiterHarness.withLimit(40);
    harness.limiter.adoptLimit({ count: 5, isElastic: true }, harness.nowMs);
    expect(harness.limiter.learnedLimit).toEqual({ count: 40, isElastic: false });
  });
});

// Every request, accepted or rejected, restarts the window of a mint with an elastic limit.
describe('RouteRateLimiter with an elastic limit', () => {
  it('assumes an elastic limit after three rejections below the learned limit', () => {
    const harness = LimiterHarness.withLimit(20);
    for (let count = 0; count < 20; count += 1) {
      harness.advance(4 * SECOND_MS);
      harness.sendAndComplete(SUCCESS);
    }
    harness.sendRejected(2);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
    harness.sendRejected(1);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: true });
  });

  it('does not assume an elastic limit after one 429', () => {
    const harness = LimiterHarness.withLimit(20);
    harness.sendAndCompleteMany(5, SUCCESS);
    harness.sendRejected(1);
    harness.advance(2 * SECOND_MS);
    expect(harness.getWaitMs()).toBe(0);
    harness.sendAndComplete(SUCCESS);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
    expect(harness.getWaitMs()).toBe(0);
  });

  it('permits 19 requests in a burst and the next burst after 61 s without requests', () => {
    const harness = LimiterHarness.withLimit(20, { isElastic: true });
    for (let burst = 0; burst < 2; burst += 1) {
      for (let count = 0; count < 19; count += 1) {
        expect(harness.getWaitMs()).toBe(0);
        harness.sendAndComplete(SUCCESS);
        harness.advance(2 * SECOND_MS);
      }
      expect(harness.getWaitMs()).toBe(WINDOW_MS - 2 * SECOND_MS);
      harness.advance(WINDOW_MS - 2 * SECOND_MS);
    }
  });

  it('exceeds the limit only in a burst that starts two minutes or more after the limit was learned', () => {
    const harness = LimiterHarness.withLimit(20, { isElastic: true });
    harness.advance(MINUTE_MS + 50 * SECOND_MS);
    harness.sendAndCompleteMany(19, SUCCESS);
    harness.advance(20 * SECOND_MS);
    expect(harness.getWaitMs()).toBe(WINDOW_MS - 20 * SECOND_MS);
    harness.advance(WINDOW_MS - 20 * SECOND_MS);
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendAndComplete(RATE_LIMITED);
    expect(harness.getWaitMs()).toBe(WINDOW_MS);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: true });
  });

  it('no longer assumes an elastic limit if the mint rejects requests within a burst', () => {
    const harness = LimiterHarness.withLimit(200, { isElastic: true });
    harness.sendAndCompleteMany(20, SUCCESS);
    harness.sendRejected(3);
    expect(harness.limiter.learnedLimit).toEqual({ count: 20, isElastic: false });
  });
});

describe('RouteRateLimiter for a mint that fails', () => {
  it('pauses after the fifth failure in a row and each further one, for at most ten seconds', () => {
    const harness = new LimiterHarness();
    const pausesMs: number[] = [];
    for (let count = 0; count < 10; count += 1) {
      harness.advance(1);
      harness.sendAndComplete(FAILURE);
      pausesMs.push(harness.getWaitMs());
      harness.advance(harness.getWaitMs());
    }
    expect(pausesMs).toEqual([0, 0, 0, 0, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    harness.sendAndComplete(SUCCESS);
    harness.sendAndComplete(FAILURE);
    expect(harness.getWaitMs()).toBe(0);
  });

  it('permits one request at a time, without a pause, after each timeout', () => {
    const harness = new LimiterHarness();
    for (let count = 0; count < 10; count += 1) {
      const request = harness.send();
      harness.advance(15 * SECOND_MS);
      harness.complete(request, FAILURE);
      expect(harness.getWaitMs()).toBe(0);
    }
    harness.send();
    expect(harness.getWaitMs()).toBe(Number.POSITIVE_INFINITY);
  });

  it('does not prolong a pause for failed requests that were sent before it', () => {
    const harness = new LimiterHarness();
    const requests = harness.sendMany(16);
    harness.advance(500);
    harness.completeAll(requests, FAILURE);
    expect(harness.getWaitMs()).toBe(500);
  });
});

/** A rate limiter with a clock that the test advances. */
class LimiterHarness {
  readonly limiter = new RouteRateLimiter(RATE_LIMITER_TIMING);
  nowMs = 1_000_000;

  /** Creates a rate limiter with a limit that another process just learned. */
  static withLimit(count: number, { isElastic = false } = {}): LimiterHarness {
    const harness = new LimiterHarness();
    harness.limiter.adoptLimit({ count, isElastic }, harness.nowMs);
    return harness;
  }

  advance(durationMs: number): void {
    this.nowMs += durationMs;
  }

  getWaitMs(addressGroup?: string): number {
    return this.limiter.getWaitMs(this.nowMs, addressGroup);
  }

  send(addressGroup?: string): SentRequest {
    return this.limiter.recordSent(this.nowMs, addressGroup);
  }

  sendMany(count: number): SentRequest[] {
    return Array.from({ length: count }, () => this.send());
  }

  complete(request: SentRequest, outcome: RequestOutcome): void {
    this.limiter.recordOutcome(request, outcome, this.nowMs);
  }

  completeAll(requests: SentRequest[], outcome: RequestOutcome): void {
    for (const request of requests) {
      this.complete(request, outcome);
    }
  }

  sendAndComplete(outcome: RequestOutcome, addressGroup?: string): void {
    this.complete(this.send(addressGroup), outcome);
  }

  sendAndCompleteMany(count: number, outcome: RequestOutcome, addressGroup?: string): void {
    for (let sent = 0; sent < count; sent += 1) {
      this.sendAndComplete(outcome, addressGroup);
    }
  }

  /** Sends requests as soon as each is permitted. The mint rejects them with 429. */
  sendRejected(count: number): void {
    for (let sent = 0; sent < count; sent += 1) {
      this.advance(this.getWaitMs() || 1);
      this.sendAndComplete(RATE_LIMITED);
    }
  }
}
