import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { findFreePort } from '../../scripts/server-process.ts';
import {
  type FetchLimits,
  GuardedFetch,
  type GuardedResponse,
} from '../../src/net/guarded-fetch.ts';

// test/security/egress.test.ts covers addresses, ports, redirects, proxies and certificates.

/** The limit of concurrent requests to one host; further requests are queued. */
const CONNECTIONS = 16;

const PLAIN = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
const HINT = 'HTTP/1.1 103 Early Hints\r\n\r\n';
const UPGRADE = 'HTTP/1.1 101 Go\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n';

describe('GuardedFetch responses', () => {
  it("return the host's status, headers and text", async () => {
    const url = await serve((request, response) => {
      const { 'content-type': type, 'accept-encoding': encoding } = request.headers;
      response.writeHead(418, { 'set-cookie': ['b=1', 'c=2'] });
      response.write(`${request.method} ${request.url} ${type} ${encoding} `);
      request.pipe(response);
    });
    const answer = await get(`${url}/path?query=1`, { body: { amount: 21 } });
    expect('headers' in answer && answer.headers.get('set-cookie')).toBe('b=1');
    expect(answer).toMatchObject({
      outcome: 'responded',
      status: 418,
      text: 'POST /path?query=1 application/json identity {"amount":21}',
    });
  });

  it('are decoded across chunks, without the byte order mark', async () => {
    const url = await serve((_request, response) => {
      for (const byte of Buffer.from('\ufeff"Zoë"')) {
        response.write(Buffer.of(byte));
      }
      response.end();
    });
    expect(await get(url)).toMatchObject({ text: '"Zoë"' });
  });

  it.each([
    ['a body beyond the bound', PLAIN, { maxBodyBytes: 1 }, 'response too large'],
    [
      'many tiny chunks',
      `${CHUNKED}${'1\r\nx\r\n'.repeat(2_000)}0\r\n\r\n`,
      { maxBodyBytes: 100_000 },
      'response too large',
    ],
    [
      'large headers',
      PLAIN.replace('\n', `\nX: ${'x'.repeat(20_000)}\r\n`),
      {},
      'response too large',
    ],
    [
      'large trailers',
      `${CHUNKED}0\r\n${'X-More: more\r\n'.repeat(2_000)}\r\n`,
      {},
      'response too large',
    ],
    ['nine interim answers', `${HINT.repeat(9)}${PLAIN}`, {}, 'response too large'],
    ['another protocol', UPGRADE, {}, 'connection lost'],
    ['a truncated body', PLAIN.replace('Length: 2', 'Length: 9'), {}, 'connection lost'],
    ['no HTTP', 'hello\r\n\r\n', {}, 'not HTTP'],
    ['no bytes', '', {}, 'connection lost'],
  ])('are rejected with %s', async (_case, bytes, options, reason) => {
    const answer = await get(await serveBytes(bytes), options);
    expect(answer).toEqual({ outcome: 'unreachable', reason });
  });

  it('may follow a few interim responses', async () => {
    expect(await get(await serveBytes(`${HINT.repeat(8)}${PLAIN}`))).toMatchObject({ text: '{}' });
  });

  it.each(['gzip', 'identity, gzip', 'GZIP'])(
    'are rejected if they are compressed (%s)',
    async (encoding) => {
      const url = await serveBytes(PLAIN.replace('\n', `\nContent-Encoding: ${encoding}\r\n`));
      expect(await get(url)).toEqual({ outcome: 'unreachable', reason: 'response compressed' });
    },
  );

  it.each(['identity', 'Identity', ''])('may have the content encoding %j', async (encoding) => {
    const url = await serveBytes(PLAIN.replace('\n', `\nContent-Encoding: ${encoding}\r\n`));
    expect(await get(url)).toMatchObject({ text: '{}' });
  });

  it('must be complete before the timeout', async () => {
    const limits = { totalTimeoutMs: 50 };
    const silent = await serve(() => {});
    const endless = await serve((_request, response) => response.write('{'));
    for (const url of [silent, endless]) {
      const answer = await get(url, {}, fetchWith({ limits }));
      expect(answer).toEqual({ outcome: 'unreachable', reason: 'timed out' });
    }
  });
});

