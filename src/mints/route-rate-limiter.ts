import { z } from 'zod';
import { MAX_LEARNED_LIMIT, RequestHistory, type SentRequest } from './request-history.ts';

/** In milliseconds; tests shorten them. */
export const RATE_LIMITER_TIMING = {
  /**
   * The period in which a learned limit counts requests. Like the longest cooldown, it exceeds a minute because
   * Nutshell restarts its minute with every request.
   */
  windowMs: 61_000,
  /** The cooldown after the first 429 without `Retry-After`; after the second it is twice as long. */
  initialCooldownMs: 2_000,
  /** The cooldown after the third 429 in a row. Further ones last up to three times as long, at random. */
  maxCooldownMs: 61_000,
  /** How often the limiter tries to exceed a learned limit. */
  probeIntervalMs: 120_000,
  /** The first pause after repeated failures; it doubles with each further failure. */
  initialBackoffMs: 1_000,
  maxBackoffMs: 10_000,
  /** How long a payer's request waits for a permit. */
  payerMaxWaitMs: 8_000,
};

export type RateLimiterTiming = typeof RATE_LIMITER_TIMING;

const REJECTIONS_BEFORE_MAX_COOLDOWN = 3;

/** Concurrent requests on one route; more would only queue at the mint. */
const MAX_IN_FLIGHT = 16;

/** Consecutive failures before requests pause: a healthy but busy mint fails now and then. */
const FAILURES_BEFORE_BACKOFF = 5;

/** A learned limit of a route, as it is stored for other processes. */
export const learnedLimitSchema = z.object({
  /** Requests per window. */
  count: z.int().positive(),
  /** Whether every request, accepted or rejected, restarts the mint's window (Nutshell). */
  isElastic: z.boolean(),
});

export type LearnedLimit = z.infer<typeof learnedLimitSchema>;

export interface RequestOutcome {
  /** `rate_limited`, `unavailable`, or anything else for a request that the mint processed. */
  outcome: string;
  /** With `rate_limited`: the value of `Retry-After`; null if the mint did not send it. */
  retryAfterMs?: number | null;
  /** With `unavailable`: the cause, for the log. */
  reason?: string;
}

/**
 * Decides when requests may be sent on one route of one mint. Times are milliseconds of a monotonic clock.
 *
 * - After a 429 the route cools down: for the time in `Retry-After`, otherwise for 2 s, 4 s, 61 s, and then one to
 *   three minutes at random while the mint keeps rejecting. After a cooldown a single trial request is sent;
 *   the number of concurrent requests then doubles with every success.
 * - A lasting limit is assumed after the mint has rejected several trial requests at a similar count. At first
 *   it applies to a sliding window. If the mint rejects fewer requests than that, its window is elastic: every
 *   request restarts it, so requests are sent in bursts, each after a quiet window.
 * - Every two minutes, probes exceed a learned limit. The first success raises the limit by half, the second
 *   drops it.
 * - After several consecutive failures requests pause, for at most ten seconds.
 */
export class RouteRateLimiter {
  learnedLimit: LearnedLimit | null = null;
  readonly #timing: RateLimiterTiming;
  readonly #history: RequestHistory;
  #inFlight = 0;
  #maxInFlight = MAX_IN_FLIGHT;
  #cooldownStartedAtMs = Number.NEGATIVE_INFINITY;
  #cooldownUntilMs = Number.NEGATIVE_INFINITY;
  #consecutiveRejections = 0;
  #consecutiveFailures = 0;
  /** The count at which the mint last rejected a trial request; null if it has accepted more since. */
  #rejectedCount: number | null = null;
  #nextProbeAtMs = 0;
  /** Whether a probe raised the limit since the last rejection. */
  #isLimitRaised = false;

  constructor(timing: RateLimiterTiming) {
    this.#timing = timing;
    this.#history = new RequestHistory(timing.windowMs);
  }

