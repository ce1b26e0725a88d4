import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Metrics } from './metrics.ts';

const METRICS_PATH = '/metrics';

/** Prometheus keeps one connection; a second server, a person and a forgotten one may be there too. */
const MAX_CONNECTIONS = 32;

const REQUEST_TIMEOUT_MS = 10_000;

interface MetricsServerParts {
  host: string;
  /** 0: the system chooses one. */
  port: number;
  metrics: Pick<Metrics, 'contentType' | 'read'>;
  log: Log;
}

/**
 * Serves the metrics on a port of its own, because they are for the operator only.
 *
 * @returns their URL, and a function that closes all connections at once
 * @throws OperatorError if it cannot listen
 */
export async function serveMetrics(
  parts: MetricsServerParts,
): Promise<{ url: string; stop: () => Promise<void> }> {
  const { host, port } = parts;
  const timeouts = { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS };
  const server = createServer(
    timeouts,
    (request, response) => void answer(request, response, parts),
  );
  server.maxConnections = MAX_CONNECTIONS;
  try {
    await once(server.listen({ host, port }), 'listening');
  } catch (error) {
    throw new OperatorError(`METRICS_HOST, METRICS_PORT: ${(error as Error).message}`);
  }
  const { address, family, port: chosenPort } = server.address() as AddressInfo;
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}${METRICS_PATH}`;
  const stop = async () => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { url, stop };
}

async function answer(
  { url, method }: IncomingMessage,
  response: ServerResponse,
  { metrics, log }: MetricsServerParts,
): Promise<void> {
  if (url?.replace(/\?.*$/, '') !== METRICS_PATH) {
    refuse(response, 404, `The metrics are at ${METRICS_PATH}.`);
  } else if (method !== 'GET' && method !== 'HEAD') {
    refuse(response, 405, 'Metrics can be read, and nothing else.');
  } else {
    try {
      const text = await metrics.read();
      response.writeHead(200, { 'content-type': metrics.contentType }).end(text);
    } catch (error) {
      log.error({ err: error }, 'the metrics could not be read');
      refuse(response, 500, 'The metrics could not be read.');
    }
  }
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
