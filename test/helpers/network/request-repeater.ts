import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, vi } from 'vitest';
import type { ApiResponse } from '../recipients/recipient-client.ts';

type FailureResponse = Pick<ApiResponse, 'status' | 'body'>;

const REQUEST_INTERVAL_MS = 10;
const WAIT_TIMEOUT_MS = 60_000;

export class RequestRepeater {
  slowestResponseMs = 0;
  #successCount = 0;
  #failureCount = 0;
  #isStopping = false;
  readonly #loop: Promise<void>;

  constructor(expectedFailure: FailureResponse | null, sendRequest: () => Promise<ApiResponse>) {
    this.#loop = this.#sendRepeatedly(expectedFailure, sendRequest);
    onTestFinished(() => this.stop());
  }

  async waitForSuccesses(count: number): Promise<void> {
    const target = this.#successCount + count;
    await this.#waitUntil(() => this.#successCount >= target);
  }

  async waitForFailures(count: number): Promise<void> {
    const target = this.#failureCount + count;
    await this.#waitUntil(() => this.#failureCount >= target);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#loop;
  }

  async #waitUntil(condition: () => boolean): Promise<void> {
    const conditionMet = vi.waitUntil(condition, {
      timeout: WAIT_TIMEOUT_MS,
      interval: REQUEST_INTERVAL_MS,
    });
    await Promise.race([conditionMet, this.#loop]);
    await conditionMet;
  }

  async #sendRepeatedly(
    expectedFailure: FailureResponse | null,
    sendRequest: () => Promise<ApiResponse>,
  ): Promise<void> {
    while (!this.#isStopping) {
      const startedAtMs = performance.now();
      const { status, body } = await sendRequest();
      this.slowestResponseMs = Math.max(this.slowestResponseMs, performance.now() - startedAtMs);
      if (status === 200 && body.error !== true && body.status !== 'ERROR') {
        this.#successCount += 1;
      } else {
        expect({ status, body }).toEqual(expectedFailure);
        this.#failureCount += 1;
      }
      await delay(REQUEST_INTERVAL_MS);
    }
  }
}
