import { onTestFinished } from 'vitest';
import { freePort } from '../../scripts/server-process.ts';
import { TestRelay } from './test-relay.ts';

/** Starts a relay that ends with the test. */
export async function startRelay(
  options: Parameters<typeof TestRelay.start>[0] = {},
): Promise<TestRelay> {
  const relay = await TestRelay.start(options);
  onTestFinished(() => relay.close());
  return relay;
}

/** A relay's url at which nobody listens. */
export async function refusingPort(): Promise<string> {
  return `ws://127.0.0.1:${await freePort('127.0.0.1')}`;
}
