import { z } from 'zod';

/** Durations in milliseconds. Tests shorten them. */
export const RATE_LIMITER_TIMING = {
  /**
   * The period to which a learned limit applies. It exceeds a minute because Nutshell's window of one minute
   * restarts with every request, also with one that arrives slightly too early.
   */
  windowMs: 61_000,
  /** The cooldown after the first 429 without `Retry-After`; after the second it is twice as long. */
  initialCooldownMs: 2_000,
  /** The cooldown after the third 429 in a row. Further cooldowns last up to three times as long, at random. */
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

/** Concurrent requests on one route. More of them would only queue at the mint. */
const MAX_IN_FLIGHT = 16;

/** Consecutive failures before requests pause. A healthy but busy mint also fails now and then. */
const FAILURES_BEFORE_BACKOFF = 5;

/** Higher limits are not learned, because remembering that many requests would cost more than a few 429s. */
const MAX_LEARNED_LIMIT = 4_000;

/**
 * A learned limit is refuted only if the mint accepts more requests within this part of the window. Over the whole
 * window, a mint can accept more although the limit applies, because some requests take longer to arrive.
 */
const SHORT_WINDOW_FRACTION = 0.9;

/** A learned limit of a route, as it is stored for other processes. */
export const learnedLimitSchema = z.object({
  /** Requests per window. */
  count: z.int().positive(),
  /** Whether every request, accepted or rejected, restarts the mint's window, as at Nutshell. */
  isElastic: z.boolean(),
});

export type LearnedLimit = z.infer<typeof learnedLimitSchema>;

export interface RequestOutcome {
  /** `rate_limited` or `unavailable`. Any other text means that the mint processed the request. */
  outcome: string;
  /** With `rate_limited`: the value of `Retry-After`; null if the mint did not send it. */
  retryAfterMs?: number | null;
  /** With `unavailable`: the cause, for the log. */
  reason?: string;
}

/** A request that was sent, and how many earlier requests counted at that time. */
export interface SentRequest {
  readonly sentAtMs: number;
  /** When the response arrived: the mint has counted the request by then. Before that, when it was sent. */
  countedAtMs: number;
  readonly addressGroup: string | null;
  readonly earlierInWindow: number;
  /** Within {@link SHORT_WINDOW_FRACTION} of the window. */
  readonly earlierInShortWindow: number;
  /** Since the last quiet window. */
  readonly earlierInBurst: number;
}

/**
 * Decides when requests may be sent on one route of one mint. Times are milliseconds of a monotonic clock.
 *
 * - Cooldown: after a 429, the route pauses for the time in `Retry-After`. Without that header, it pauses for 2 s,
 *   4 s and 61 s, and then for one to three minutes at random while the mint keeps rejecting.
 * - Trial: after a cooldown, a single request is sent. The number of concurrent requests then doubles with every
 *   success.
 * - Learning: if the mint rejects two trials at a similar count of requests, that count becomes the learned limit of
 *   a sliding window. If the mint then rejects at a lower count, its window is elastic: every request restarts it.
 *   Requests are then sent in bursts, each after a quiet window.
 * - Probe: every two minutes, requests exceed the learned limit. The first success raises the limit by half, the
 *   second removes it.
 * - Backoff: after several consecutive failures, requests pause for at most ten seconds.
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
  /** The count of requests at which the mint last rejected a trial; null if it has accepted more since. */
  #rejectedCount: number | null = null;
  #nextProbeAtMs = 0;
  /** Whether a probe raised the limit since the last rejection. */
  #isLimitRaised = false;

  constructor(timing: RateLimiterTiming) {
    this.#timing = timing;
    this.#history = new RequestHistory(timing.windowMs);
  }

  getCooldownMs(nowMs: number): number {
    return Math.max(0, this.#cooldownUntilMs - nowMs);
  }

  /** Returns the number of requests that count towards a limit now. */
  countUsed(nowMs: number): number {
    this.#history.prune(nowMs, this.#isElastic);
    return this.#history.requests.length;
  }

  /**
   * Returns the milliseconds until a request may be sent; `Infinity` if a pending request has to complete first.
   *
   * @param addressGroup of the waiting payer. It gets only a share of a learned limit. Null without a payer
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

  /** Adopts a limit that another process learned, unless this process has learned a limit. */
  adoptLimit(limit: LearnedLimit, nowMs: number): void {
    if (this.learnedLimit === null) {
      this.#setLimit(limit, nowMs);
    }
  }

  get #isElastic(): boolean {
    return this.learnedLimit?.isElastic === true;
  }

  #handleSuccess({ earlierInWindow, earlierInShortWindow, earlierInBurst }: SentRequest): void {
    this.#maxInFlight = Math.min(this.#maxInFlight * 2, MAX_IN_FLIGHT);
    this.#consecutiveRejections = 0;
    this.#consecutiveFailures = 0;
    if (this.#rejectedCount !== null && this.#rejectedCount < earlierInWindow) {
      this.#rejectedCount = null;
    }
    if (this.learnedLimit === null) {
      return;
    }
    const { count, isElastic } = this.learnedLimit;
    const earlierRequests = isElastic ? earlierInBurst : earlierInShortWindow;
    if (earlierRequests >= count + limitMargin(count)) {
      const raisedCount = Math.ceil(count * 1.5);
      const isRemoved = this.#isLimitRaised || raisedCount > MAX_LEARNED_LIMIT;
      this.learnedLimit = isRemoved ? null : { count: raisedCount, isElastic };
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
      // The pause starts when the request was sent: after a timeout, the route has already waited that long.
      this.#startCooldown(nowMs, Math.max(0, sentAtMs + backoffMs - nowMs));
    }
  }

  #handleRateLimited(request: SentRequest, retryAfterMs: number, nowMs: number): void {
    // `Retry-After: 0` counts as absent, because servers round less than a second down to 0.
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
    const earlierRequests = this.#isElastic ? request.earlierInBurst : request.earlierInWindow;
    const isAtLimit =
      this.learnedLimit !== null && earlierRequests >= usableLimit(this.learnedLimit.count);
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
      // Several processes may keep restarting the mint's elastic window. Random pauses let one of them find it quiet.
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

  /** Learns a limit if the mint rejected two trials at a similar count. Without a limit, the trials succeed. */
  #learnLimit({ earlierInWindow, earlierInBurst }: SentRequest, nowMs: number): void {
    const previousCount = this.#rejectedCount;
    this.#rejectedCount = earlierInWindow;
    const isElastic =
      this.learnedLimit?.isElastic === false &&
      this.#consecutiveRejections >= REJECTIONS_BEFORE_MAX_COOLDOWN &&
      earlierInBurst > earlierInWindow;
    if (isElastic) {
      this.#setLimit({ count: earlierInBurst, isElastic }, nowMs);
    } else if (previousCount !== null) {
      const lowest = Math.min(previousCount, earlierInWindow);
      const highest = Math.max(previousCount, earlierInWindow);
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

  /** Whether a probe is due. With an elastic window, only a burst that started after that may exceed the limit. */
  #isProbing(nowMs: number): boolean {
    const relevantTimeMs = this.#isElastic ? this.#history.burstStartedAtMs : nowMs;
    return relevantTimeMs >= this.#nextProbeAtMs;
  }

  /** While a probe is due, requests beyond the usable limit are sent one at a time. */
  #getProbeWaitMs(count: number, nowMs: number): number {
    const { requests, shortWindowMs } = this.#history;
    if (requests.length >= usableLimit(count) && this.#inFlight > 0) {
      return Number.POSITIVE_INFINITY;
    }
    const allowed = count + limitMargin(count) + 1;
    if (this.#isElastic) {
      return this.#getCapacityWaitMs(requests, allowed, nowMs);
    }
    const recent = this.#history.listWithin(shortWindowMs, nowMs);
    return this.#getCapacityWaitMs(recent, allowed, nowMs, shortWindowMs);
  }

  /** Limits an address group to half of a learned limit, or to five sixths while only this group sends requests. */
  #getShareWaitMs(addressGroup: string, usable: number, nowMs: number): number {
    const { requests } = this.#history;
    const groupRequests = this.#history.listOfGroup(addressGroup);
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
    // The requests in an elastic window stop counting together, those in a sliding window one by one.
    const lastToExpire = this.#isElastic ? undefined : requests[excess];
    const countedAtMs = lastToExpire?.countedAtMs ?? this.#history.lastActivityAtMs;
    return Math.max(1, countedAtMs + windowMs - nowMs);
  }
}

