import type { FastifyRequest } from 'fastify';

/** The public origins of this service. They come from its configuration, never from a client's header. */
export class PublicOrigins {
  #origins: readonly string[];

  /** @param origins the first is canonical. If empty, {@link setListeningPort} sets the local address */
  constructor(origins: readonly string[]) {
    this.#origins = origins;
  }

  get origins(): readonly string[] {
    return this.#origins;
  }

  setListeningPort(port: number): void {
    if (this.#origins.length === 0) {
      this.#origins = [`http://localhost:${port}`];
    }
  }

  /** Returns the origin with the request's host, preferably also with its scheme, or else the canonical origin. */
  getOriginForRequest(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = normaliseHost(request.host ?? '');
    const originsWithHost = this.#origins.filter(
      (origin) => normaliseHost(this.getHost(origin)) === host,
    );
    const sameScheme = originsWithHost.find((origin) =>
      origin.startsWith(`${request.protocol}://`),
    );
    return sameScheme ?? originsWithHost[0] ?? this.canonicalOrigin;
  }

  /** Returns the host of an origin. Includes the port unless it is the default port. */
  getHost(origin: string): string {
    return origin.slice(origin.indexOf('//') + 2);
  }

  get canonicalOrigin(): string {
    const canonical = this.#origins[0];
    if (canonical === undefined) {
      throw new Error('the public origin is not known before the server listens');
    }
    return canonical;
  }
}

/** A Host header may contain the default port, which an origin omits. */
const DEFAULT_PORT = /:(?:80|443)$/;

/** A fully qualified name ends with a dot: `pay.example.` equals `pay.example`. */
const TRAILING_DOT = /\.(?=:\d+$|$)/;

function normaliseHost(host: string): string {
  return host.toLowerCase().replace(DEFAULT_PORT, '').replace(TRAILING_DOT, '');
}
