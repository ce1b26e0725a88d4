import { onTestFinished } from 'vitest';
import { findFreePort } from '../../../scripts/server-process.ts';
import { FakeNostrRelay } from './fake-nostr-relay.ts';

/** Starts a relay, and stops it when the test ends. */
export async function startFakeRelay(
  options: Parameters<typeof FakeNostrRelay.start>[0] = {},
): Promise<FakeNostrRelay> {
  const relay = await FakeNostrRelay.start(options);
  onTestFinished(() => relay.close());
  return relay;
}

/** Returns the URL of a port on which nothing listens. */
export async function findUnreachableRelayUrl(): Promise<string> {
  return `ws://127.0.0.1:${await findFreePort('127.0.0.1')}`;
}