/** How far the mint's limit may be from a learned limit, because the mint counts a little differently. */
function limitMargin(count: number): number {
  return Math.max(1, Math.floor(count / 20));
}

function usableLimit(count: number): number {
  return Math.max(1, count - limitMargin(count));
}

/**
 * The requests on one route that count towards a limit: the mint did not reject them, and its current window contains
 * them. An elastic window ends only after a quiet window, in which no request was sent.
 */
class RequestHistory {
  readonly windowMs: number;
  readonly shortWindowMs: number;
  /** Oldest first. */
  requests: SentRequest[] = [];
  /** The same requests by address group, without those that no payer waits for. */
  readonly #byGroup = new Map<string, SentRequest[]>();
  /** When a request was last sent or a response last received. */
  lastActivityAtMs = Number.NEGATIVE_INFINITY;
  /** When the first request since the last quiet window was sent. */
  burstStartedAtMs = Number.NEGATIVE_INFINITY;
  #burstCount = 0;

  constructor(windowMs: number) {
    this.windowMs = windowMs;
    this.shortWindowMs = windowMs * SHORT_WINDOW_FRACTION;
  }

  add(nowMs: number, addressGroup: string | null): SentRequest {
    const request = {
      sentAtMs: nowMs,
      countedAtMs: nowMs,
      addressGroup,
      earlierInWindow: this.listWithin(this.windowMs, nowMs).length,
      earlierInShortWindow: this.listWithin(this.shortWindowMs, nowMs).length,
      earlierInBurst: this.#burstCount,
    };
    if (this.#burstCount === 0) {
      this.burstStartedAtMs = nowMs;
    }
    this.requests.push(request);
    if (addressGroup !== null) {
      this.#byGroup.getOrInsertComputed(addressGroup, () => []).push(request);
    }
    this.#burstCount += 1;
    this.lastActivityAtMs = nowMs;
    return request;
  }

