import {
  type Ceiling,
  ceilingAfter,
  type LearntLimit,
  notAhead,
  probed,
  type Refusal,
  rested,
  stricterOf,
  WINDOW_MS,
} from './learnt-limit.ts';
import { type Position, SendLog } from './send-log.ts';

/** What came of a request; the answers of the mint client are such outcomes as they are. */
export type RequestOutcome =
  | { outcome: 'rate_limited'; retryAfterMs: number | null }
  | { outcome: 'unavailable' }
  | { outcome: 'created' | 'found' | 'not_found' | 'refused' | 'unsupported' | 'invalid' }
  | { outcome: 'signed' | 'answered' };

/** First rest after a mint gave no usable answer; it doubles while the mint stays so. */
const FIRST_FAILURE_REST_MS = 1_000;

/** Longest such rest: a mint that comes back is noticed within a minute. */
const LONGEST_FAILURE_REST_MS = 60_000;

/** Fastest pace of polls, 20 a second: each may bring news of 1,000 quotes, to be written down. */
const TOP_RATE_PER_MINUTE = 1_200;

/**
 * Trouble slows polls down to this share of their first pace. A mint in lasting trouble has its
 * growing rest; one that fails now and then must still tell of payments within seconds.
 */
const SLOWEST_SHARE = 1 / 4;

/** How the pace of polls grows, by each answer, while the mint has never sent us away. */
const GROWTH_FACTOR = 1.2;

/** How the pace grows by each answer, in requests a minute, once the mint has sent us away. */
const GROWTH_PER_MINUTE = 1;

/** Sent within this share of the gap after it was allowed, a poll had been waited for. */
const WANTED_WITHIN = 0.5;

/** So much of an adopted limit counts as used: another process asked the mint until just now. */
const ADOPTED_SHARE_USED = 0.5;

/** A request that was sent, as {@link RouteBudget.record} needs to know it. */
export interface SentRequest extends Position {
  /** Counted from 1 on each route. */
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly sentAt: number;
  /** Whether it was sent as soon as it was allowed. */
  readonly wasWanted: boolean;
}

/** How far one route of a mint is used, for those who share it. */
export interface RouteUse {
  /** What 429s taught; null where nothing is known. */
  readonly ceiling: Ceiling | null;
  /**
   * Requests that count against the ceiling at a time, if none is sent from now until then; 0 where
   * there is no ceiling.
   *
   * @param time now or later
   */
  readonly usedAt: (time: number) => number;
  /**
   * Which run a request sent now is part of (see {@link Position}), counted from 1, and when that run
   * ends if none is sent.
   */
  readonly run: number;
  readonly runEndsAt: number;
}

/** A refusal together with those of other requests that were under way at the time. */
interface RefusedTogether extends Refusal {
  /** What was believed before. */
  before: Ceiling | null;
}

/** When one route of one mint may be used again. Pure; all times in milliseconds since 1970. */
export class RouteBudget {
  readonly #isPaced: boolean;
  readonly #startRatePerMinute: number;
  #ratePerMinute: number;
  readonly #sendLog = new SendLog();
  #sentCount = 0;
  #limit: LearntLimit | null = null;
  /** Whether all that the ceiling allows was used or wanted since it was learnt. */
  #isCeilingReached = false;
  /** The number of the last request sent when the mint last sent us away. */
  #refusedUpTo = 0;
  /** What of the requests up to then was refused without `Retry-After`. */
  #refusal: RefusedTogether | null = null;
  /** The longest run of which the mint answered the last request. */
  #longestRun = 0;
  /** Without a usable answer, in a row. */
  #failures = 0;
  #failureRestUntil = 0;
  /** The number of the last request sent when the mint last failed. */
  #failedUpTo = 0;
  /** The latest time that we were told. */
  #clockAt = 0;

  /**
   * @param startGapMs from one request to the next at first; null where nothing is held back until
   *   the mint says so, because somebody waits for each answer
   */
  constructor(startGapMs: number | null) {
    this.#isPaced = startGapMs !== null;
    this.#startRatePerMinute = WINDOW_MS / (startGapMs ?? 0);
    this.#ratePerMinute = this.#startRatePerMinute;
  }

  /** What 429s taught; null before the first. */
  learnt(now: number): LearntLimit | null {
    this.#noticeTime(now);
    return this.#limit;
  }

