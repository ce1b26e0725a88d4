import dns from 'node:dns';
import { once } from 'node:events';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import {
  type ConfigurationChanges,
  PROXIED_NAMES,
  type ReverseProxy,
  type ReverseProxyKind,
  startReverseProxy,
} from '../../scripts/reverse-proxy.ts';
import { freePort } from '../../scripts/server-process.ts';
import type { Surroundings } from '../../src/service.ts';
import { startBeside } from './second-service.ts';
import type { World } from './world.ts';

/** Where the proxy listens, and where its connections to the service come from. */
const PROXY_ADDRESS = '127.0.0.1';

const names: ReadonlySet<string> = new Set(PROXIED_NAMES);
const { lookup } = dns;

/** A service on two domains, behind a real reverse proxy with TLS. */
export interface TwoDomains {
  /** The canonical origin, and the other. */
  one: string;
  two: string;
  /** Without the proxy, such as `http://127.0.0.1:3000`. */
  directUrl: string;
  close(): Promise<void>;
}

/**
 * Starts one more service in a world, and its proxy. Whatever this process does from then on, it finds
 * the names there and trusts their certificate.
 *
 * @param options.hasPlainHttp the second domain is ours without TLS as well, at the same port
 * @param options.changes what is to be another than in the proxy's example
 */
export async function openTwoDomains(
  world: World,
  kind: ReverseProxyKind,
  options: {
    env?: Record<string, string>;
    surroundings?: Surroundings;
    changes?: ConfigurationChanges;
    hasPlainHttp?: boolean;
  } = {},
): Promise<TwoDomains> {
  const port = await freePort(PROXY_ADDRESS);
  const [one, two] = PROXIED_NAMES.map((name) => `https://${name}:${port}`) as [string, string];
  const origins = [one, two, ...(options.hasPlainHttp ? [two.replace('https:', 'http:')] : [])];
  const env = { PUBLIC_ORIGINS: origins.join(','), TRUST_PROXY: PROXY_ADDRESS, ...options.env };
  const service = await startBeside(world, env, options.surroundings);
  const upstream = new URL(service.url).host;
  const proxy = await startReverseProxy(kind, { port, upstream, changes: options.changes ?? [] });
  meetAt(proxy);
  return {
    one,
    two,
    directUrl: service.url,
    close: async () => {
      await service.stop();
      await proxy.stop();
    },
  };
}

function meetAt({ certificate }: ReverseProxy): void {
  setDefaultCACertificates([...getCACertificates('default'), certificate]);
  dns.lookup = lookupProxied as typeof lookup;
}

function lookupProxied(name: string, ...rest: unknown[]): void {
  Reflect.apply(lookup, dns, [names.has(name) ? PROXY_ADDRESS : name, ...rest]);
}

/** What a proxy or the service behind it answered, which need not be JSON. */
export interface ProxiedAnswer {
  status: number;
  headers: Headers;
  text: string;
}

/**
 * A request by hand, for what `fetch` adds, forbids or puts right by itself.
 *
 * @param origin whose certificate is expected, and which is in `Host` where that is not given
 * @param target exactly what stands in the request line
 * @param options.from the client's own address: any in 127.0.0.0/8
 */
export async function askThroughProxy(
  origin: string,
  target: string,
  options: { method?: string; headers?: Record<string, string>; from?: string } = {},
): Promise<ProxiedAnswer> {
  const { hostname, host, port } = new URL(origin);
  const request = httpsRequest({
    host: PROXY_ADDRESS,
    port,
    servername: hostname,
    path: target,
    method: options.method ?? 'GET',
    headers: { host, ...options.headers },
    localAddress: options.from ?? PROXY_ADDRESS,
    agent: false,
  });
  request.end();
  const [response] = await once(request, 'response');
  return {
    status: response.statusCode,
    headers: new Headers(response.headers),
    text: await text(response),
  };
}
