/**
 * A token bucket for what is sent to one mint's socket. Pure: `now` is milliseconds since 1970.
 *
 * Nutshell counts opening a socket and each message on it together, 20 a minute; over it, the
 * handshake is refused. In no minute does this bucket give more than burst + 60 s / refill.
 */
export class MessageBudget {
  readonly #burst: number;
  readonly #refillMs: number;
  #tokens: number;
  #countedAt = 0;

  /**
   * @param options.burst messages that may go at once
   * @param options.refillMs time in which one more is earned
   */
  constructor(options: { burst: number; refillMs: number }) {
    this.#burst = options.burst;
    this.#refillMs = options.refillMs;
    this.#tokens = options.burst;
  }

  /** @returns 0 where a message may go now, else the milliseconds after which to ask again */
  waitMs(now: number): number {
    const earned = Math.max(0, now - this.#countedAt) / this.#refillMs;
    this.#tokens = Math.min(this.#burst, this.#tokens + earned);
    this.#countedAt = now;
    return this.#tokens < 1 ? Math.ceil((1 - this.#tokens) * this.#refillMs) : 0;
  }

  /**
   * Takes leave to send one message.
   *
   * @returns 0 where it may go now, else nothing is taken, and it is {@link waitMs}
   */
  take(now: number): number {
    const waitMs = this.waitMs(now);
    if (waitMs === 0) {
      this.#tokens -= 1;
    }
    return waitMs;
  }
}
