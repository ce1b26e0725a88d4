import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OperatorError } from '../domain/errors.ts';
import type { Log } from '../log.ts';
import type { Metrics } from './metrics.ts';

const METRICS_PATH = '/metrics';

/** Prometheus keeps one connection; a second server, a person and a forgotten one may be there too. */
const MAX_CONNECTIONS = 32;

const REQUEST_TIMEOUT_MS = 10_000;

/** Serves the metrics on a port of its own, because they are for the operator only. */
export class MetricsServer {
  readonly #server: Server;
  readonly #parts: MetricsServerParts;

  constructor(parts: MetricsServerParts) {
    this.#parts = parts;
    this.#server = createServer(
      { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
      (request, response) => void this.#answer(request, response),
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /**
   * Listens.
   *
   * @returns the URL of the metrics
   * @throws OperatorError if it cannot listen
   */
  async start(): Promise<string> {
    const { host, port } = this.#parts;
    try {
      await once(this.#server.listen({ host, port }), 'listening');
    } catch (error) {
      throw new OperatorError(`METRICS_HOST, METRICS_PORT: ${(error as Error).message}`);
    }
    const { address, family, port: chosenPort } = this.#server.address() as AddressInfo;
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}${METRICS_PATH}`;
  }

  /** Closes all connections at once. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => {
      this.#server.close(resolve);
    });
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer({ url, method }: IncomingMessage, response: ServerResponse): Promise<void> {
    const { metrics, log } = this.#parts;
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
}

interface MetricsServerParts {
  host: string;
  /** 0: the system chooses one. */
  port: number;
  metrics: Pick<Metrics, 'contentType' | 'read'>;
  log: Log;
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
