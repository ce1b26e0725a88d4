import { z } from 'zod';

/** Durations of the rate limiter, in milliseconds; tests shorten them. */
export interface MintLimiterTiming {
  /** A known limit counts the requests of this time. */
  windowMs: number;
  /** The first rest after a 429 without `Retry-After`; the second is twice as long. */
  firstRestMs: number;
  /** Every further rest, long enough for an elastic window to end; up to three times as long at random. */
  longestRestMs: number;
  /** How often requests beyond a known limit are tried. */
  probeEveryMs: number;
  /** The first pause when a mint fails repeatedly; it doubles with every further failure. */
  firstBackoffMs: number;
  longestBackoffMs: number;
  /** How long a payer's request waits for a permit. */
  payerPatienceMs: number;
}

/**
 * Nutshell restarts its minute with every request, so the long rest and the window exceed a minute.
 * All rests after a first 429 together stay below 70 seconds.
 */
export const MINT_LIMITER_TIMING: Readonly<MintLimiterTiming> = {
  windowMs: 61_000,
  firstRestMs: 2_000,
  longestRestMs: 61_000,
  probeEveryMs: 120_000,
  firstBackoffMs: 1_000,
  longestBackoffMs: 10_000,
  payerPatienceMs: 8_000,
};

/** A third refusal in a row is followed by the longest rest. */
const REFUSALS_BEFORE_LONGEST_REST = 3;

/**
 * If the mint refuses the request after that too, another process may be restarting its elastic window.
 * Random rests, up to this many times as long, let one of the processes find a quiet window.
 */
const LONGEST_REST_SPREAD = 3;

/**
 * Refused tests at a similar count before a lasting limit is assumed. A stray 429 proves nothing: the
 * test that follows it succeeds.
 */
const REFUSED_TESTS_OF_A_LIMIT = 2;

/**
 * The part of the window in which more requests than a limit allows disprove it. It is shorter than any
 * mint's own window of that length, however late requests arrive there.
 */
const DISPROVING_PART = 0.9;

/**
 * The highest limit that is learned. Beyond it, the rests after a 429 suffice, and remembering every request of the
 * window would cost more than the requests.
 */
const MAX_LEARNED_LIMIT = 4_000;

/** Requests of one route that run at a time; more would only queue at the mint. */
const MAX_IN_FLIGHT = 16;

/** Failures in a row before requests pause: a healthy but busy mint fails now and then. */
const FAILURES_OF_AN_OUTAGE = 5;

/** A known limit of a route, as it is stored for other processes. */
export const routeLimitSchema = z.object({
  /** Requests in a window. */
  count: z.int().positive(),
  /** Whether every request, admitted or refused, restarts the mint's window (Nutshell). */
  isElastic: z.boolean(),
});

export type KnownLimit = z.infer<typeof routeLimitSchema>;

/** What came of a request, as far as the limiter is concerned. */
export interface RequestOutcome {
  outcome: string;
  /** With `rate_limited`: what `Retry-After` says; null if the mint did not send it. */
  retryAfterMs?: number | null;
}

/** A request that was sent, and how many had been sent before it. */
export interface SentRequest {
  readonly sentAtMs: number;
  /** When it was answered, or sent: by this time the mint had counted it. */
  countedAtMs: number;
  readonly addressGroup: string | null;
  /** In the window. */
  readonly windowCount: number;
  /** In {@link DISPROVING_PART} of the window. */
  readonly recentCount: number;
  /** Since the last quiet window. */
  readonly runCount: number;
}

/**
 * Decides when one route of one mint may be asked. Times are milliseconds of a monotonic clock.
 *
 * - After a 429 the route rests: as long as `Retry-After` says, otherwise 2 s, 4 s, 61 s, then one to
 *   three minutes at random while the mint keeps refusing. After a rest a single request tests the mint,
 *   then the number of requests under way doubles with every success.
 * - A lasting limit is assumed if tests are refused repeatedly at a similar count. At first it counts
 *   the requests of a window. If the mint refuses fewer than that, its window is elastic: every request
 *   restarts it, so requests come in runs, each after a quiet window.
 * - Now and then requests beyond a known limit are tried. The first success raises the limit by half,
 *   the second one drops it.
 * - After several failures in a row requests pause, for at most ten seconds.
 */
