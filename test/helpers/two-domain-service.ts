import dns from 'node:dns';
import { once } from 'node:events';
import { request as httpsRequest } from 'node:https';
import { isIPv6 } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect, getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import {
  type ConfigReplacements,
  PROXIED_HOSTNAMES,
  type ReverseProxy,
  type ReverseProxyKind,
  startReverseProxy,
} from '../../scripts/reverse-proxy.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import type { ServiceOverrides } from '../../src/service.ts';
import type { TestEnvironment } from './test-environment.ts';
import { startAdditionalService } from './test-environment.ts';

/** Address at which clients reach the proxy, and source address of the proxy's connections to the service. */
const PROXY_ADDRESS = '127.0.0.1';

const proxiedHostnames: ReadonlySet<string> = new Set(PROXIED_HOSTNAMES);
const { lookup } = dns;

/** A service on two domains, behind a real reverse proxy with TLS. */
export interface TwoDomainService {
  /** The canonical origin and the second one. */
  canonicalOrigin: string;
  secondOrigin: string;
  /** Address without the proxy, such as `http://127.0.0.1:3000`. */
  directUrl: string;
  close(): Promise<void>;
}

/**
 * Starts another service in an environment, and its proxy. From then on this process resolves the domains
 * to the proxy and trusts its certificate.
 *
 * @param options.hasPlainHttp whether the second domain also accepts plain HTTP, at the same port
 * @param options.changes changes to the proxy's example configuration
 */
export async function startTwoDomainService(
  environment: TestEnvironment,
  kind: ReverseProxyKind,
  options: {
    env?: Record<string, string>;
    overrides?: ServiceOverrides;
    proxyConfigReplacements?: ConfigReplacements;
    shouldAddHttpOrigin?: boolean;
  } = {},
): Promise<TwoDomainService> {
  const port = await findFreePort(PROXY_ADDRESS);
  const [one, two] = PROXIED_HOSTNAMES.map((name) => `https://${name}:${port}`) as [string, string];
  const origins = [
    one,
    two,
    ...(options.shouldAddHttpOrigin ? [two.replace('https:', 'http:')] : []),
  ];
  const env = { PUBLIC_ORIGINS: origins.join(','), TRUST_PROXY: PROXY_ADDRESS, ...options.env };
  const service = await startAdditionalService(environment, env, options.overrides);
  const upstream = new URL(service.url).host;
  const proxy = await startReverseProxy(kind, {
    port,
    upstream,
    replacements: options.proxyConfigReplacements ?? [],
  });
  routeHostnamesToProxy(proxy);
  return {
    canonicalOrigin: one,
    secondOrigin: two,
    directUrl: service.url,
    close: async () => {
      await service.stop();
      await proxy.stop();
    },
  };
}

function routeHostnamesToProxy({ certificate }: ReverseProxy): void {
  setDefaultCACertificates([...getCACertificates('default'), certificate]);
  dns.lookup = lookupWithProxy as typeof lookup;
}

function lookupWithProxy(name: string, ...rest: unknown[]): void {
  Reflect.apply(lookup, dns, [proxiedHostnames.has(name) ? PROXY_ADDRESS : name, ...rest]);
}

/**
 * Opens a raw connection, on which nothing was sent yet.
 *
 * @param clientAddress the client's own address: any in 127.0.0.0/8, or ::1 if the proxy has IPv6
 */
export function connectToProxy(origin: string, clientAddress = PROXY_ADDRESS): TLSSocket {
  const { hostname, port } = new URL(origin);
  // A variable, because the types of TLS lack `localAddress`, which is passed to the TCP socket.
  const options = {
    host: isIPv6(clientAddress) ? clientAddress : PROXY_ADDRESS,
    port: Number(port),
    servername: hostname,
    localAddress: clientAddress,
  };
  return connect(options);
}

export interface ProxiedResponse {
  status: number;
  headers: Headers;
  text: string;
}

/**
 * Sends a raw request, for headers and targets that `fetch` adds, forbids or normalises.
 *
 * @param origin selects the expected certificate and the default `Host`
 * @param target the exact target in the request line
 * @param options.from as in {@link connectToProxy}
 */
export async function requestThroughProxy(
  origin: string,
  target: string,
  options: { method?: string; headers?: Record<string, string>; from?: string } = {},
): Promise<ProxiedResponse> {
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
