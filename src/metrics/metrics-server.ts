import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OperatorError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Metrics } from './metrics.ts';

const METRICS_PATH = '/metrics';

/** Serves the metrics on a separate port, because they are only for the operator. @throws OperatorError */
export async function startMetricsServer(
  { host, port }: { host: string; port: number },
  metrics: Metrics,
  log: Logger,
) {
  const server = createServer(
    { requestTimeout: 10_000, headersTimeout: 10_000 },
    (request, response) => void handleRequest(request, response, metrics, log),
  );
  // A Prometheus server needs one connection.
  server.maxConnections = 32;
  try {
    await once(server.listen({ host, port }), 'listening');
  } catch (error) {
    throw new OperatorError(`METRICS_HOST, METRICS_PORT: ${(error as Error).message}`);
  }
  const { address, family, port: chosenPort } = server.address() as AddressInfo;
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}${METRICS_PATH}`;
  const stop = async () => {
    const closed = server[Symbol.asyncDispose]();
    server.closeAllConnections();
    await closed;
  };
  return { url, stop };
}

async function handleRequest(
  { url, method }: IncomingMessage,
  response: ServerResponse,
  metrics: Metrics,
  log: Logger,
): Promise<void> {
  if (url?.replace(/\?.*$/, '') !== METRICS_PATH) {
    sendErrorText(response, 404, `The metrics are at ${METRICS_PATH}.`);
  } else if (method !== 'GET' && method !== 'HEAD') {
    sendErrorText(response, 405, 'Only GET and HEAD are allowed.');
  } else {
    try {
      const text = await metrics.collect();
      response.writeHead(200, { 'content-type': metrics.contentType }).end(text);
    } catch (error) {
      log.error({ event: 'metrics_failed', err: error }, 'could not collect metrics');
      sendErrorText(response, 500, 'The metrics could not be collected.');
    }
  }
}

function sendErrorText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
