import { onTestFinished } from 'vitest';
import { findFreePort } from '../../scripts/server-process.ts';
import { TestRelay } from './test-relay.ts';

/** Starts a relay that stops with the test. */
export async function startRelay(
  options: Parameters<typeof TestRelay.start>[0] = {},
): Promise<TestRelay> {
  const relay = await TestRelay.start(options);
  onTestFinished(() => relay.close());
  return relay;
}

/** Returns a relay URL at which nothing listens. */
export async function findUnreachableRelayUrl(): Promise<string> {
  return `ws://127.0.0.1:${await findFreePort('127.0.0.1')}`;
}