export class RouteLimit {
  readonly #timing: MintLimiterTiming;
  /** Requests that count towards the limit and were not refused, oldest first. */
  #sent: SentRequest[] = [];
  #inFlight = 0;
  #allowedInFlight = MAX_IN_FLIGHT;
  /** When the mint last saw or answered a request. */
  #touchedAtMs = Number.NEGATIVE_INFINITY;
  /** When the first request after the last quiet window was sent, and how many have been since. */
  #runStartedAtMs = Number.NEGATIVE_INFINITY;
  #runCount = 0;
  #restStartedAtMs = Number.NEGATIVE_INFINITY;
  #restUntilMs = Number.NEGATIVE_INFINITY;
  #refusalsInARow = 0;
  #failuresInARow = 0;
  /** Counts at which the mint refused tests and has not accepted more since, oldest first. */
  #refusedCounts: number[] = [];
  #known: KnownLimit | null = null;
  /** When requests beyond the limit are tried next. */
  #probeAtMs = 0;
  /** Whether a request beyond the limit succeeded since the last refusal. */
  #isRaised = false;

  constructor(timing: MintLimiterTiming) {
    this.#timing = timing;
  }

  get known(): KnownLimit | null {
    return this.#known;
  }

  /** Milliseconds until the current rest ends; 0 if there is none. */
  restMs(nowMs: number): number {
    return Math.max(0, this.#restUntilMs - nowMs);
  }

  /** Requests that count towards a known limit now. */
  used(nowMs: number): number {
    this.#forgetOld(nowMs);
    return this.#sent.length;
  }

  /**
   * Milliseconds until a request may be sent; 0 is now. `Infinity` means after a request under way has
   * been answered.
   *
   * @param addressGroup the payer's; at a known limit one group may not use it up
   */
  waitMs(nowMs: number, addressGroup: string | null = null): number {
    const restMs = this.restMs(nowMs);
    if (restMs > 0) {
      return restMs;
    }
    if (this.#inFlight >= this.#allowedInFlight) {
      return Number.POSITIVE_INFINITY;
    }
    if (this.#known === null) {
      return 0;
    }
    this.#forgetOld(nowMs);
    const { count } = this.#known;
    const { windowMs } = this.#timing;
    if (this.#isProbing(nowMs)) {
      return this.#waitForProbeMs(count, nowMs);
    }
    const usable = usableOf(count);
    const waitMs = this.#waitForRoomMs(this.#sent, usable, windowMs, nowMs);
    return addressGroup === null
      ? waitMs
      : Math.max(waitMs, this.#waitForShareMs(addressGroup, usable, nowMs));
  }

  send(nowMs: number, addressGroup: string | null = null): SentRequest {
    this.#forgetOld(nowMs);
    if (this.#runCount === 0) {
      this.#runStartedAtMs = nowMs;
    }
    const request = {
      sentAtMs: nowMs,
      countedAtMs: nowMs,
      addressGroup,
      windowCount: this.#countWithin(this.#timing.windowMs, nowMs),
      recentCount: this.#countWithin(this.#disprovingMs, nowMs),
      runCount: this.#runCount,
    };
    this.#sent.push(request);
    this.#runCount += 1;
    this.#inFlight += 1;
    this.#touchedAtMs = nowMs;
    return request;
  }

  /** Takes back a request that never reached the mint. */
  withdraw(request: SentRequest): void {
    this.#inFlight -= 1;
    this.#remove(request);
  }

  settle(request: SentRequest, outcome: RequestOutcome, nowMs: number): void {
    this.#inFlight -= 1;
    this.#touchedAtMs = nowMs;
    request.countedAtMs = nowMs;
    switch (outcome.outcome) {
      case 'rate_limited':
        this.#remove(request);
        this.#refused(request, outcome.retryAfterMs ?? null, nowMs);
        break;
      case 'unavailable':
        this.#failed(request, nowMs);
        break;
      default:
        this.#succeeded(request);
    }
  }

  /** Takes over a limit that another process learned. */
  adopt(limit: KnownLimit, nowMs: number): void {
    if (this.#known === null) {
      this.#assume(limit, nowMs);
    }
  }

  #succeeded({ windowCount, recentCount, runCount }: SentRequest): void {
    this.#allowedInFlight = Math.min(this.#allowedInFlight * 2, MAX_IN_FLIGHT);
    this.#refusalsInARow = 0;
    this.#failuresInARow = 0;
    this.#refusedCounts = this.#refusedCounts.filter((count) => count >= windowCount);
    if (this.#known === null) {
      return;
    }
    const { count, isElastic } = this.#known;
    if ((isElastic ? runCount : recentCount) >= count + marginOf(count)) {
      const raised = Math.ceil(count * 1.5);
      const isDropped = this.#isRaised || raised > MAX_LEARNED_LIMIT;
      this.#known = isDropped ? null : { count: raised, isElastic };
      this.#isRaised = true;
    }
  }

  #failed({ sentAtMs }: SentRequest, nowMs: number): void {
    if (sentAtMs <= this.#restStartedAtMs) {
      return;
    }
    this.#failuresInARow += 1;
    const pauses = this.#failuresInARow - FAILURES_OF_AN_OUTAGE;
    if (pauses >= 0) {
      const { firstBackoffMs, longestBackoffMs } = this.#timing;
      const pauseMs = Math.min(firstBackoffMs * 2 ** pauses, longestBackoffMs);
      // Counted from the request, because one that timed out has waited already.
      this.#rest(nowMs, Math.max(0, sentAtMs + pauseMs - nowMs));
    }
  }

