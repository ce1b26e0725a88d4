import { HaproxyProcess } from '../../scripts/haproxy.ts';
import { findFreePort } from '../../scripts/server-process.ts';

const HOST = '127.0.0.1';

/** What HAProxy sends if no process of the service is ready. It has the fields of all error formats. */
const UNAVAILABLE = 'The service is temporarily unavailable. Please try again.';
export const PROXY_ERROR_BODY = {
  error: true,
  message: UNAVAILABLE,
  status: 'ERROR',
  reason: UNAVAILABLE,
};

/** Marks the responses of HAProxy itself. */
export const PROXY_ERROR_HEADER = 'x-proxy-error';

const SERVER_COUNT_PATH = '/server-count';

/** HAProxy in front of the processes of the service. */
export interface FrontProxy {
  origin: string;
  /** Returns how many processes receive requests. */
  countServers(): Promise<number>;
  stop(): Promise<void>;
}

/** @param ports the ports of the processes */
export async function startFrontProxy(ports: readonly number[]): Promise<FrontProxy> {
  const port = await findFreePort(HOST);
  const haproxy = await HaproxyProcess.start(createConfig(port, ports), port);
  const origin = `http://${HOST}:${port}`;
  return {
    origin,
    countServers: async () => Number(await (await fetch(`${origin}${SERVER_COUNT_PATH}`)).text()),
    stop: () => haproxy.stop(),
  };
}

function createConfig(port: number, ports: readonly number[]): string {
  const servers = ports.map((each, index) => `  server service${index} ${HOST}:${each} check`);
  return `
global
  maxconn 2000
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  timeout tunnel 120s
  http-error status 503 content-type application/json string '${JSON.stringify(PROXY_ERROR_BODY)}' hdr Retry-After 1 hdr ${PROXY_ERROR_HEADER} 1
  # If a process is killed or does not respond, its clients only lose their connection.
  errorfile 502 /dev/null
  errorfile 504 /dev/null
frontend front
  bind ${HOST}:${port}
  http-request return status 200 content-type text/plain lf-string "%[nbsrv(service)]" if { path ${SERVER_COUNT_PATH} }
  http-request set-header X-Forwarded-For %[src]
  default_backend service
backend service
  option httpchk GET /health/ready
  http-check expect status 200
  option redispatch
  retry-on conn-failure
  default-server inter 1s fastinter 250ms downinter 250ms fall 2 rise 1
${servers.join('\n')}
`;
}