  /** Takes over what another process learnt; what is known here stays as strict as it is. */
  adopt(limit: LearntLimit, now: number): void {
    this.#noticeTime(now);
    const adopted = notAhead(limit, now);
    this.#limit = this.#limit === null ? adopted : stricterOf(this.#limit, adopted);
    this.#refusal = null;
    if (this.#sentCount === 0 && this.#limit.ceiling !== null) {
      const used = Math.floor(this.#limit.ceiling.perWindow * ADOPTED_SHARE_USED);
      this.#sendLog.assume(used, now);
    }
  }

  /** Milliseconds until the route may be used; 0 is now. */
  waitMs(now: number): number {
    this.#noticeTime(now);
    return Math.max(0, Math.ceil(this.#readyAt() - now));
  }

  /** Milliseconds until the rest after a refusal or a failure is over; 0 is now. */
  restMs(now: number): number {
    this.#noticeTime(now);
    return Math.max(0, Math.ceil(this.#restsUntil() - now));
  }

  /** How far the route is used now. */
  use(now: number): RouteUse {
    this.#noticeTime(now);
    const ceiling = this.#limit?.ceiling ?? null;
    const { run, endsAt } = this.#sendLog.runAt(now);
    const usedAt = (time: number) => (ceiling === null ? 0 : this.#sendLog.used(ceiling, time));
    return { ceiling, usedAt, run, runEndsAt: endsAt };
  }

  /** Notes that a request was left to others, of what the ceiling allows: a higher one is wanted. */
  leftToOthers(): void {
    this.#isCeilingReached = true;
  }

  /** Counts a request that is sent now. */
  sent(now: number): SentRequest {
    this.#noticeTime(now);
    const isFirst = this.#sendLog.lastSentAt === null;
    const wasWanted = !isFirst && now - this.#readyAt() <= this.#gapMs() * WANTED_WITHIN;
    const position = this.#sendLog.add(now);
    this.#sentCount += 1;
    this.#isCeilingReached ||= this.#opensAt() > now;
    return { ...position, number: this.#sentCount, sentAt: now, wasWanted };
  }

  /** Takes back a request that the mint never got. */
  withdraw(request: SentRequest): void {
    this.#sendLog.remove(request.sentAt);
  }

  /** Tells what came of a request. */
  record(request: SentRequest, outcome: RequestOutcome, now: number): void {
    this.#noticeTime(now);
    this.#sendLog.touch(now);
    switch (outcome.outcome) {
      case 'rate_limited':
        this.#afterRefusal(request, outcome.retryAfterMs, now);
        break;
      case 'unavailable':
        this.#afterFailure(request, now);
        break;
      default:
        this.#afterAnswer(request);
    }
  }

  #readyAt(): number {
    const { lastSentAt } = this.#sendLog;
    return Math.max(
      this.#restsUntil(),
      lastSentAt === null ? 0 : lastSentAt + this.#gapMs(),
      this.#opensAt(),
    );
  }

  #restsUntil(): number {
    return Math.max(this.#failureRestUntil, this.#limit?.restUntil ?? 0);
  }

  /** When the next request stays within the ceiling. */
  #opensAt(): number {
    const ceiling = this.#limit?.ceiling ?? null;
    return ceiling === null ? 0 : this.#sendLog.opensAt(ceiling);
  }

  #gapMs(): number {
    const highest = this.#limit?.ceiling?.perWindow ?? Number.POSITIVE_INFINITY;
    return this.#isPaced ? WINDOW_MS / Math.min(this.#ratePerMinute, highest) : 0;
  }

  #afterAnswer(request: SentRequest): void {
    this.#failures = 0;
    this.#failureRestUntil = 0;
    this.#longestRun = Math.max(this.#longestRun, request.inRun);
    if (request.wasWanted) {
      this.#grow();
    }
  }

  #grow(): void {
    const top = Math.max(TOP_RATE_PER_MINUTE, this.#startRatePerMinute);
    this.#ratePerMinute =
      this.#limit === null
        ? Math.min(this.#ratePerMinute * GROWTH_FACTOR, top)
        : Math.min(this.#ratePerMinute + GROWTH_PER_MINUTE, this.#limit.ceiling?.perWindow ?? top);
  }

  #slowDown(): void {
    const slowest = this.#startRatePerMinute * SLOWEST_SHARE;
    this.#ratePerMinute = Math.max(this.#ratePerMinute / 2, slowest);
  }

  /** Requests that were under way together fail together, which is one failure and not many. */
  #afterFailure(request: SentRequest, now: number): void {
    if (request.number <= this.#failedUpTo) {
      return;
    }
    const restMs = Math.min(FIRST_FAILURE_REST_MS * 2 ** this.#failures, LONGEST_FAILURE_REST_MS);
    this.#failureRestUntil = now + restMs;
    this.#failures += 1;
    this.#failedUpTo = this.#sentCount;
    this.#slowDown();
  }

  #afterRefusal(request: SentRequest, retryAfterMs: number | null, now: number): void {
    if (request.number > this.#refusedUpTo) {
      this.#refusedUpTo = this.#sentCount;
      this.#refusal = null;
      this.#slowDown();
    }
    const limit = rested(this.#limit, retryAfterMs, now);
    this.#limit =
      retryAfterMs === null
        ? { ...limit, ceiling: this.#learnCeiling(request, limit.ceiling, now) }
        : limit;
  }

  /**
   * Of requests that were under way together, the first to be refused tells how many were admitted;
   * their answers come in any order.
   */
  #learnCeiling({ inMinute, inRun }: SentRequest, known: Ceiling | null, now: number): Ceiling {
    this.#refusal ??= { inMinute, inRun, longestRun: this.#longestRun, before: known };
    this.#refusal.inMinute = Math.min(this.#refusal.inMinute, inMinute);
    this.#refusal.inRun = Math.min(this.#refusal.inRun, inRun);
    const ceiling = ceilingAfter(this.#refusal.before, this.#refusal, now);
    this.#isCeilingReached = false;
    if (ceiling.window === 'sliding') {
      // From now on long runs speak against an elastic window only where the mint bears them anew.
      this.#longestRun = 0;
    }
    return ceiling;
  }

  #noticeTime(now: number): void {
    if (now < this.#clockAt) {
      this.#failureRestUntil = Math.min(this.#failureRestUntil, now + LONGEST_FAILURE_REST_MS);
      this.#limit = this.#limit === null ? null : notAhead(this.#limit, now);
      this.#sendLog.noticeSetBack(now);
    }
    this.#clockAt = now;
    this.#probe(now);
  }

  /** A ceiling is tried again where it is in the way, and only there. */
  #probe(now: number): void {
    const limit = this.#limit;
    if (limit === null || limit.ceiling === null || !this.#isCeilingReached) {
      return;
    }
    const ceiling = probed(limit.ceiling, now);
    this.#isCeilingReached = ceiling === limit.ceiling;
    this.#limit = { ...limit, ceiling };
  }
}
