import { setTimeout as delay } from 'node:timers/promises';
import { type ApiResponse, requestJson } from '../helpers/recipients/recipient-client.ts';
import { UndocumentedResponseError } from '../helpers/service/openapi-validator.ts';
import type { CheckRecorder } from './check-recorder.ts';

/** Longer than any response takes: the service waits at most 12 s for a mint, and retries once if the mint is busy. */
const RESPONSE_TIMEOUT_MS = 30_000;

/** @returns null if no complete response arrived */
export type TryRequest = (
  origin: string,
  path: string,
  init?: RequestInit,
) => Promise<ApiResponse | null>;

/**
 * Sends one request to a process that may be killed at any moment. Adds a problem if the response does not match the
 * API description.
 *
 * @returns null if no complete response arrived
 */
export async function tryRequest(
  checkRecorder: CheckRecorder,
  origin: string,
  path: string,
  init: RequestInit = {},
): Promise<ApiResponse | null> {
  const timeout = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
  const signal = AbortSignal.any([timeout, ...(init.signal ? [init.signal] : [])]);
  try {
    return await requestJson(origin, path, { ...init, signal });
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof UndocumentedResponseError) {
      checkRecorder.addProblem('responseFormat', error.message);
    }
    return null;
  }
}

/** @returns false if the signal aborted */
export async function sleepUnlessAborted(ms: number, signal: AbortSignal): Promise<boolean> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}