  recordResponse(request: SentRequest, nowMs: number): void {
    this.lastActivityAtMs = nowMs;
    request.countedAtMs = nowMs;
  }

  remove(request: SentRequest): void {
    const index = this.requests.lastIndexOf(request);
    if (index >= 0) {
      this.#splice(index, 1);
      this.#burstCount -= 1;
    }
  }

  /** Returns the requests of an address group. The oldest is first. */
  listOfGroup(addressGroup: string): readonly SentRequest[] {
    return this.#byGroup.get(addressGroup) ?? [];
  }

  /** Removes requests that no longer count. */
  prune(nowMs: number, isElastic: boolean): void {
    if (nowMs - this.lastActivityAtMs >= this.windowMs) {
      this.requests = [];
      this.#byGroup.clear();
      this.#burstCount = 0;
    } else if (!isElastic) {
      const firstCounted = this.requests.findIndex(
        ({ countedAtMs }) => nowMs - countedAtMs < this.windowMs,
      );
      this.#splice(0, firstCounted === -1 ? this.requests.length : firstCounted);
    }
    if (this.requests.length > 2 * MAX_LEARNED_LIMIT) {
      this.#splice(0, MAX_LEARNED_LIMIT);
    }
  }

  #splice(start: number, count: number): void {
    for (const request of this.requests.splice(start, count)) {
      const group = request.addressGroup;
      const ofGroup = group === null ? undefined : this.#byGroup.get(group);
      if (group !== null && ofGroup !== undefined) {
        ofGroup.splice(ofGroup.indexOf(request), 1);
        if (ofGroup.length === 0) {
          this.#byGroup.delete(group);
        }
      }
    }
  }

  /** Returns the requests that were sent less than this time ago. */
  listWithin(durationMs: number, nowMs: number): readonly SentRequest[] {
    const first = this.requests.findIndex(({ sentAtMs }) => nowMs - sentAtMs < durationMs);
    return first === -1 ? [] : this.requests.slice(first);
  }
}
