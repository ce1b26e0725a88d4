import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { onTestFinished } from 'vitest';
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
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return `ws://127.0.0.1:${port}`;
}
