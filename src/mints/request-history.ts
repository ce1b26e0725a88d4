/**
 * The highest limit that is learned. Above it, the cooldowns after a 429 suffice, and remembering every request
 * of the window would cost more than the requests.
 */
export const MAX_LEARNED_LIMIT = 4_000;

/**
 * The part of the window in which a mint must accept more requests than its limit to disprove it. A mint with
 * this limit never does, however long some requests take to arrive.
 */
const DISPROOF_WINDOW_FRACTION = 0.9;

/** A request that was sent, and how many the history contained when it was sent. */
export interface SentRequest {
  readonly sentAtMs: number;
  /** When its response arrived, or until then when it was sent: by this time the mint has counted it. */
  countedAtMs: number;
  readonly addressGroup: string | null;
  readonly priorInWindow: number;
  /** In {@link DISPROOF_WINDOW_FRACTION} of the window. */
  readonly priorInDisproofWindow: number;
  /** Since the last quiet window. */
  readonly priorInBurst: number;
}

/**
 * The requests of one route that count towards a limit: the mint did not reject them, and they are in its
 * current window. An elastic window ends only after a whole window without requests.
 */
export class RequestHistory {
  readonly windowMs: number;
  readonly disproofWindowMs: number;
  /** Oldest first. */
  requests: SentRequest[] = [];
  /** When a request was last sent or a response last received. */
  lastActivityAtMs = Number.NEGATIVE_INFINITY;
  /** When the first request after the last quiet window was sent. */
  burstStartedAtMs = Number.NEGATIVE_INFINITY;
  #burstCount = 0;

  constructor(windowMs: number) {
    this.windowMs = windowMs;
    this.disproofWindowMs = windowMs * DISPROOF_WINDOW_FRACTION;
  }

  add(nowMs: number, addressGroup: string | null): SentRequest {
    const request = {
      sentAtMs: nowMs,
      countedAtMs: nowMs,
      addressGroup,
      priorInWindow: this.listWithin(this.windowMs, nowMs).length,
      priorInDisproofWindow: this.listWithin(this.disproofWindowMs, nowMs).length,
      priorInBurst: this.#burstCount,
    };
    if (this.#burstCount === 0) {
      this.burstStartedAtMs = nowMs;
    }
    this.requests.push(request);
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
      this.requests.splice(index, 1);
      this.#burstCount -= 1;
    }
  }

  /** Removes requests that no longer count. */
  prune(nowMs: number, isElastic: boolean): void {
    if (nowMs - this.lastActivityAtMs >= this.windowMs) {
      this.requests = [];
      this.#burstCount = 0;
    } else if (!isElastic) {
      const firstCounted = this.requests.findIndex(
        ({ countedAtMs }) => nowMs - countedAtMs < this.windowMs,
      );
      this.requests.splice(0, firstCounted === -1 ? this.requests.length : firstCounted);
    }
    if (this.requests.length > 2 * MAX_LEARNED_LIMIT) {
      this.requests.splice(0, MAX_LEARNED_LIMIT);
    }
  }

  /** Returns the requests that were sent less than this time ago. */
  listWithin(durationMs: number, nowMs: number): readonly SentRequest[] {
    const first = this.requests.findIndex(({ sentAtMs }) => nowMs - sentAtMs < durationMs);
    return first === -1 ? [] : this.requests.slice(first);
  }
}
