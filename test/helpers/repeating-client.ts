import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, vi } from 'vitest';
import type { ApiResponse } from './test-wallet.ts';

/** The expected failure response. */
export type ExpectedFailure = Pick<ApiResponse, 'status' | 'body'>;

const REQUEST_INTERVAL_MS = 10;

/**
 * Sends one request repeatedly until the test ends; each response must be a success or the expected
 * failure.
 */
export class RepeatingClient {
  slowestResponseMs = 0;
  #successes = 0;
  #failures = 0;
  #isStopping = false;
  readonly #ended: Promise<void>;

  /** @param failure null if no response may be a failure */
  constructor(failure: ExpectedFailure | null, ask: () => Promise<ApiResponse>) {
    this.#ended = this.#sendRepeatedly(failure, ask);
    onTestFinished(() => this.stop());
  }

  /** Waits for this many more successes. */
  async waitForSuccesses(times: number): Promise<void> {
    const enough = this.#successes + times;
    await this.#waitUntil(() => this.#successes >= enough);
  }

  /** Waits for this many more failures. */
  async waitForFailures(times: number): Promise<void> {
    const enough = this.#failures + times;
    await this.#waitUntil(() => this.#failures >= enough);
  }

  /** @throws if a response was neither a success nor the expected failure */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#ended;
  }

  async #waitUntil(isEnough: () => boolean): Promise<void> {
    const waiting = vi.waitUntil(isEnough, { timeout: 60_000, interval: REQUEST_INTERVAL_MS });
    await Promise.race([waiting, this.#ended]);
    await waiting;
  }

  async #sendRepeatedly(
    failure: ExpectedFailure | null,
    ask: () => Promise<ApiResponse>,
  ): Promise<void> {
    while (!this.#isStopping) {
      const startedAtMs = performance.now();
      const { status, body } = await ask();
      this.slowestResponseMs = Math.max(this.slowestResponseMs, performance.now() - startedAtMs);
      if (status === 200 && body.error !== true && body.status !== 'ERROR') {
        this.#successes += 1;
      } else {
        expect({ status, body }).toEqual(failure);
        this.#failures += 1;
      }
      await delay(REQUEST_INTERVAL_MS);
    }
  }
}