describe('GuardedFetch limits', () => {
  it('limit the total bytes of pending responses and abort the slowest', async () => {
    const guarded = fetchWith({ limits: { maxBufferedBytes: 10_000 } });
    const firstPiece = Promise.withResolvers<void>();
    const slow = await serve((_request, response) => {
      response.write('x'.repeat(6_000), () => firstPiece.resolve());
    });
    const quick = await serve((_request, response) => response.end('y'.repeat(6_000)));
    const cutOff = get(slow, {}, guarded);
    await firstPiece.promise;
    const answers = await Promise.all([1, 2, 3, 4].map(() => get(quick, {}, guarded)));
    expect(await cutOff).toEqual({ outcome: 'unreachable', reason: 'response too large' });
    expect(answers.some(({ outcome }) => outcome === 'responded')).toBe(true);
    expect(await get(quick, {}, guarded)).toMatchObject({ outcome: 'responded' });
  });

  it('queue requests to a host with too many requests in flight', async () => {
    const guarded = fetchWith({ limits: { maxInFlightPerHost: 1 } });
    const paths: unknown[] = [];
    const url = await serve((request, response) => {
      paths.push(request.url);
      setImmediate(() => response.end('{}'));
    });
    const sent = Array.from({ length: 100 }, (_, index) => `/${index}`);
    const answers = await Promise.all(sent.map((path) => get(`${url}${path}`, {}, guarded)));
    expect(answers).toMatchObject(sent.map(() => ({ text: '{}' })));
    expect(paths).toEqual(sent);
  });

  it('reject requests to a host with a full queue', async () => {
    const guarded = fetchWith({ limits: { maxInFlightPerHost: 1 } });
    const arrived = Promise.withResolvers<() => void>();
    const url = await serve((_request, response) => {
      arrived.resolve(() => response.end('late'));
    });
    const first = get(url, {}, guarded);
    const waiting = Array.from({ length: 128 }, () => get(url, {}, guarded));
    expect(await get(url, {}, guarded)).toEqual({
      outcome: 'unreachable',
      reason: 'too many requests in flight',
      isUnsent: true,
    });
    (await arrived.promise)();
    expect(await first).toMatchObject({ text: 'late' });
    await guarded.close();
    const ended = await Promise.all(waiting);
    expect(ended.every(({ outcome }) => outcome === 'unreachable')).toBe(true);
  });
});

describe('a GuardedFetch request', () => {
  it('throws without being sent if its body is not JSON', async () => {
    let requests = 0;
    const url = await serve((_request, response) => {
      requests += 1;
      response.end('{}');
    });
    const guarded = fetchWith({ limits: { maxInFlightPerHost: 1 } });
    await expect(get(url, { body: { amount: 21n } }, guarded)).rejects.toThrow(TypeError);
    expect(await get(url, {}, guarded)).toMatchObject({ text: '{}' });
    expect(requests).toBe(1);
  });

  it('requires https unless private networks are allowed', async () => {
    const guarded = fetchWith({ allowPrivateNetworks: false });
    const answer = await get('http://93.184.216.34/v1/info', {}, guarded);
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'https required', isUnsent: true });
  });

  it('is reported as unsent if it never had a connection', async () => {
    // The kernel accepts the connection; the TLS handshake never ends.
    const port = await listen(createTcpServer(() => {}));
    const refused = `http://127.0.0.1:${await findFreePort('127.0.0.1')}/secret`;
    const guarded = fetchWith({ limits: { connectTimeoutMs: 50 } });
    const unsent = { outcome: 'unreachable', isUnsent: true };
    expect(await get(`https://127.0.0.1:${port}/`, { body: {} }, guarded)).toEqual({
      ...unsent,
      reason: 'timed out',
    });
    expect(await get(refused)).toEqual({ ...unsent, reason: 'connection refused' });
    expect(await get('http://nobody.invalid/', { body: {} })).toMatchObject(unsent);
  });

  it('is not reported as unsent if a reused connection may have sent it', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      requests += 1;
      if (requests === 1) {
        response.end('first');
      } else {
        request.socket.destroy();
      }
    });
    const guarded = fetchWith();
    await get(url, { body: {} }, guarded);
    const second = await get(url, { body: {} }, guarded);
    expect(second).toEqual({ outcome: 'unreachable', reason: 'connection lost' });
    expect(requests).toBe(2);
  });

  it('ends as closed when the client is closed, and as unsent if it was still queued', async () => {
    const guarded = fetchWith();
    const silent = await serveSilent(CONNECTIONS);
    const answers = Array.from({ length: CONNECTIONS + 1 }, () => get(silent.url, {}, guarded));
    await silent.arrived;
    await guarded.close();
    const closed = { outcome: 'unreachable', reason: 'closed' };
    const unsent = { ...closed, isUnsent: true };
    expect(await Promise.all(answers)).toEqual([...Array(CONNECTIONS).fill(closed), unsent]);
    expect(await get(silent.url, {}, guarded)).toEqual(unsent);
  });
});

/** Sends a GET, or a POST if there is a body. */
function get(
  url: string,
  options: { body?: unknown; maxBodyBytes?: number } = {},
  guarded = fetchWith(),
): Promise<GuardedResponse> {
  return guarded.request({ method: 'body' in options ? 'POST' : 'GET', url, ...options });
}

function fetchWith(
  options: {
    allowPrivateNetworks?: boolean;
    operatorOrigins?: string[];
    limits?: Partial<FetchLimits>;
  } = {},
): GuardedFetch {
  const guarded = new GuardedFetch({ allowPrivateNetworks: true, ...options });
  onTestFinished(() => guarded.close());
  return guarded;
}

async function serve(listener: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(listener))}`;
}

/** Starts a host that never responds; `arrived` resolves when it has this many requests. */
async function serveSilent(count: number): Promise<{ url: string; arrived: Promise<void> }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let requests = 0;
  const url = await serve(() => {
    requests += 1;
    if (requests === count) {
      resolve();
    }
  });
  return { url, arrived: promise };
}

/** Starts a host that responds to every request with these bytes and disconnects. */
async function serveBytes(bytes: string): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(bytes));
  });
  return `http://127.0.0.1:${await listen(server)}`;
}

async function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    if ('closeAllConnections' in server) {
      server.closeAllConnections();
    }
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
