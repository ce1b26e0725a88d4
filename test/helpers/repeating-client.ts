import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, vi } from 'vitest';
import type { ApiAnswer } from './wallet.ts';

/** The response to a request that fails. */
export type Failure = Pick<ApiAnswer, 'status' | 'body'>;

const EVERY_MS = 10;

/**
 * Sends one request again and again until the test ends; each response must be a success or the expected
 * failure.
 */
export class RepeatingClient {
  slowestMs = 0;
  #successes = 0;
  #failures = 0;
  #isStopping = false;
  readonly #ended: Promise<void>;

  /** @param failure null if no response may be a failure */
  constructor(failure: Failure | null, ask: () => Promise<ApiAnswer>) {
    this.#ended = this.#keepAsking(failure, ask);
    onTestFinished(() => this.stop());
  }

  /** Waits for this many more successes. */
  async succeeds(times: number): Promise<void> {
    const enough = this.#successes + times;
    await this.#waitUntil(() => this.#successes >= enough);
  }

  /** Waits for this many more failures. */
  async fails(times: number): Promise<void> {
    const enough = this.#failures + times;
    await this.#waitUntil(() => this.#failures >= enough);
  }

  /** @throws if a response was neither a success nor the expected failure */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#ended;
  }

  async #waitUntil(isEnough: () => boolean): Promise<void> {
    const waiting = vi.waitUntil(isEnough, { timeout: 60_000, interval: EVERY_MS });
    await Promise.race([waiting, this.#ended]);
    await waiting;
  }

  async #keepAsking(failure: Failure | null, ask: () => Promise<ApiAnswer>): Promise<void> {
    while (!this.#isStopping) {
      const startedAtMs = performance.now();
      const { status, body } = await ask();
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startedAtMs);
      if (status === 200 && body.error !== true && body.status !== 'ERROR') {
        this.#successes += 1;
      } else {
        expect({ status, body }).toEqual(failure);
        this.#failures += 1;
      }
      await delay(EVERY_MS);
    }
  }
}
