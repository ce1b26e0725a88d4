import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OperatorError } from '../domain/errors.ts';
import type { Log } from '../log.ts';
import type { Metrics } from './metrics.ts';

/** Where Prometheus reads. */
const METRICS_PATH = '/metrics';

/** Prometheus keeps one connection; a second server, a person and a forgotten one may be there too. */
const MAX_CONNECTIONS = 32;

/** Who asks sends one small request at once. */
const REQUEST_TIMEOUT_MS = 10_000;

/** What Prometheus reads, on a port of its own: it is for the operator, and not for the world. */
export class MetricsServer {
  readonly #server: Server;
  readonly #address: { host: string; port: number };

  /** @param parts.port 0: the system chooses one */
  constructor(parts: {
    host: string;
    port: number;
    metrics: Pick<Metrics, 'contentType' | 'read'>;
    log: Log;
  }) {
    const { host, port, metrics, log } = parts;
    this.#address = { host, port };
    this.#server = createServer(
      { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
      (request, response) => {
        if (request.url?.replace(/\?.*$/, '') !== METRICS_PATH) {
          refuse(response, 404, `The metrics are at ${METRICS_PATH}.`);
        } else if (request.method !== 'GET' && request.method !== 'HEAD') {
          refuse(response, 405, 'Metrics can be read, and nothing else.');
        } else {
          void answer(response, metrics, log);
        }
      },
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /**
   * Listens.
   *
   * @returns where the metrics are
   * @throws OperatorError where it cannot
   */
  async start(): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once('error', ({ message }) =>
      reject(new OperatorError(`METRICS_HOST, METRICS_PORT: ${message}`)),
    );
    this.#server.listen(this.#address, resolve);
    await promise;
    const { address, family, port } = this.#server.address() as AddressInfo;
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}${METRICS_PATH}`;
  }

  /** Ends at once, whoever is connected. */
  async stop(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeAllConnections();
    await promise;
  }
}

async function answer(
  response: ServerResponse,
  metrics: Pick<Metrics, 'contentType' | 'read'>,
  log: Log,
): Promise<void> {
  try {
    const text = await metrics.read();
    response.writeHead(200, { 'content-type': metrics.contentType }).end(text);
  } catch (error) {
    log.error({ err: error }, 'the metrics could not be read');
    refuse(response, 500, 'The metrics could not be read.');
  }
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
