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

  /**
   * Takes leave to send one message.
   *
   * @returns 0 where it may go now, else the milliseconds after which to ask again
   */
  take(now: number): number {
    const earned = Math.max(0, now - this.#countedAt) / this.#refillMs;
    this.#tokens = Math.min(this.#burst, this.#tokens + earned);
    this.#countedAt = now;
    if (this.#tokens < 1) {
      return Math.ceil((1 - this.#tokens) * this.#refillMs);
    }
    this.#tokens -= 1;
    return 0;
  }
}
