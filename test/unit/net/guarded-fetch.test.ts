import { createServer, type RequestListener } from 'node:http';
import { createServer as createTcpServer, type Server } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { findFreePort } from '../../../scripts/server-process.ts';
import { GuardedFetch, type GuardedRequest } from '../../../src/net/guarded-fetch.ts';
import type { HttpResponse } from '../../../src/net/http-client.ts';
import { FETCH_LIMITS, type FetchLimits } from '../../../src/net/limits.ts';
import { listenOnLoopback } from '../../helpers/network/loopback-server.ts';

// test/security/egress.test.ts covers addresses, ports, redirects, proxies and certificates, and
// test/security/hostile-mint.test.ts covers malformed, compressed, slow and endless responses.

const MAX_IN_FLIGHT_PER_HOST = 16;
const MAX_QUEUED_PER_HOST = 128;

describe('GuardedFetch responses', () => {
  it('decodes UTF-8 across chunks and removes the byte order mark', async () => {
    const url = await startHost((_request, response) => {
      for (const byte of Buffer.from('\ufeff"Zoë"')) {
        response.write(Buffer.of(byte));
      }
      response.end();
    });
    expect(await sendRequest(url)).toMatchObject({ json: 'Zoë' });
  });

  it.each([
    ['that is not JSON', '{"a":'],
    ['with too many elements', JSON.stringify(Array(16_001).fill(0))],
  ])('returns a body %s as text', async (_case, body) => {
    const url = await startHost((_request, response) => response.end(body));
    expect(await sendRequest(url)).toMatchObject({ json: undefined, text: body });
  });
});

describe('GuardedFetch limits', () => {
  it('limits the total bytes of pending responses by aborting the slowest response', async () => {
    const guardedFetch = createFetch({ limits: { maxBufferedBytes: 10_000 } });
    const firstChunkSent = Promise.withResolvers<void>();
    const slowHost = await startHost((_request, response) => {
      response.write('x'.repeat(6_000), () => firstChunkSent.resolve());
    });
    const quickHost = await startHost((_request, response) => response.end('y'.repeat(6_000)));
    const slowResult = sendRequest(slowHost, {}, guardedFetch);
    await firstChunkSent.promise;
    const results = await Promise.all(
      [1, 2, 3, 4].map(() => sendRequest(quickHost, {}, guardedFetch)),
    );
    expect(await slowResult).toEqual({ outcome: 'unreachable', reason: 'response too large' });
    expect(results.some(({ outcome }) => outcome === 'responded')).toBe(true);
    expect(await sendRequest(quickHost, {}, guardedFetch)).toMatchObject({ outcome: 'responded' });
  });

  it('rejects requests to a host with a full queue', async () => {
    const guardedFetch = createFetch({ limits: { maxInFlightPerSite: 1 } });
    const firstArrived = Promise.withResolvers<() => void>();
    const url = await startHost((_request, response) => {
      firstArrived.resolve(() => response.end('late'));
    });
    const firstResult = sendRequest(url, {}, guardedFetch);
    const queuedResults = Array.from({ length: MAX_QUEUED_PER_HOST }, () =>
      sendRequest(url, {}, guardedFetch),
    );
    expect(await sendRequest(url, {}, guardedFetch)).toEqual({
      outcome: 'unreachable',
      reason: 'too many requests in flight',
      isUnsent: true,
    });
    const respondToFirst = await firstArrived.promise;
    respondToFirst();
    expect(await firstResult).toMatchObject({ text: 'late' });
    await guardedFetch.close();
    const results = await Promise.all(queuedResults);
    expect(results.every(({ outcome }) => outcome === 'unreachable')).toBe(true);
  });
});

describe('GuardedFetch failures', () => {
  it('reports a request as unsent if it never had a connection', async () => {
    // The kernel accepts the connection, but the TLS handshake never ends.
    const silentUrl = (await listen(createTcpServer(() => {}))).replace('http', 'https');
    const closedUrl = `http://127.0.0.1:${await findFreePort('127.0.0.1')}/secret`;
    const guardedFetch = createFetch({ limits: { connectTimeoutMs: 50 } });
    const unsentResult = { outcome: 'unreachable', isUnsent: true };
    expect(await sendRequest(silentUrl, { body: {} }, guardedFetch)).toEqual({
      ...unsentResult,
      reason: 'timed out',
    });
    expect(await sendRequest(closedUrl)).toEqual({ ...unsentResult, reason: 'connection refused' });
    expect(await sendRequest('http://unknown.invalid/', { body: {} })).toMatchObject(unsentResult);
  });

  it('does not report a request as unsent if a reused connection may have sent it', async () => {
    let requestCount = 0;
    const url = await startHost((request, response) => {
      requestCount += 1;
      if (requestCount === 1) {
        response.end('first');
      } else {
        request.socket.destroy();
      }
    });
    const guardedFetch = createFetch();
    await sendRequest(url, { body: {} }, guardedFetch);
    const secondResult = await sendRequest(url, { body: {} }, guardedFetch);
    expect(secondResult).toEqual({ outcome: 'unreachable', reason: 'connection lost' });
    expect(requestCount).toBe(2);
  });

  it('ends all requests when it is closed, and reports queued requests as unsent', async () => {
    const guardedFetch = createFetch();
    const silentHost = await startSilentHost(MAX_IN_FLIGHT_PER_HOST);
    const results = Array.from({ length: MAX_IN_FLIGHT_PER_HOST + 1 }, () =>
      sendRequest(silentHost.url, {}, guardedFetch),
    );
    await silentHost.allArrived;
    await guardedFetch.close();
    const closedResult = { outcome: 'unreachable', reason: 'closed' };
    const unsentResult = { ...closedResult, isUnsent: true };
    expect(await Promise.all(results)).toEqual([
      ...Array(MAX_IN_FLIGHT_PER_HOST).fill(closedResult),
      unsentResult,
    ]);
    expect(await sendRequest(silentHost.url, {}, guardedFetch)).toEqual(unsentResult);
  });
});

function sendRequest(
  url: string,
  options: Omit<GuardedRequest, 'url'> = {},
  guardedFetch = createFetch(),
): Promise<HttpResponse> {
  return guardedFetch.request({ url, ...options });
}

function createFetch({ limits = {} }: { limits?: Partial<FetchLimits> } = {}): GuardedFetch {
  const guardedFetch = new GuardedFetch({
    allowPrivateNetworks: true,
    limits: { ...FETCH_LIMITS, ...limits },
  });
  onTestFinished(() => guardedFetch.close());
  return guardedFetch;
}

async function startHost(listener: RequestListener): Promise<string> {
  return await listen(createServer(listener));
}

async function startSilentHost(
  requestCount: number,
): Promise<{ url: string; allArrived: Promise<void> }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let receivedCount = 0;
  const url = await startHost(() => {
    receivedCount += 1;
    if (receivedCount === requestCount) {
      resolve();
    }
  });
  return { url, allArrived: promise };
}

async function listen(server: Server): Promise<string> {
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return url;
}
