import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

/** Of examples (RFC 5737): nobody has it. */
export const CDN_ADDRESS = '192.0.2.9';

/** What the configurations of reverse proxies get wrong. */
export interface CarelessProxySwitches {
  /** Host is where the proxy sends requests to, as most do by default. */
  forgetsHost: boolean;
  /**
   * What becomes of X-Forwarded-For: what the proxy saw, what the client sent, nothing, both one after the
   * other (nginx's `$proxy_add_x_forwarded_for`), or that of requests that came through a CDN.
   */
  forwardedFor: 'set' | 'passed_on' | 'left_out' | 'appended' | 'behind_another';
  /** WebSockets are requests like others, as with nginx by default. */
  losesUpgrades: boolean;
  /** Sets Access-Control-Allow-Origin as well. */
  addsCors: boolean;
  /** Longer headers are refused. */
  maxHeaderBytes: number;
  /** Paths that somebody else answers; null: none. */
  keeps: RegExp | null;
  /** Every request is sent on to another origin. */
  redirectsTo: string | null;
  /** Nobody is behind it. */
  isAlone: boolean;
}

const CAREFUL: Readonly<CarelessProxySwitches> = {
  forgetsHost: false,
  forwardedFor: 'set',
  losesUpgrades: false,
  addsCors: false,
  maxHeaderBytes: 64 * 1024,
  keeps: null,
  redirectsTo: null,
  isAlone: false,
};

/** A reverse proxy on 127.0.0.1 that does everything right, until a test tells it otherwise. */
export class CarelessProxy {
  readonly switches: CarelessProxySwitches = { ...CAREFUL };
  /** Such as `http://localhost:4000`. */
  readonly origin: string;
  readonly #server: ReturnType<typeof createServer>;
  #upstream = '';

  private constructor(server: ReturnType<typeof createServer>) {
    const { port } = server.address() as AddressInfo;
    this.origin = `http://localhost:${port}`;
    this.#server = server;
  }

  static async start(): Promise<CarelessProxy> {
    const server = createServer({ maxHeaderSize: 128 * 1024 }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new CarelessProxy(server);
    proxy.#serve();
    return proxy;
  }

  /** @param upstream the service's url */
  leadTo(upstream: string): void {
    this.#upstream = upstream;
  }

  /** Everything is right again. */
  mend(): void {
    Object.assign(this.switches, CAREFUL);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(): void {
    this.#server.on('request', (request, response) => {
      const { redirectsTo, keeps, isAlone, addsCors, maxHeaderBytes } = this.switches;
      const headerBytes = request.rawHeaders.join('').length;
      if (redirectsTo !== null) {
        response.writeHead(301, { location: `${redirectsTo}${request.url}` }).end();
      } else if (keeps?.test(request.url ?? '') === true) {
        response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>My home page</h1>');
      } else if (isAlone) {
        response.writeHead(502).end();
      } else if (headerBytes > maxHeaderBytes) {
        response.writeHead(431).end();
      } else {
        const { hostname, port } = new URL(this.#upstream);
        const { method, url } = request;
        const headers = this.#headersOf(request.headers);
        const passedOn = httpRequest({ hostname, port, path: url, method, headers }, (answer) => {
          const answered: Record<string, string | string[] | undefined> = { ...answer.headers };
          if (addsCors) {
            answered['access-control-allow-origin'] = ['*', '*'];
          }
          response.writeHead(answer.statusCode ?? 502, answered);
          answer.pipe(response);
        });
        passedOn.on('error', () => response.destroy());
        request.pipe(passedOn);
      }
    });
    this.#server.on('upgrade', (request, socket, head) => {
      const { hostname, port } = new URL(this.#upstream);
      if (this.switches.losesUpgrades) {
        socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
        return;
      }
      const service = connect(Number(port), hostname, () => {
        const headers = Object.entries(this.#headersOf(request.headers));
        const lines = headers.map(([name, value]) => `${name}: ${String(value)}`);
        service.write(`GET ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
        service.write(head);
        service.pipe(socket).pipe(service);
      });
      service.on('error', () => socket.destroy());
      socket.on('error', () => service.destroy());
      socket.on('close', () => service.destroy());
    });
  }

  #headersOf(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    const { forgetsHost, forwardedFor } = this.switches;
    const { 'x-forwarded-for': sent, ...others } = headers;
    const passedOn = { ...others, ...(forgetsHost && { host: new URL(this.#upstream).host }) };
    const client = {
      set: '127.0.0.1',
      left_out: null,
      passed_on: sent ?? '127.0.0.1',
      appended: [sent, '127.0.0.1'].filter((each) => each !== undefined).join(', '),
      behind_another: `198.51.100.7, ${CDN_ADDRESS}`,
    }[forwardedFor];
    return client === null ? passedOn : { ...passedOn, 'x-forwarded-for': client };
  }
}
