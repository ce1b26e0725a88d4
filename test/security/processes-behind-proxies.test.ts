import { createServer } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { REVERSE_PROXIES, type ReverseProxyKind } from '../../scripts/reverse-proxy.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { READY_PATH } from '../../src/http/routes/health.ts';
import { eventually } from '../helpers/eventually.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import {
  type ProxiedResponse,
  requestThroughProxy,
  type ServiceBehindProxy,
  startServiceBehindProxy,
} from '../helpers/service/service-behind-proxy.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const HOST = '127.0.0.1';

/** Enough that a proxy very probably sends some of them to each of two processes. */
const REQUEST_COUNT = 10;

const PATHS = ['/.well-known/lnurlp/alice', '/api/v2/info', '/'];

/** Of these proxies, only nginx does not request `/health/ready`. */
const PROXIES_WITH_HEALTH_CHECKS = REVERSE_PROXIES.filter((kind) => kind !== 'nginx');

const environment = useTestEnvironment();

describe.each(REVERSE_PROXIES)('%s', (kind) => {
  it('responds in the formats of payers and wallets if no process accepts connections', async () => {
    const service = await useServiceBehindProxy(kind);
    await service.stopService();
    for (const path of PATHS) {
      const { status, headers, text } = await requestThroughProxy(service.canonicalOrigin, path);
      expect(status).toBe(503);
      expect(headers.get('retry-after')).toMatch(/^\d+$/);
      expect(headers.get('access-control-allow-origin')).toBe('*');
      expect(headers.get('content-type')).toMatch(/^application\/json/);
      const message = 'The service is unavailable.';
      expect(JSON.parse(text)).toEqual({
        error: true,
        code: 'unavailable',
        message,
        status: 'ERROR',
        reason: message,
      });
    }
  });

  it('sends every request to a running process if another one was killed', async () => {
    const unusedPort = await findFreePort(HOST);
    const { canonicalOrigin } = await useServiceBehindProxy(kind, [`${HOST}:${unusedPort}`]);
    expect(await requestStatuses(canonicalOrigin)).toEqual(Array(REQUEST_COUNT).fill(200));
    expect(await requestStatuses(canonicalOrigin, 'POST')).toEqual(Array(REQUEST_COUNT).fill(405));
  });

  it('repeats a GET request that a killed process did not answer', async () => {
    const failing = await startFailingProcess({ isReady: true });
    const { canonicalOrigin } = await useServiceBehindProxy(kind, [failing.address]);
    while (failing.receivedMethods.length === 0) {
      expect((await requestThroughProxy(canonicalOrigin, '/api/v2/info')).status).toBe(200);
    }
  });

  it('sends a POST request to one process only, even if that is killed', async () => {
    const failing = await startFailingProcess({ isReady: true });
    const { canonicalOrigin } = await useServiceBehindProxy(kind, [failing.address]);
    let failure: ProxiedResponse | null = null;
    while (failing.receivedMethods.length === 0) {
      failure = await requestThroughProxy(canonicalOrigin, '/api/v2/info', { method: 'POST' });
    }
    expect(failing.receivedMethods).toEqual(['POST']);
    expect(failure?.status).toBe(503);
    expect(JSON.parse(failure?.text ?? '')).toMatchObject({ error: true, status: 'ERROR' });
  });
});

it.each(REVERSE_PROXIES)(
  'logs with %s no verify token and no comment, even if no process accepts connections',
  async (kind) => {
    const service = await useServiceBehindProxy(kind);
    const token = 'a'.repeat(64);
    const comment = 'a-comment-of-a-payer';
    const request = async () => {
      for (const path of [
        `/lnurl/verify/${token}`,
        `/.well-known/lnurlp/alice?amount=1000&comment=${comment}`,
      ]) {
        await requestThroughProxy(service.canonicalOrigin, path);
        if (kind !== 'caddy') {
          await fetch(`${service.httpOrigin}${path}`, { redirect: 'manual' });
        }
      }
    };
    await request();
    await service.stopService();
    await request();
    const log = await service.readProxyLog();
    expect(log).not.toContain(token);
    expect(log).not.toContain(comment);
  },
);

it.each(['nginx', 'haproxy'] as const)('redirects http: URLs with %s', async (kind) => {
  const { httpOrigin } = await useServiceBehindProxy(kind);
  const response = await fetch(`${httpOrigin}/alice?amount=21`, { redirect: 'manual' });
  expect(response.status).toBe(308);
  expect(response.headers.get('location')).toMatch(
    /^https:\/\/one\.example(:\d+)?\/alice\?amount=21$/,
  );
});

describe.each(PROXIES_WITH_HEALTH_CHECKS)('%s', (kind) => {
  it('sends no request to a process that is not ready', async () => {
    const failing = await startFailingProcess({ isReady: false });
    const { canonicalOrigin, stopService } = await useServiceBehindProxy(kind, [failing.address]);
    await eventually(async () => {
      failing.receivedMethods.length = 0;
      expect(await requestStatuses(canonicalOrigin)).toEqual(Array(REQUEST_COUNT).fill(200));
      expect(failing.receivedMethods).toEqual([]);
    });

    await stopService();
    const { status, text } = await requestThroughProxy(canonicalOrigin, '/api/v2/info');
    expect(status).toBe(503);
    expect(JSON.parse(text)).toMatchObject({ error: true, status: 'ERROR' });
    expect(failing.receivedMethods).toEqual([]);
  });
});

async function useServiceBehindProxy(
  kind: ReverseProxyKind,
  otherUpstreams: readonly string[] = [],
): Promise<ServiceBehindProxy> {
  const service = await startServiceBehindProxy(environment, kind, { otherUpstreams });
  onTestFinished(() => service.close());
  return service;
}

async function requestStatuses(origin: string, method = 'GET'): Promise<number[]> {
  const statuses: number[] = [];
  for (let sent = 0; sent < REQUEST_COUNT; sent += 1) {
    statuses.push((await requestThroughProxy(origin, '/api/v2/info', { method })).status);
  }
  return statuses;
}

async function startFailingProcess({ isReady }: { isReady: boolean }) {
  const receivedMethods: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    if (request.url === READY_PATH) {
      response.writeHead(isReady ? 200 : 503).end();
      return;
    }
    receivedMethods.push(request.method);
    request.socket.destroy();
  });
  const { port, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return { address: `${HOST}:${port}`, receivedMethods };
}
