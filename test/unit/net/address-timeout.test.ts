import net from 'node:net';
import { expect, it, vi } from 'vitest';

// With Node's default, a connection fails if its first packet is lost and the other address is unreachable.
it.each([
  ['a mint', () => import('../../../src/net/guarded-fetch.ts')],
  ['a relay', () => import('../../../src/net/guarded-websocket.ts')],
  ['PostgreSQL', () => import('../../../src/database/postgres.ts')],
])('a connection to %s tries each address for 2.5 s', async (_case, importModule) => {
  net.setDefaultAutoSelectFamilyAttemptTimeout(250);
  vi.resetModules();
  await importModule();
  expect(net.getDefaultAutoSelectFamilyAttemptTimeout()).toBe(2_500);
});
