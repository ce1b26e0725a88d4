import { setTimeout as delay } from 'node:timers/promises';
import { UndescribedAnswer } from '../helpers/api-description.ts';
import { type ApiAnswer, request } from '../helpers/wallet.ts';
import type { Findings } from './findings.ts';

/** The service gives up on a silent mint after 12 s, and asks a busy one once more. */
const ANSWER_TIMEOUT_MS = 30_000;

/**
 * Sends one request to a process that may be killed at any moment. A response that differs from the
 * API's description is a finding.
 *
 * @returns null if no whole response arrived
 */
export async function ask(
  findings: Findings,
  origin: string,
  path: string,
  init: RequestInit = {},
): Promise<ApiAnswer | null> {
  const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  const signal = AbortSignal.any([timeout, ...(init.signal ? [init.signal] : [])]);
  try {
    return await request(origin, path, { ...init, signal });
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof UndescribedAnswer) {
      findings.note('dialect', error.message);
    }
    return null;
  }
}

/** Waits, at most until the signal. @returns whether to go on */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}
