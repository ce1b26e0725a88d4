import type { FastifyRequest } from 'fastify';

/** The public origins of this service, such as `https://pay.example`. They never come from a client's header. */
export class PublicOrigins {
  /** The first is canonical. Empty if none is configured and the port is not known yet. */
  origins: readonly string[];

  constructor(origins: readonly string[]) {
    this.origins = origins;
  }

  /** If no origins are configured, uses localhost with the port on which the service listens. */
  setListeningPort(port: number): void {
    if (this.origins.length === 0) {
      this.origins = [`http://localhost:${port}`];
    }
  }

  /** Returns the origin with the request's host, preferably also with its scheme, or else the canonical origin. */
  getOriginForRequest(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = normaliseHost(request.host ?? '');
    const sameHost = this.origins.filter((origin) => normaliseHost(this.getHost(origin)) === host);
    const sameScheme = sameHost.find((origin) => origin.startsWith(`${request.protocol}://`));
    return sameScheme ?? sameHost[0] ?? this.canonicalOrigin;
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

/** Removes the default port, which origins omit, and the dot at the end of a fully qualified name (`pay.example.`). */
function normaliseHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/:(?:80|443)$/, '')
    .replace(/\.(?=:\d+$|$)/, '');
}