  /** Returns the milliseconds until the current cooldown ends, or 0. */
  getCooldownMs(nowMs: number): number {
    return Math.max(0, this.#cooldownUntilMs - nowMs);
  }

  /** Returns the number of requests that count towards a limit now. */
  countUsed(nowMs: number): number {
    this.#history.prune(nowMs, this.#isElastic);
    return this.#history.requests.length;
  }

  /**
   * Returns the milliseconds until a request may be sent; 0 is now. `Infinity` means after a pending request
   * has completed.
   *
   * @param addressGroup the payer's; limits its share of a learned limit
   */
  getWaitMs(nowMs: number, addressGroup: string | null = null): number {
    const cooldownMs = this.getCooldownMs(nowMs);
    if (cooldownMs > 0) {
      return cooldownMs;
    }
    if (this.#inFlight >= this.#maxInFlight) {
      return Number.POSITIVE_INFINITY;
    }
    if (this.learnedLimit === null) {
      return 0;
    }
    this.#history.prune(nowMs, this.#isElastic);
    if (this.#isProbing(nowMs)) {
      return this.#getProbeWaitMs(this.learnedLimit.count, nowMs);
    }
    const usable = usableLimit(this.learnedLimit.count);
    const waitMs = this.#getCapacityWaitMs(this.#history.requests, usable, nowMs);
    return addressGroup === null
      ? waitMs
      : Math.max(waitMs, this.#getShareWaitMs(addressGroup, usable, nowMs));
  }

  recordSent(nowMs: number, addressGroup: string | null = null): SentRequest {
    this.#history.prune(nowMs, this.#isElastic);
    this.#inFlight += 1;
    return this.#history.add(nowMs, addressGroup);
  }

  /** Removes a request that never reached the mint. */
  cancel(request: SentRequest): void {
    this.#inFlight -= 1;
    this.#history.remove(request);
  }

  recordOutcome(request: SentRequest, outcome: RequestOutcome, nowMs: number): void {
    this.#inFlight -= 1;
    this.#history.recordResponse(request, nowMs);
    switch (outcome.outcome) {
      case 'rate_limited':
        this.#history.remove(request);
        this.#handleRateLimited(request, outcome.retryAfterMs ?? 0, nowMs);
        break;
      case 'unavailable':
        this.#handleFailure(request, nowMs);
        break;
      default:
        this.#handleSuccess(request);
    }
  }

  /** Adopts a limit that another process learned, unless this one has learned one. */
  adoptLimit(limit: LearnedLimit, nowMs: number): void {
    if (this.learnedLimit === null) {
      this.#setLimit(limit, nowMs);
    }
  }

  get #isElastic(): boolean {
    return this.learnedLimit?.isElastic === true;
  }

  #handleSuccess({ priorInWindow, priorInDisproofWindow, priorInBurst }: SentRequest): void {
    this.#maxInFlight = Math.min(this.#maxInFlight * 2, MAX_IN_FLIGHT);
    this.#consecutiveRejections = 0;
    this.#consecutiveFailures = 0;
    if (this.#rejectedCount !== null && this.#rejectedCount < priorInWindow) {
      this.#rejectedCount = null;
    }
    if (this.learnedLimit === null) {
      return;
    }
    const { count, isElastic } = this.learnedLimit;
    const prior = isElastic ? priorInBurst : priorInDisproofWindow;
    if (prior >= count + limitMargin(count)) {
      const raised = Math.ceil(count * 1.5);
      const isDropped = this.#isLimitRaised || raised > MAX_LEARNED_LIMIT;
      this.learnedLimit = isDropped ? null : { count: raised, isElastic };
      this.#isLimitRaised = true;
    }
  }

