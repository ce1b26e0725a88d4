import { z } from 'zod';

/** Durations of the rate limiter, in milliseconds; tests shorten them. */
export interface MintLimiterTiming {
  /** A known limit counts the requests of this time. */
  windowMs: number;
  /** The first rest after a 429 without `Retry-After`; the second is twice as long. */
  firstRestMs: number;
  /** Every further rest, long enough for an elastic window to end. */
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

/** Refusals at a similar count before a lasting limit is assumed. One stray 429 proves nothing. */
const REFUSALS_OF_A_LIMIT = 3;

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

/** A request that was sent. */
export interface SentRequest {
  readonly sentAtMs: number;
  /** When it was answered, or sent: by this time the mint had counted it. */
  countedAtMs: number;
  readonly addressGroup: string | null;
  /** Requests in the window when this one was sent. */
  readonly countBefore: number;
}

/**
 * Decides when one route of one mint may be asked. Pure: times are milliseconds of a monotonic clock.
 *
 * - After a 429 the route rests: as long as `Retry-After` says, otherwise 2 s, 4 s, then 61 s while the
 *   mint keeps refusing. After a rest a single request tests the water before the others follow.
 * - A lasting limit is assumed after several refusals at a similar count. Now and then a request beyond
 *   it is tried: a first success raises the limit by half, a second one drops it. A refusal below a
 *   known limit means that the mint's window is elastic: requests then come in runs, each after a quiet
 *   window.
 * - After several failures in a row requests pause, for at most ten seconds.
 */
export class RouteLimit {
  readonly #timing: MintLimiterTiming;
  /** Requests in the window that were not refused, oldest first. */
  #sent: SentRequest[] = [];
  #inFlight = 0;
  /** When the mint last saw or answered a request. */
  #touchedAtMs = Number.NEGATIVE_INFINITY;
  #restStartedAtMs = Number.NEGATIVE_INFINITY;
  #restUntilMs = Number.NEGATIVE_INFINITY;
  /** Whether one request at a time is allowed, until one succeeds. */
  #isTesting = false;
  #refusalsInARow = 0;
  #failuresInARow = 0;
  /** Counts at which the mint refused requests and has not accepted one since, oldest first. */
  #refusedCounts: number[] = [];
  #known: KnownLimit | null = null;
  /** When requests beyond the limit are tried next. */
  #probeAtMs = 0;
  #isProbing = false;
  /** Whether a request beyond the limit succeeded since the last refusal. */
  #isRaised = false;

  constructor(timing: MintLimiterTiming) {
    this.#timing = timing;
  }

  /** The lasting limit, if one is known. */
  get known(): KnownLimit | null {
    return this.#known;
  }

  /** Requests that are under way. */
  get inFlight(): number {
    return this.#inFlight;
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
   * Milliseconds until a request may be sent; 0 is now. `Infinity` means after the request under way
   * has been answered.
   *
   * @param addressGroup the payer's; at a known limit one group may not use it up
   */
  waitMs(nowMs: number, addressGroup: string | null = null): number {
    const restMs = this.restMs(nowMs);
    if (restMs > 0) {
      return restMs;
    }
    if (this.#isTesting && this.#inFlight > 0) {
      return Number.POSITIVE_INFINITY;
    }
    if (this.#known === null) {
      return 0;
    }
    const { count } = this.#known;
    if (this.#mayProbe(nowMs)) {
      return this.#waitForRoomMs(this.#sent, count + 1, nowMs);
    }
    const waitMs = this.#waitForRoomMs(this.#sent, sustainable(count), nowMs);
    return addressGroup === null
      ? waitMs
      : Math.max(waitMs, this.#waitForShareMs(addressGroup, sustainable(count), nowMs));
  }

  /** Counts a request that is sent now. */
  send(nowMs: number, addressGroup: string | null = null): SentRequest {
    this.#forgetOld(nowMs);
    const countBefore = this.#sent.length;
    const request = { sentAtMs: nowMs, countedAtMs: nowMs, addressGroup, countBefore };
    this.#sent.push(request);
    this.#inFlight += 1;
    this.#touchedAtMs = nowMs;
    return request;
  }

  /** Takes back a request that never reached the mint. */
  withdraw(request: SentRequest): void {
    this.#inFlight -= 1;
    this.#remove(request);
  }

  /** Takes in what came of a request. */
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
      this.#known = limit;
      this.#probeAtMs = nowMs + this.#timing.probeEveryMs;
    }
  }

  #succeeded({ countBefore }: SentRequest): void {
    this.#isTesting = false;
    this.#refusalsInARow = 0;
    this.#failuresInARow = 0;
    this.#refusedCounts = this.#refusedCounts.filter((count) => count > countBefore);
    if (this.#known !== null && countBefore >= this.#known.count) {
      const { count, isElastic } = this.#known;
      this.#known = this.#isRaised ? null : { count: Math.ceil(count * 1.5), isElastic };
      this.#isRaised = true;
    }
  }

