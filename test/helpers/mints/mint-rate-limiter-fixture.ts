import {
  type AcquireResult,
  type FinishedMintRequest,
  MintRateLimiter,
  type MintRateLimiterOptions,
  type RequestSlot,
} from '../../../src/mints/mint-rate-limiter.ts';

export function createTestMintRateLimiter() {
  const finishedRequests: FinishedMintRequest[] = [];
  const logEntries: Record<string, unknown>[] = [];
  const captureLogEntry = (fields: Record<string, unknown>) => logEntries.push(fields);
  const limiter = new MintRateLimiter({
    monotonicMs: () => performance.now(),
    onRequestFinished: (request) => finishedRequests.push(request),
    log: {
      info: captureLogEntry,
      warn: captureLogEntry,
    } as unknown as MintRateLimiterOptions['log'],
  });
  return { limiter, finishedRequests, logEntries };
}

export function expectGranted(result: AcquireResult): RequestSlot {
  if (result.outcome !== 'granted') {
    throw new Error(`the limiter rejected the request: retry after ${result.retryAfterMs} ms`);
  }
  return result.slot;
}