  #handleFailure({ sentAtMs }: SentRequest, nowMs: number): void {
    if (sentAtMs <= this.#cooldownStartedAtMs) {
      return;
    }
    this.#consecutiveFailures += 1;
    const backoffStep = this.#consecutiveFailures - FAILURES_BEFORE_BACKOFF;
    if (backoffStep >= 0) {
      const { initialBackoffMs, maxBackoffMs } = this.#timing;
      const backoffMs = Math.min(initialBackoffMs * 2 ** backoffStep, maxBackoffMs);
      // Counted from when the request was sent, because a timeout has waited long enough already.
      this.#startCooldown(nowMs, Math.max(0, sentAtMs + backoffMs - nowMs));
    }
  }

  #handleRateLimited(request: SentRequest, retryAfterMs: number, nowMs: number): void {
    // Servers round less than a second down to 0, which must not cause an immediate retry.
    if (retryAfterMs > 0) {
      this.#startCooldown(nowMs, retryAfterMs);
      return;
    }
    // A request that was pending when the cooldown began was rejected for the same cause.
    if (request.sentAtMs <= this.#cooldownStartedAtMs) {
      return;
    }
    this.#consecutiveRejections += 1;
    this.#isLimitRaised = false;
    const prior = this.#isElastic ? request.priorInBurst : request.priorInWindow;
    const isAtLimit = this.learnedLimit !== null && prior >= usableLimit(this.learnedLimit.count);
    if (isAtLimit) {
      this.#nextProbeAtMs = nowMs + this.#timing.probeIntervalMs;
    }
    this.#startCooldown(nowMs, this.#chooseCooldownMs(isAtLimit));
    if (this.#consecutiveRejections > 1) {
      this.#learnLimit(request, nowMs);
    }
  }

  #chooseCooldownMs(isAtLimit: boolean): number {
    const { initialCooldownMs, maxCooldownMs } = this.#timing;
    const rejections = this.#consecutiveRejections;
    if (rejections > REJECTIONS_BEFORE_MAX_COOLDOWN) {
      // Another process may be restarting the mint's elastic window. At random, one of them finds a quiet window.
      return maxCooldownMs * (1 + 2 * Math.random());
    }
    const isMax = rejections === REJECTIONS_BEFORE_MAX_COOLDOWN || (isAtLimit && this.#isElastic);
    return isMax ? maxCooldownMs : initialCooldownMs * 2 ** (rejections - 1);
  }

  #startCooldown(nowMs: number, durationMs: number): void {
    this.#cooldownStartedAtMs = nowMs;
    this.#cooldownUntilMs = Math.max(this.#cooldownUntilMs, nowMs + durationMs);
    this.#maxInFlight = 1;
  }

  /** Assumes a limit if the mint rejected two trial requests at a similar count. After a stray 429, they succeed. */
  #learnLimit({ priorInWindow, priorInBurst }: SentRequest, nowMs: number): void {
    const previousCount = this.#rejectedCount;
    this.#rejectedCount = priorInWindow;
    const isElastic =
      this.learnedLimit?.isElastic === false &&
      this.#consecutiveRejections >= REJECTIONS_BEFORE_MAX_COOLDOWN &&
      priorInBurst > priorInWindow;
    if (isElastic) {
      this.#setLimit({ count: priorInBurst, isElastic }, nowMs);
    } else if (previousCount !== null) {
      const lowest = Math.min(previousCount, priorInWindow);
      const highest = Math.max(previousCount, priorInWindow);
      const isSimilar = highest - lowest <= Math.max(2, highest / 10);
      if (isSimilar && lowest > 0) {
        this.#setLimit({ count: lowest, isElastic }, nowMs);
      }
    }
  }

  #setLimit(limit: LearnedLimit, nowMs: number): void {
    if (limit.count <= MAX_LEARNED_LIMIT) {
      this.learnedLimit = limit;
      this.#nextProbeAtMs = nowMs + this.#timing.probeIntervalMs;
      this.#rejectedCount = null;
    }
  }

  /** Whether requests may exceed the limit now. In an elastic window, that takes a new burst. */
  #isProbing(nowMs: number): boolean {
    const sinceMs = this.#isElastic ? this.#history.burstStartedAtMs : nowMs;
    return sinceMs >= this.#nextProbeAtMs;
  }

  /** Requests that exceed the limit are sent one at a time. */
  #getProbeWaitMs(count: number, nowMs: number): number {
    const { requests, disproofWindowMs } = this.#history;
    if (requests.length >= usableLimit(count) && this.#inFlight > 0) {
      return Number.POSITIVE_INFINITY;
    }
    const allowed = count + limitMargin(count) + 1;
    if (this.#isElastic) {
      return this.#getCapacityWaitMs(requests, allowed, nowMs);
    }
    const recent = this.#history.listWithin(disproofWindowMs, nowMs);
    return this.#getCapacityWaitMs(recent, allowed, nowMs, disproofWindowMs);
  }

  /**
   * While payers of several address groups use a learned limit, each group gets at most half of it. A single
   * group leaves a sixth to others.
   */
  #getShareWaitMs(addressGroup: string, usable: number, nowMs: number): number {
    const { requests } = this.#history;
    const groupRequests = requests.filter((request) => request.addressGroup === addressGroup);
    const share = groupRequests.length < requests.length ? usable / 2 : (usable * 5) / 6;
    return this.#getCapacityWaitMs(groupRequests, Math.max(1, Math.ceil(share)), nowMs);
  }

  /** Returns the milliseconds until fewer than `allowed` of these requests count. */
  #getCapacityWaitMs(
    requests: readonly SentRequest[],
    allowed: number,
    nowMs: number,
    windowMs = this.#history.windowMs,
  ): number {
    const excess = requests.length - allowed;
    if (excess < 0) {
      return 0;
    }
    const last = this.#isElastic ? undefined : requests[excess];
    const countedAtMs = last?.countedAtMs ?? this.#history.lastActivityAtMs;
    return Math.max(1, countedAtMs + windowMs - nowMs);
  }
}

/** How far a learned limit may be off, because the mint may count a little differently. */
function limitMargin(count: number): number {
  return Math.max(1, Math.floor(count / 20));
}

function usableLimit(count: number): number {
  return Math.max(1, count - limitMargin(count));
}
