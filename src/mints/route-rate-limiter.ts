import { computeBackoffMs } from '../backoff.ts';
import type { RequestFailureReason } from '../net/request-failure.ts';
import { MAX_IN_FLIGHT_PER_ROUTE, RATE_LIMITER_TIMING } from './limits.ts';

export type FailedResult =
  /** Status 429: the mint did not process the request. `retryAfterMs` is null without `Retry-After`. */
  | { outcome: 'rate_limited'; retryAfterMs: number | null }
  /** The mint may have processed the request, unless `isUnsent` is set. */
  | { outcome: 'unavailable'; reason: MintFailureReason; status?: number; isUnsent?: true };

export type RequestResult = FailedResult | { outcome: AnsweredOutcome };

type AnsweredOutcome =
  | 'created'
  | 'found'
  | 'not_found'
  | 'rejected'
  | 'signed'
  | 'unsupported'
  | 'invalid';

type MintFailureReason =
  | RequestFailureReason
  | 'unexpected response'
  | 'unexpected status'
  | 'WebSocket failed';

/** Of the waiting client; null without one. */
type AddressGroup = string | null;

/**
 * Decides when the next request may be sent on one route of one mint (ADR 34). After a 429 without `Retry-After`, the
 * route pauses for 2 s or 4 s, because a proxy may send a stray 429. If the mint keeps refusing, it pauses until the
 * oldest request of the last minute has left a sliding window; if that does not help, for a quiet minute, because every
 * request restarts Nutshell's window.
 */
export class RouteRateLimiter {
  /** Whether the mint has limited requests since it last accepted many of them in a row. */
  hasRefusedLately = false;
  #inFlight = 0;
  #maxInFlight = MAX_IN_FLIGHT_PER_ROUTE;
  #pauseStartedAtMs = Number.NEGATIVE_INFINITY;
  #pausedUntilMs = Number.NEGATIVE_INFINITY;
  #accepted: { atMs: number; addressGroup: AddressGroup }[] = [];
  #acceptedSinceRefusal = 0;
  /** Whether the mint has accepted no request since it refused one. */
  #isRefusing = false;
  #shortPausesInRow = 0;
  #needsQuietWindow = false;
  #failuresInRow = 0;
  #lastAddressGroup: AddressGroup = null;
  /** When the route no longer counts as shared by several address groups. */
  #sharingEndsAtMs = Number.NEGATIVE_INFINITY;

  /** Returns the time until a client may send a request; `Infinity` if a pending request has to end first. */
  getWaitMs(nowMs: number, addressGroup: AddressGroup = null): number {
    const pauseMs = this.getPauseMs(nowMs);
    if (pauseMs > 0) {
      return pauseMs;
    }
    return this.#inFlight >= this.#maxInFlight
      ? Number.POSITIVE_INFINITY
      : this.#getGroupWaitMs(nowMs, addressGroup);
  }

  getPauseMs(nowMs: number): number {
    return Math.max(0, this.#pausedUntilMs - nowMs);
  }

  /** Returns the requests that the mint accepted in the last window, the oldest first. */
  listAccepted(nowMs: number) {
    this.#accepted = this.#accepted.filter(
      ({ atMs }) => nowMs - atMs < RATE_LIMITER_TIMING.windowMs,
    );
    return this.#accepted;
  }

  /** Call this for each client. After clients of two address groups, the route counts as shared for five minutes. */
  recordClient(nowMs: number, addressGroup: AddressGroup): void {
    const last = this.#lastAddressGroup;
    this.#lastAddressGroup = addressGroup ?? last;
    if (last !== null && this.#lastAddressGroup !== last) {
      this.#sharingEndsAtMs = nowMs + 5 * RATE_LIMITER_TIMING.windowMs;
    }
  }

  recordSent(): void {
    this.#inFlight += 1;
  }

  /** Call this once for each request that was sent, even if it has no result. */
  recordEnd(): void {
    this.#inFlight -= 1;
  }

