import dns from 'node:dns';
import { once } from 'node:events';
import { request as httpsRequest } from 'node:https';
import { isIPv6 } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect, getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import {
  type ConfigurationChanges,
  PROXIED_NAMES,
  type ReverseProxy,
  type ReverseProxyKind,
  startReverseProxy,
} from '../../scripts/reverse-proxy.ts';
import { freePort } from '../../scripts/server-process.ts';
import type { Surroundings } from '../../src/service.ts';
import type { World } from './world.ts';
import { startBeside } from './world.ts';

/** Where a client finds the proxy, and where the proxy's connections to the service come from. */
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

/**
 * A connection by hand, on which the client has said nothing yet.
 *
 * @param from the client's own address: any in 127.0.0.0/8, or ::1 where the proxy has IPv6
 */
export function connectToProxy(origin: string, from = PROXY_ADDRESS): TLSSocket {
  const { hostname, port } = new URL(origin);
  // Not given as it is: the types of TLS have no `localAddress`, which goes on to the socket below it.
  const options = {
    host: isIPv6(from) ? from : PROXY_ADDRESS,
    port: Number(port),
    servername: hostname,
    localAddress: from,
  };
  return connect(options);
}

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
 * @param options.from as in {@link connectToProxy}
 */
export async function askThroughProxy(
  origin: string,
  target: string,
  options: { method?: string; headers?: Record<string, string>; from?: string } = {},
): Promise<ProxiedAnswer> {
  const request = httpsRequest({
    path: target,
    method: options.method ?? 'GET',
    headers: { host: new URL(origin).host, ...options.headers },
    createConnection: () => connectToProxy(origin, options.from),
  });
  request.end();
  const [response] = await once(request, 'response');
  return {
    status: response.statusCode,
    headers: new Headers(response.headers),
    text: await text(response),
  };
}
