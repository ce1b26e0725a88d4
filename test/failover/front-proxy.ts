import { HaproxyProcess } from '../../scripts/haproxy.ts';
import { readProxyExample } from '../../scripts/reverse-proxy.ts';
import { findFreePort } from '../../scripts/server-process.ts';

const HOST = '127.0.0.1';

/** The messages of docs/proxies/haproxy.cfg. The service has other ones. */
const PROXY_MESSAGES = [
  'The service is unavailable.',
  'The request failed.',
  'The request took too long.',
];

const SERVER_COUNT_PATH = '/server-count';

/** Starts HAProxy in front of processes with these ports, with the example configuration, but without TLS. */
export async function startFrontProxy(ports: readonly number[]) {
  const port = await findFreePort(HOST);
  const servers = ports.map((each, index) => `server service${index} ${HOST}:${each}`);
  const countServers = `http-request return status 200 content-type text/plain lf-string "%[nbsrv(nutpost)]" if { path ${SERVER_COUNT_PATH} }`;
  const config = await readProxyExample('haproxy.cfg', [
    [
      'bind :443,:::443 v6only ssl crt /etc/haproxy/nutpost.pem alpn h2,http/1.1',
      `bind ${HOST}:${port}`,
    ],
    ['bind :80,:::80 v6only', `bind ${HOST}:${await findFreePort(HOST)}`],
    ['X-Forwarded-Proto https', 'X-Forwarded-Proto http'],
    // All clients of the test have the same address.
    ['sc0_conn_cur gt 250', 'sc0_conn_cur gt 10000'],
    ['default_backend nutpost', `${countServers}\n    default_backend nutpost`],
    ['server nutpost1 127.0.0.1:3000', servers.join('\n    ')],
  ]);
  const haproxy = await HaproxyProcess.start(config, port);
  const origin = `http://${HOST}:${port}`;
  return {
    origin,
    countServers: async () => Number(await (await fetch(`${origin}${SERVER_COUNT_PATH}`)).text()),
    stop: () => haproxy.stop(),
  };
}

/** Whether a response comes from HAProxy itself. It must have the fields of all error formats. */
export function isProxyError({ error, message, status, reason }: Record<string, unknown>): boolean {
  return (
    error === true &&
    status === 'ERROR' &&
    reason === message &&
    PROXY_MESSAGES.includes(String(message))
  );
}
