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
} from '../../../scripts/reverse-proxy.ts';
import { findFreePort } from '../../../scripts/server-process.ts';
import type { ServiceOverrides } from '../../../src/service.ts';
import type { TestEnvironment } from './test-environment.ts';
import { startAdditionalService } from './test-environment.ts';

const PROXY_ADDRESS = '127.0.0.1';

const proxiedHostnames: ReadonlySet<string> = new Set(PROXIED_HOSTNAMES);
const { lookup: originalLookup } = dns;

export interface ServiceBehindProxy {
  canonicalOrigin: string;
  secondOrigin: string;
  /** Bypasses the proxy. */
  directUrl: string;
  /** The `http:` URL of the canonical domain. Caddy has none in these tests. */
  httpOrigin: string;
  readProxyLog: () => Promise<string>;
  stopService(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts a reverse proxy, and another service on the environment's database. Makes this process resolve both domains
 * to the proxy and trust its certificate.
 *
 * @param options.otherUpstreams addresses of other processes that the proxy forwards to, such as `127.0.0.1:3000`
 * @param options.shouldAddHttpOrigin whether the second domain's `http:` origin is public, too
 */
export async function startServiceBehindProxy(
  environment: TestEnvironment,
  kind: ReverseProxyKind,
  options: {
    env?: Record<string, string>;
    overrides?: ServiceOverrides;
    proxyConfigReplacements?: ConfigReplacements;
    otherUpstreams?: readonly string[];
    shouldAddHttpOrigin?: boolean;
  } = {},
): Promise<ServiceBehindProxy> {
  const port = await findFreePort(PROXY_ADDRESS);
  const [canonicalOrigin, secondOrigin] = PROXIED_HOSTNAMES.map(
    (name) => `https://${name}:${port}`,
  ) as [string, string];
  const origins = [
    canonicalOrigin,
    secondOrigin,
    ...(options.shouldAddHttpOrigin ? [secondOrigin.replace('https:', 'http:')] : []),
  ];
  const env = { PUBLIC_ORIGINS: origins.join(','), TRUST_PROXY: PROXY_ADDRESS, ...options.env };
  const service = await startAdditionalService(environment, env, options.overrides);
  const proxy = await startReverseProxy(kind, {
    port,
    upstreams: [new URL(service.url).host, ...(options.otherUpstreams ?? [])],
    replacements: options.proxyConfigReplacements ?? [],
  });
  routeHostnamesToProxy(proxy);
  let stopped: Promise<void> | null = null;
  const stopService = () => {
    stopped ??= service.stop();
    return stopped;
  };
  return {
    canonicalOrigin,
    secondOrigin,
    directUrl: service.url,
    httpOrigin: `http://${PROXIED_HOSTNAMES[0]}:${proxy.httpPort}`,
    readProxyLog: proxy.readLog,
    stopService,
    close: async () => {
      await stopService();
      await proxy.stop();
    },
  };
}

function routeHostnamesToProxy({ certificate }: ReverseProxy): void {
  setDefaultCACertificates([...getCACertificates('default'), certificate]);
  dns.lookup = lookupWithProxiedHostnames as typeof originalLookup;
}

function lookupWithProxiedHostnames(hostname: string, ...rest: unknown[]): void {
  const target = proxiedHostnames.has(hostname) ? PROXY_ADDRESS : hostname;
  Reflect.apply(originalLookup, dns, [target, ...rest]);
}

/** @param clientAddress any in 127.0.0.0/8, or ::1 if the proxy listens on IPv6 */
export function connectToProxy(origin: string, clientAddress = PROXY_ADDRESS): TLSSocket {
  const { hostname, port } = new URL(origin);
  // In a variable, because the type of `tls.connect` lacks `localAddress`, which Node passes to the TCP socket.
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
 * Sends a request without the changes that `fetch` makes to headers and targets.
 *
 * @param origin determines the TLS server name and the default `Host` header
 */
export async function requestThroughProxy(
  origin: string,
  target: string,
  options: { method?: string; headers?: Record<string, string>; clientAddress?: string } = {},
): Promise<ProxiedResponse> {
  const request = httpsRequest({
    path: target,
    method: options.method ?? 'GET',
    headers: { host: new URL(origin).host, ...options.headers },
    createConnection: () => connectToProxy(origin, options.clientAddress),
  });
  request.end();
  const [response] = await once(request, 'response');
  return {
    status: response.statusCode,
    headers: new Headers(response.headers),
    text: await text(response),
  };
}
