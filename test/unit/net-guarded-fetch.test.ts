import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '../../scripts/server-process.ts';
import { type FetchLimits, GuardedFetch } from '../../src/net/guarded-fetch.ts';

/** As many requests as an origin gets at a time; the next one waits. */
const CONNECTIONS = 16;

const PLAIN = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

describe('a guarded fetch', () => {
  it.each([
    'https://127.0.0.1/v1/info',
    'https://[::1]/v1/info',
    'https://[::ffff:127.0.0.1]/v1/info',
    'https://0x7f.1/v1/info',
    'https://2130706433/v1/info',
    'https://169.254.169.254/latest/meta-data',
    'https://localhost/v1/info',
  ])('refuses %s', async (url) => {
    const answer = await fetchWith({ allowPrivateNetworks: false }).request({ method: 'GET', url });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'forbidden address', isUnsent: true });
  });

  it('refuses plain http', async () => {
    const url = 'http://93.184.216.34/v1/info';
    const answer = await fetchWith({ allowPrivateNetworks: false }).request({ method: 'GET', url });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'https required', isUnsent: true });
  });

  it.each([22, 80, 442, 1023])('refuses port %i', async (port) => {
    const url = `https://93.184.216.34:${port}/v1/info`;
    const answer = await fetchWith({ allowPrivateNetworks: false }).request({ method: 'GET', url });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'forbidden port', isUnsent: true });
  });

  it('makes no connection to a refused address', async () => {
    let connections = 0;
    const port = await listen(createServer().on('connection', () => (connections += 1)));
    const guarded = fetchWith({ allowPrivateNetworks: false });
    for (const host of ['127.0.0.1', 'localhost']) {
      await guarded.request({ method: 'GET', url: `https://${host}:${port}/` });
    }
    expect(connections).toBe(0);
  });

  it('sends JSON and gives back status, headers and text', async () => {
    const url = await serve((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        response.writeHead(418, { 'x-one': 'a', 'set-cookie': ['b=1', 'c=2'] });
        response.end(`${request.method} ${request.url} ${request.headers['content-type']} ${body}`);
      });
    });
    const answer = await fetchWith().request({
      method: 'POST',
      url: `${url}/path?query=1`,
      body: { amount: 21 },
    });
    expect(answer).toMatchObject({
      outcome: 'answered',
      status: 418,
      text: 'POST /path?query=1 application/json {"amount":21}',
    });
    const headers = answer.outcome === 'answered' ? answer.headers : new Map();
    expect([headers.get('x-one'), headers.get('set-cookie')]).toEqual(['a', 'b=1']);
  });

  it('puts an answer together whose pieces end within a character, without its byte order mark', async () => {
    const url = await serve((_request, response) => {
      for (const byte of Buffer.from('\ufeff"Zoë"')) {
        response.write(Buffer.of(byte));
      }
      response.end();
    });
    expect(await fetchWith().request({ method: 'GET', url })).toMatchObject({ text: '"Zoë"' });
  });

  it('follows no redirect', async () => {
    const paths: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      paths.push(request.url);
      response.writeHead(302, { location: '/elsewhere' }).end();
    });
    const answer = await fetchWith().request({ method: 'GET', url: `${url}/here` });
    expect(answer).toMatchObject({ outcome: 'answered', status: 302 });
    expect(paths).toEqual(['/here']);
  });

  it('gives up on an answer that is too large', async () => {
    const url = await serve((_request, response) => response.end('x'.repeat(2_000)));
    const answer = await fetchWith({ limits: { maxBodyBytes: 1_000 } }).request({
      method: 'GET',
      url,
    });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'answer too large' });
  });

  it('gives up on an answer that is larger than this one may be', async () => {
    const url = await serve((_request, response) => response.end('x'.repeat(2_000)));
    const guarded = fetchWith();
    expect(await guarded.request({ method: 'GET', url, maxBodyBytes: 1_000 })).toEqual({
      outcome: 'unreachable',
      reason: 'answer too large',
    });
    expect(await guarded.request({ method: 'GET', url, maxBodyBytes: 4_000 })).toMatchObject({
      text: 'x'.repeat(2_000),
    });
  });

  it('counts what the pieces of an answer cost beside their bytes', async () => {
    const url = await serveBytes(`${CHUNKED}${'1\r\nx\r\n'.repeat(2_000)}0\r\n\r\n`);
    const answer = await fetchWith({ limits: { maxBodyBytes: 100_000 } }).request({
      method: 'GET',
      url,
    });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'answer too large' });
  });

  it('holds no more of all answers than it may, and cuts off the one that takes longest', async () => {
    const guarded = fetchWith({ limits: { maxBytesHeld: 10_000 } });
    const first = Promise.withResolvers<void>();
    const slow = await serve((_request, response) => {
      response.write('x'.repeat(6_000), () => first.resolve());
    });
    const quick = await serve((_request, response) => response.end('y'.repeat(6_000)));
    const cutOff = guarded.request({ method: 'GET', url: slow });
    await first.promise;
    // Its first piece is on its way: ask until it is held, too.
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => guarded.request({ method: 'GET', url: quick })),
    );
    expect(await cutOff).toEqual({ outcome: 'unreachable', reason: 'answer too large' });
    expect(answers.some(({ outcome }) => outcome === 'answered')).toBe(true);
    // What was held is free again.
    expect(await guarded.request({ method: 'GET', url: quick })).toMatchObject({
      outcome: 'answered',
    });
  });

  it.each(['gzip', 'br', 'deflate', 'zstd', 'x-gzip', 'identity, gzip', 'GZIP'])(
    'asks for no compression, and takes no answer in %s',
    async (encoding) => {
      const asked: unknown[] = [];
      const url = await serve((request, response) => {
        asked.push(request.headers['accept-encoding']);
        response.writeHead(200, { 'content-encoding': encoding }).end(gzipSync('{}'));
      });
      const answer = await fetchWith().request({ method: 'GET', url });
      expect(answer).toEqual({ outcome: 'unreachable', reason: 'answer compressed' });
      expect(asked).toEqual(['identity']);
    },
  );

  it.each(['identity', 'Identity', ''])('takes an answer in %j', async (encoding) => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': encoding }).end('plain');
    });
    expect(await fetchWith().request({ method: 'GET', url })).toMatchObject({ text: 'plain' });
  });

  it.each([
    ['the answer', `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(9)}${PLAIN}`, 'answer too large'],
    [
      'what follows it',
      `${CHUNKED}0\r\n${'X-More: more\r\n'.repeat(2_000)}\r\n`,
      'answer too large',
    ],
    [
      'a switch of protocols',
      'HTTP/1.1 101 Go\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n',
      'connection lost',
    ],
    ['less than was promised', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}', 'connection lost'],
  ])('gives up on %s where it is not as it should be', async (_what, bytes, reason) => {
    const answer = await fetchWith().request({ method: 'GET', url: await serveBytes(bytes) });
    expect(answer).toEqual({ outcome: 'unreachable', reason });
  });

  it('takes an answer after a few hints', async () => {
    const url = await serveBytes(`${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(8)}${PLAIN}`);
    expect(await fetchWith().request({ method: 'GET', url })).toMatchObject({ text: '{}' });
  });

  it('gives up on headers that are too large', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'x-long': 'x'.repeat(20_000) }).end();
    });
    const answer = await fetchWith().request({ method: 'GET', url });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'answer too large' });
  });

  it('gives up on a host that never answers, and on one that never ends', async () => {
    const guarded = fetchWith({ limits: { totalTimeoutMs: 50 } });
    const silent = await serve(() => {});
    const endless = await serve((_request, response) => response.write('{'));
    for (const url of [silent, endless]) {
      const answer = await guarded.request({ method: 'GET', url });
      expect(answer).toEqual({ outcome: 'unreachable', reason: 'timed out' });
    }
  });

  it('turns away what exceeds the requests that a host may have in flight', async () => {
    const guarded = fetchWith({ limits: { maxInFlightPerParty: 1 } });
    const arrived = Promise.withResolvers<() => void>();
    const url = await serve((_request, response) => arrived.resolve(() => response.end('late')));
    const first = guarded.request({ method: 'GET', url });
    const respond = await arrived.promise;
    expect(await guarded.request({ method: 'GET', url })).toEqual({
      outcome: 'unreachable',
      reason: 'too many requests in flight',
      isUnsent: true,
    });
    respond();
    expect(await first).toMatchObject({ text: 'late' });
  });

  it('keeps half of its places from hosts that never answered', async () => {
    const guarded = fetchWith({ limits: { maxInFlight: 4 } });
    const good = await serve((_request, response) => response.end('good'));
    await guarded.request({ method: 'GET', url: good });
    const arrivals: Promise<unknown>[] = [];
    const silent = await Promise.all(
      [0, 1].map(() => {
        const arrived = Promise.withResolvers<void>();
        arrivals.push(arrived.promise);
        return serve(() => arrived.resolve());
      }),
    );
    const waiting = silent.map((url) => guarded.request({ method: 'GET', url }));
    await Promise.all(arrivals);
    const stranger = await serve((_request, response) => response.end('new'));
    expect(await guarded.request({ method: 'GET', url: stranger })).toEqual({
      outcome: 'unreachable',
      reason: 'too many requests in flight',
      isUnsent: true,
    });
    expect(await guarded.request({ method: 'GET', url: good })).toMatchObject({ text: 'good' });
    await guarded.close();
    await Promise.all(waiting);
  });

  it('keeps places for what the operator named, and strangers have none of them', async () => {
    const own = await serve((_request, response) => response.end('own'));
    const guarded = fetchWith({ limits: { maxInFlight: 2 }, trustedOrigins: [own] });
    const arrived = Promise.withResolvers<void>();
    const silent = await serve(() => arrived.resolve());
    const waiting = guarded.request({ method: 'GET', url: silent });
    await arrived.promise;
    const stranger = await serve((_request, response) => response.end('new'));
    expect(await guarded.request({ method: 'GET', url: stranger })).toMatchObject({
      reason: 'too many requests in flight',
    });
    expect(await guarded.request({ method: 'GET', url: `${own}/v1/info` })).toMatchObject({
      text: 'own',
    });
    await guarded.close();
    await waiting;
  });

  it('throws for a body that cannot be sent, and asks nobody', async () => {
    let requests = 0;
    const url = await serve((_request, response) => {
      requests += 1;
      response.end('{}');
    });
    const guarded = fetchWith({ limits: { maxInFlightPerParty: 1 } });
    const amount = 21n;
    await expect(guarded.request({ method: 'POST', url, body: { amount } })).rejects.toThrow(
      TypeError,
    );
    expect(await guarded.request({ method: 'GET', url })).toMatchObject({ text: '{}' });
    expect(requests).toBe(1);
  });

  it('says why a host is out of reach in words without its path', async () => {
    const rude = createTcpServer((socket) => socket.destroy());
    const nonsense = createTcpServer((socket) => socket.end('hello\r\n\r\n'));
    const urls = {
      'connection refused': `http://127.0.0.1:${await freePort('127.0.0.1')}/secret`,
      'connection lost': `http://127.0.0.1:${await listen(rude)}/secret`,
      'not HTTP': `http://127.0.0.1:${await listen(nonsense)}/secret`,
    };
    for (const [reason, url] of Object.entries(urls)) {
      const answer = await fetchWith().request({ method: 'GET', url });
      expect(answer).toEqual({
        outcome: 'unreachable',
        reason,
        ...(reason === 'connection refused' && { isUnsent: true }),
      });
    }
  });

  it('knows that nothing was sent where no name was found', async () => {
    const url = 'http://nobody.invalid/v1/swap';
    const answer = await fetchWith().request({ method: 'POST', url, body: {} });
    expect(answer).toMatchObject({ outcome: 'unreachable', isUnsent: true });
  });

  it('knows that nothing was sent where it gave up before there was a connection', async () => {
    const guarded = fetchWith({ limits: { connectTimeoutMs: 50 } });
    // Connections are taken by the kernel; the handshake of TLS never ends.
    const port = await listen(createTcpServer(() => {}));
    const url = `https://127.0.0.1:${port}/v1/swap`;
    expect(await guarded.request({ method: 'POST', url, body: {} })).toEqual({
      outcome: 'unreachable',
      reason: 'timed out',
      isUnsent: true,
    });
  });

  it('does not say that nothing was sent of what a kept connection may have brought over', async () => {
    const arrived: (() => void)[] = [];
    const url = await serve((request, response) => {
      arrived.push(() => request.socket.destroy());
      if (arrived.length === 1) {
        response.end('first');
      } else {
        arrived.at(-1)?.();
      }
    });
    const guarded = fetchWith();
    await guarded.request({ method: 'POST', url, body: {} });
    expect(await guarded.request({ method: 'POST', url, body: {} })).toEqual({
      outcome: 'unreachable',
      reason: 'connection lost',
    });
    expect(arrived).toHaveLength(2);
  });

  it('knows that what still waited for a connection when it was closed was not sent', async () => {
    const guarded = fetchWith();
    const arrived = Promise.withResolvers<void>();
    let requests = 0;
    const url = await serve(() => {
      requests += 1;
      if (requests === CONNECTIONS) {
        arrived.resolve();
      }
    });
    const answers = Array.from({ length: CONNECTIONS + 1 }, () =>
      guarded.request({ method: 'POST', url, body: {} }),
    );
    await arrived.promise;
    await guarded.close();
    const closed = { outcome: 'unreachable', reason: 'closed' };
    expect(await Promise.all(answers)).toEqual([
      ...Array.from({ length: CONNECTIONS }, () => closed),
      { ...closed, isUnsent: true },
    ]);
    expect(await guarded.request({ method: 'POST', url, body: {} })).toEqual({
      ...closed,
      isUnsent: true,
    });
  });

  it('answers `closed` to what runs when it is closed', async () => {
    const guarded = fetchWith();
    const arrived = Promise.withResolvers<void>();
    const url = await serve(() => arrived.resolve());
    const running = guarded.request({ method: 'GET', url });
    await arrived.promise;
    await guarded.close();
    expect(await running).toEqual({ outcome: 'unreachable', reason: 'closed' });
  });
});

function fetchWith(
  options: {
    allowPrivateNetworks?: boolean;
    trustedOrigins?: string[];
    limits?: Partial<FetchLimits>;
  } = {},
): GuardedFetch {
  const guarded = new GuardedFetch({ allowPrivateNetworks: true, ...options });
  cleanups.push(() => guarded.close());
  return guarded;
}

async function serve(listener: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(listener))}`;
}

/** Answers every request with these bytes, and hangs up. */
async function serveBytes(bytes: string): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(bytes));
  });
  return `http://127.0.0.1:${await listen(server)}`;
}

async function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(async () => {
    if ('closeAllConnections' in server) {
      server.closeAllConnections();
    }
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