  #refused(request: SentRequest, retryAfterMs: number | null, nowMs: number): void {
    // Servers round less than a second down to 0; without a rest, the next request would follow at once.
    if (retryAfterMs !== null && retryAfterMs > 0) {
      this.#rest(nowMs, retryAfterMs);
      return;
    }
    if (request.sentAtMs <= this.#restStartedAtMs) {
      // Sent before the rest began, so this refusal belongs to the one that caused it.
      return;
    }
    this.#refusalsInARow += 1;
    this.#isRaised = false;
    const isAtLimit = this.#isAtLimit(request);
    if (isAtLimit) {
      this.#probeAtMs = nowMs + this.#timing.probeEveryMs;
    }
    this.#rest(nowMs, this.#restAfterRefusalMs(isAtLimit));
    if (this.#refusalsInARow > 1) {
      this.#learn(request, nowMs);
    }
  }

  #restAfterRefusalMs(isAtLimit: boolean): number {
    const { firstRestMs, longestRestMs } = this.#timing;
    if (this.#refusalsInARow > REFUSALS_BEFORE_LONGEST_REST) {
      return longestRestMs * (1 + (LONGEST_REST_SPREAD - 1) * Math.random());
    }
    const isLongest =
      this.#refusalsInARow === REFUSALS_BEFORE_LONGEST_REST ||
      (isAtLimit && this.#known?.isElastic === true);
    return isLongest ? longestRestMs : firstRestMs * 2 ** (this.#refusalsInARow - 1);
  }

  #isAtLimit({ windowCount, runCount }: SentRequest): boolean {
    return (
      this.#known !== null &&
      (this.#known.isElastic ? runCount : windowCount) >= usableOf(this.#known.count)
    );
  }

  /** Assumes a limit once refused tests agree on it. */
  #learn({ windowCount, runCount }: SentRequest, nowMs: number): void {
    this.#refusedCounts = [...this.#refusedCounts, windowCount].slice(-REFUSED_TESTS_OF_A_LIMIT);
    const lowest = Math.min(...this.#refusedCounts);
    const highest = Math.max(...this.#refusedCounts);
    const isSimilar = highest - lowest <= Math.max(2, highest / 10);
    const isElastic =
      this.#known?.isElastic === false &&
      this.#refusalsInARow >= REFUSALS_BEFORE_LONGEST_REST &&
      runCount > windowCount;
    if (isElastic) {
      this.#assume({ count: runCount, isElastic }, nowMs);
    } else if (this.#refusedCounts.length === REFUSED_TESTS_OF_A_LIMIT && isSimilar && lowest > 0) {
      this.#assume({ count: lowest, isElastic }, nowMs);
    }
  }

  #assume(limit: KnownLimit, nowMs: number): void {
    if (limit.count > MAX_LEARNED_LIMIT) {
      return;
    }
    this.#known = limit;
    this.#probeAtMs = nowMs + this.#timing.probeEveryMs;
    this.#refusedCounts = [];
  }

  #rest(nowMs: number, forMs: number): void {
    this.#restStartedAtMs = nowMs;
    this.#restUntilMs = Math.max(this.#restUntilMs, nowMs + forMs);
    this.#allowedInFlight = 1;
  }

  get #disprovingMs(): number {
    return this.#timing.windowMs * DISPROVING_PART;
  }

  /** Whether requests beyond the limit are tried now. In an elastic window that takes a new run. */
  #isProbing(nowMs: number): boolean {
    return (this.#known?.isElastic === true ? this.#runStartedAtMs : nowMs) >= this.#probeAtMs;
  }

  /** Requests beyond the limit go one at a time. */
  #waitForProbeMs(count: number, nowMs: number): number {
    if (this.#sent.length >= usableOf(count) && this.#inFlight > 0) {
      return Number.POSITIVE_INFINITY;
    }
    const allowed = count + marginOf(count) + 1;
    if (this.#known?.isElastic === true) {
      return this.#waitForRoomMs(this.#sent, allowed, this.#timing.windowMs, nowMs);
    }
    const old = this.#sent.length - this.#countWithin(this.#disprovingMs, nowMs);
    const recent = this.#sent.slice(old);
    return this.#waitForRoomMs(recent, allowed, this.#disprovingMs, nowMs);
  }

  /** Milliseconds until fewer than `allowed` of these requests count. */
  #waitForRoomMs(
    requests: readonly SentRequest[],
    allowed: number,
    windowMs: number,
    nowMs: number,
  ): number {
    const excess = requests.length - allowed;
    const last = this.#known?.isElastic === true ? undefined : requests[excess];
    return excess < 0
      ? 0
      : Math.max(1, (last?.countedAtMs ?? this.#touchedAtMs) + windowMs - nowMs);
  }

  /**
   * While payers of several address groups use a known limit, one group gets at most half of it. A group
   * that is alone leaves a sixth to newcomers.
   */
  #waitForShareMs(addressGroup: string, usable: number, nowMs: number): number {
    const own = this.#sent.filter((request) => request.addressGroup === addressGroup);
    const share = own.length < this.#sent.length ? usable / 2 : (usable * 5) / 6;
    const allowed = Math.max(1, Math.ceil(share));
    return this.#waitForRoomMs(own, allowed, this.#timing.windowMs, nowMs);
  }

  /** Counts the requests that were sent less than this time ago. */
  #countWithin(durationMs: number, nowMs: number): number {
    const first = this.#sent.findIndex(({ sentAtMs }) => nowMs - sentAtMs < durationMs);
    return first === -1 ? 0 : this.#sent.length - first;
  }

  #forgetOld(nowMs: number): void {
    const { windowMs } = this.#timing;
    if (nowMs - this.#touchedAtMs >= windowMs) {
      this.#sent = [];
      this.#runCount = 0;
    } else if (this.#known?.isElastic !== true) {
      const firstKept = this.#sent.findIndex(({ countedAtMs }) => nowMs - countedAtMs < windowMs);
      this.#sent.splice(0, firstKept === -1 ? this.#sent.length : firstKept);
    }
    if (this.#sent.length > 2 * MAX_LEARNED_LIMIT) {
      this.#sent.splice(0, MAX_LEARNED_LIMIT);
    }
  }

  #remove(request: SentRequest): void {
    const index = this.#sent.lastIndexOf(request);
    if (index >= 0) {
      this.#sent.splice(index, 1);
      this.#runCount -= 1;
    }
  }
}

/** How far a limit may be off, because a mint may count a little differently. */
function marginOf(count: number): number {
  return Math.max(1, Math.floor(count / 20));
}

function usableOf(count: number): number {
  return Math.max(1, count - marginOf(count));
}