  recordResult(
    { sentAtMs, addressGroup }: { sentAtMs: number; addressGroup: AddressGroup },
    result: RequestResult,
    nowMs: number,
  ): void {
    // Requests that were pending when the pause began fail for the same cause.
    const hasNewCause = sentAtMs > this.#pauseStartedAtMs;
    if (result.outcome === 'rate_limited') {
      // 0 counts as absent, because servers round less than a second down to it.
      const retryAfterMs = result.retryAfterMs || null;
      // If the mint refuses the first request after the time that it named, the time is too short.
      const isTrusted = retryAfterMs !== null && !(hasNewCause && this.#isRefusing);
      this.#isRefusing ||= hasNewCause;
      if (isTrusted) {
        this.#pause(nowMs, retryAfterMs);
      } else if (hasNewCause) {
        this.#pause(nowMs, Math.max(retryAfterMs ?? 0, this.#choosePauseMs(nowMs)));
      }
    } else if (result.outcome !== 'unavailable') {
      this.#recordAccepted(nowMs, addressGroup);
    } else if (hasNewCause) {
      this.#recordFailure(nowMs, sentAtMs);
    }
  }

  #recordAccepted(nowMs: number, addressGroup: AddressGroup): void {
    this.#accepted.push({ atMs: nowMs, addressGroup });
    // At higher rates, the oldest ones do not matter.
    if (this.#accepted.length > 1_000) {
      this.#accepted.shift();
    }
    this.#failuresInRow = 0;
    this.#isRefusing = false;
    this.#acceptedSinceRefusal += 1;
    // A mint that accepts so many in a row no longer limits requests, or much less.
    this.hasRefusedLately &&= this.#acceptedSinceRefusal < 100;
    // More than twice Nutshell's default limit: the mint has probably raised its limit or changed its window.
    this.#needsQuietWindow &&= this.#acceptedSinceRefusal < 45;
    // Each request in flight may get a 429.
    const limit = this.hasRefusedLately ? 2 : MAX_IN_FLIGHT_PER_ROUTE;
    this.#maxInFlight = Math.min(this.#maxInFlight * 2, limit);
  }

  /** Call this for a 429 without `Retry-After`. */
  #choosePauseMs(nowMs: number): number {
    const { shortPauseMs, minWindowPauseMs, windowMs } = RATE_LIMITER_TIMING;
    const accepted = this.#acceptedSinceRefusal;
    this.#acceptedSinceRefusal = 0;
    if (!this.hasRefusedLately) {
      // A single accepted request may be the first one after a pause, so the mint still refuses.
      this.#shortPausesInRow = accepted < 2 ? this.#shortPausesInRow + 1 : 1;
      if (this.#shortPausesInRow <= 2) {
        return shortPauseMs * this.#shortPausesInRow;
      }
      this.hasRefusedLately = true;
      this.#shortPausesInRow = 0;
    } else if (accepted === 0) {
      if (this.#needsQuietWindow) {
        // Other processes may keep restarting the window. Random pauses let one of them find it quiet.
        return windowMs * (1 + 2 * Math.random());
      }
      this.#needsQuietWindow = true;
    }
    const [oldest] = this.listAccepted(nowMs);
    return this.#needsQuietWindow || oldest === undefined
      ? windowMs * (1 + Math.random() / 15) // 61 to 65 s
      : Math.max(minWindowPauseMs, oldest.atMs + windowMs - nowMs);
  }

  #recordFailure(nowMs: number, sentAtMs: number): void {
    this.#failuresInRow += 1;
    // The first failures cause no pause, because a busy mint also fails now and then.
    const pauseCount = this.#failuresInRow - 4;
    if (pauseCount > 0) {
      // The backoff begins when the request was sent: after a timeout, the route has already waited that long.
      const pauseEndsAtMs = sentAtMs + computeBackoffMs(pauseCount, RATE_LIMITER_TIMING.backoff);
      this.#pause(nowMs, Math.max(0, pauseEndsAtMs - nowMs));
    }
  }

  /** After the pause, one request may be in flight, and twice as many with each one that the mint accepts. */
  #pause(nowMs: number, durationMs: number): void {
    this.#pauseStartedAtMs = nowMs;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + durationMs);
    this.#maxInFlight = 1;
  }

  /** At a mint that limits requests, each group gets 10 a minute while they share it: half of Nutshell's default. */
  #getGroupWaitMs(nowMs: number, addressGroup: AddressGroup): number {
    if (addressGroup === null || !this.hasRefusedLately || nowMs >= this.#sharingEndsAtMs) {
      return 0;
    }
    const ofGroup = this.listAccepted(nowMs).filter((each) => each.addressGroup === addressGroup);
    // The request that has to leave the window before another may be sent.
    const tenth = ofGroup.at(-10);
    return tenth === undefined ? 0 : Math.max(1, tenth.atMs + RATE_LIMITER_TIMING.windowMs - nowMs);
  }
}
