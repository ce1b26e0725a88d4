import Fastify from 'fastify';
import { expect, it, onTestFinished } from 'vitest';
import { believedAddresses, unbelievedCount } from '../../src/http/forwarded-for.ts';

/** How far `X-Forwarded-For` is followed. */

const PROXY = '127.0.0.1';

it.each([
  ['without the header', PROXY, '', [PROXY], 0],
  ['by a proxy that is trusted', PROXY, '198.51.100.7', [PROXY, '198.51.100.7'], 0],
  ['by one that is seen as IPv6', `::ffff:${PROXY}`, '198.51.100.7', [PROXY, '198.51.100.7'], 0],
  ['by one that is not trusted', '::ffff:192.0.2.9', '198.51.100.7', ['192.0.2.9'], 1],
  ['with one behind it', PROXY, '198.51.100.7, 192.0.2.9', [PROXY, '192.0.2.9'], 1],
])('a request that comes %s', async (_how, remoteAddress, header, addresses, unbelieved) => {
  const app = Fastify({ trustProxy: [PROXY] });
  onTestFinished(() => app.close());
  app.get('/', async (request) => ({
    addresses: believedAddresses(request),
    unbelieved: unbelievedCount(request),
  }));
  const headers = { 'x-forwarded-for': header };
  const answer = await app.inject({ url: '/', remoteAddress, headers });
  expect(answer.json()).toEqual({ addresses, unbelieved });
});