  #failed({ sentAtMs }: SentRequest, nowMs: number): void {
    if (sentAtMs < this.#restStartedAtMs) {
      return;
    }
    this.#failuresInARow += 1;
    const pauses = this.#failuresInARow - FAILURES_OF_AN_OUTAGE;
    if (pauses >= 0) {
      const { firstBackoffMs, longestBackoffMs } = this.#timing;
      this.#rest(nowMs, Math.min(firstBackoffMs * 2 ** pauses, longestBackoffMs));
    }
  }

  #refused({ sentAtMs, countBefore }: SentRequest, retryAfterMs: number | null, nowMs: number): void {
    if (retryAfterMs !== null) {
      this.#rest(nowMs, retryAfterMs);
      return;
    }
    if (sentAtMs < this.#restStartedAtMs) {
      // Sent before the rest began, so this refusal belongs to the one that caused it.
      return;
    }
    this.#refusalsInARow += 1;
    this.#isRaised = false;
    this.#isProbing = false;
    this.#rest(nowMs, this.#restAfterRefusal(countBefore, nowMs));
    this.#learn(countBefore, nowMs);
  }

  #restAfterRefusal(countBefore: number, nowMs: number): number {
    const { firstRestMs, longestRestMs, probeEveryMs } = this.#timing;
    if (this.#known === null) {
      return this.#refusalsInARow < REFUSALS_OF_A_LIMIT
        ? firstRestMs * 2 ** (this.#refusalsInARow - 1)
        : longestRestMs;
    }
    if (countBefore >= sustainable(this.#known.count)) {
      this.#probeAtMs = nowMs + probeEveryMs;
      return this.#known.isElastic ? longestRestMs : firstRestMs;
    }
    this.#known = { ...this.#known, isElastic: true };
    return longestRestMs;
  }

  /** Assumes a limit once refusals agree on it. */
  #learn(countBefore: number, nowMs: number): void {
    this.#refusedCounts = [...this.#refusedCounts, countBefore].slice(-REFUSALS_OF_A_LIMIT);
    const lowest = Math.min(...this.#refusedCounts);
    const highest = Math.max(...this.#refusedCounts);
    const isSimilar = highest - lowest <= Math.max(2, highest / 10);
    const isLower = this.#known === null || lowest < this.#known.count;
    if (this.#refusedCounts.length === REFUSALS_OF_A_LIMIT && isSimilar && isLower && lowest > 0) {
      this.#known = { count: lowest, isElastic: this.#known?.isElastic ?? false };
      this.#probeAtMs = nowMs + this.#timing.probeEveryMs;
    }
  }

  #rest(nowMs: number, forMs: number): void {
    this.#restStartedAtMs = nowMs;
    this.#restUntilMs = Math.max(this.#restUntilMs, nowMs + forMs);
    this.#isTesting = true;
  }

  /** Whether requests beyond the limit are tried now. In an elastic window that takes a run of its own. */
  #mayProbe(nowMs: number): boolean {
    this.#forgetOld(nowMs);
    const isNewRun = this.#known?.isElastic !== true || this.#sent.length === 0;
    this.#isProbing ||= isNewRun && nowMs >= this.#probeAtMs;
    return this.#isProbing;
  }

  /** Milliseconds until fewer than `allowed` of these requests count. */
  #waitForRoomMs(requests: readonly SentRequest[], allowed: number, nowMs: number): number {
    this.#forgetOld(nowMs);
    const excess = requests.length - allowed;
    const last = this.#known?.isElastic === true ? undefined : requests[excess];
    return excess < 0
      ? 0
      : Math.max(1, (last?.countedAtMs ?? this.#touchedAtMs) + this.#timing.windowMs - nowMs);
  }

  /**
   * While payers of several address groups use a known limit, one group gets at most half of it. A group
   * that is alone leaves a sixth to newcomers.
   */
  #waitForShareMs(addressGroup: string, allowed: number, nowMs: number): number {
    const own = this.#sent.filter((request) => request.addressGroup === addressGroup);
    const share = own.length < this.#sent.length ? allowed / 2 : (allowed * 5) / 6;
    return this.#waitForRoomMs(own, Math.max(1, Math.ceil(share)), nowMs);
  }

  #forgetOld(nowMs: number): void {
    const { windowMs } = this.#timing;
    if (nowMs - this.#touchedAtMs >= windowMs) {
      this.#sent = [];
    } else if (this.#known?.isElastic !== true) {
      const firstKept = this.#sent.findIndex(({ countedAtMs }) => nowMs - countedAtMs < windowMs);
      if (firstKept > 0) {
        this.#sent.splice(0, firstKept);
      }
    }
  }

  #remove(request: SentRequest): void {
    const index = this.#sent.lastIndexOf(request);
    if (index >= 0) {
      this.#sent.splice(index, 1);
    }
  }
}

/** What is used of a limit: one in twenty less, because a mint may count a little differently. */
function sustainable(count: number): number {
  return Math.max(1, count - Math.max(1, Math.floor(count / 20)));
}
