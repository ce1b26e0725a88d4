import type { FastifyRequest } from 'fastify';

/** The public origins of this service. They come from its configuration, never from a client's header. */
export class PublicOrigins {
  /** The first is canonical. */
  origins: readonly string[];

  constructor(origins: readonly string[]) {
    this.origins = origins;
  }

  setListeningPort(port: number): void {
    if (this.origins.length === 0) {
      this.origins = [`http://localhost:${port}`];
    }
  }

  /** Returns the origin with the request's host, preferably also with its scheme, or else the canonical origin. */
  getOriginForRequest(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = normaliseHost(request.host ?? '');
    const origins = this.origins.filter((origin) => normaliseHost(this.getHost(origin)) === host);
    const sameScheme = origins.find((origin) => origin.startsWith(`${request.protocol}://`));
    return sameScheme ?? origins[0] ?? this.canonicalOrigin;
  }

  /** Returns the host of an origin. Includes the port unless it is the default port. */
  getHost(origin: string): string {
    return origin.slice(origin.indexOf('//') + 2);
  }

  get canonicalOrigin(): string {
    const [canonical] = this.origins;
    if (canonical === undefined) {
      throw new Error('the public origin is not known before the server listens');
    }
    return canonical;
  }
}

/** Removes the default port, which an origin omits, and the dot of a fully qualified name (`pay.example.`). */
function normaliseHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/:(?:80|443)$/, '')
    .replace(/\.(?=:\d+$|$)/, '');
}
