import { describe, expect, it } from 'vitest';
import { type RequestResult, RouteRateLimiter } from '../../../src/mints/route-rate-limiter.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const MAX_IN_FLIGHT = 16;

const ACCEPTED: RequestResult = { outcome: 'created' };
const REFUSED: RequestResult = { outcome: 'rate_limited', retryAfterMs: null };
const FAILED: RequestResult = { outcome: 'unavailable', reason: 'connection refused' };

describe('RouteRateLimiter', () => {
  it('pauses for 2 s after a stray 429, sends one request, and then ever more at a time', () => {
    const route = new Route();
    route.send({ outcome: 'rate_limited', retryAfterMs: 0 });
    expect(route.getWaitMs()).toBe(2 * SECOND_MS);
    route.advance(2 * SECOND_MS);
    for (const concurrent of [1, 2, 4, 8, 16]) {
      expect(route.sendWhilePossible()).toBe(concurrent);
      route.end(ACCEPTED);
    }
  });

  it('finds the quiet minute of a mint whose Retry-After is too short', () => {
    const route = new Route();
    const pauses = Array.from({ length: 6 }, () => {
      route.send({ outcome: 'rate_limited', retryAfterMs: 5 * SECOND_MS });
      const waitMs = route.getWaitMs();
      route.advance(waitMs);
      return Math.floor(waitMs / SECOND_MS);
    });
    expect(pauses.slice(0, 3)).toEqual([5, 5, 5]);
    expect(pauses.at(-1)).toBeGreaterThanOrEqual(61);
  });

  it('does not prolong a pause for requests that were pending when it began', () => {
    const route = new Route();
    expect(route.sendWhilePossible()).toBe(MAX_IN_FLIGHT);
    route.advance(500);
    route.endAll(REFUSED);
    expect(route.getWaitMs()).toBe(2 * SECOND_MS);
  });

  it('pauses briefly after five failures in a row, and for at most ten seconds', () => {
    const route = new Route();
    const pauses = Array.from({ length: 10 }, () => {
      route.send(FAILED);
      const waitMs = route.getWaitMs();
      route.advance(waitMs);
      return waitMs / SECOND_MS;
    });
    expect(pauses).toEqual([0, 0, 0, 0, 1, 2, 4, 8, 10, 10]);
    route.send(ACCEPTED);
    route.send(FAILED);
    expect(route.getWaitMs()).toBe(0);
  });

  it('does not pause after timeouts that took longer than the pause', () => {
    const route = new Route();
    for (let i = 0; i < 10; i += 1) {
      route.recordSent();
      route.advance(15 * SECOND_MS);
      route.end(FAILED);
      expect(route.getWaitMs()).toBe(0);
    }
    expect(route.sendWhilePossible()).toBe(1);
  });

  it('gives an address group ten requests a minute of a mint that limits them, while another one asks', () => {
    const route = new Route();
    route.refuseUntilLimited();
    route.advance(MINUTE_MS);
    const countAccepted = (group: string) => {
      let count = 0;
      while (route.getWaitMs(group) === 0 && count < 20) {
        route.send(ACCEPTED, group);
        count += 1;
      }
      return count;
    };
    expect(countAccepted('alone')).toBe(20);
    route.advance(2 * MINUTE_MS);
    route.recordClient('other');
    expect(countAccepted('alone')).toBe(10);
    expect(countAccepted('other')).toBe(10);
    route.advance(62 * SECOND_MS);
    expect(countAccepted('alone')).toBe(10);
  });

  it('sends at full speed again after the mint accepted a hundred requests in a row', () => {
    const route = new Route();
    route.refuseUntilLimited();
    expect(route.limiter.hasRefusedLately).toBe(true);
    route.advance(2 * MINUTE_MS);
    for (let i = 0; i < 100; i += 1) {
      expect(route.limiter.hasRefusedLately).toBe(true);
      expect(route.sendWhilePossible()).toBeLessThanOrEqual(2);
      route.endAll(ACCEPTED, { atMost: 1 });
    }
    expect(route.limiter.hasRefusedLately).toBe(false);
  });

  it('waits for a quiet window until the mint has accepted 45 requests in a row', () => {
    const route = new Route();
    route.refuseUntilLimited();
    const pauses = [0, 20, 45].map((accepted) => {
      for (let i = 0; i < accepted; i += 1) {
        route.send(ACCEPTED);
        route.advance(SECOND_MS);
      }
      route.send(REFUSED);
      const pauseMs = route.getWaitMs();
      route.advance(pauseMs);
      return Math.round(pauseMs / MINUTE_MS);
    });
    expect(pauses).toEqual([1, 1, 0]);
  });
});

class Route {
  readonly limiter = new RouteRateLimiter();
  #nowMs = MINUTE_MS;
  readonly #sentAtMs: number[] = [];

  advance(durationMs: number): void {
    this.#nowMs += durationMs;
  }

  getWaitMs(addressGroup: string | null = null): number {
    return this.limiter.getWaitMs(this.#nowMs, addressGroup);
  }

  recordClient(addressGroup: string): void {
    this.limiter.recordClient(this.#nowMs, addressGroup);
  }

  recordSent(): void {
    this.limiter.recordSent();
    this.#sentAtMs.push(this.#nowMs);
  }

  send(result: RequestResult, addressGroup?: string): void {
    if (addressGroup !== undefined) {
      this.recordClient(addressGroup);
    }
    this.recordSent();
    this.end(result, addressGroup);
  }

  end(result: RequestResult, addressGroup: string | null = null): void {
    const sentAtMs = this.#sentAtMs.shift() ?? expect.fail('no request is in flight');
    this.limiter.recordEnd();
    this.limiter.recordResult({ sentAtMs, addressGroup }, result, this.#nowMs);
  }

  endAll(result: RequestResult, { atMost = Number.POSITIVE_INFINITY } = {}): void {
    for (let ended = 0; this.#sentAtMs.length > 0 && ended < atMost; ended += 1) {
      this.end(result);
    }
  }

  sendWhilePossible(): number {
    while (this.getWaitMs() === 0) {
      this.recordSent();
    }
    return this.#sentAtMs.length;
  }

  refuseUntilLimited(): void {
    while (!this.limiter.hasRefusedLately) {
      this.send(REFUSED);
      this.advance(this.getWaitMs());
    }
  }
}
