import type { FastifyRequest } from 'fastify';

/** An origin is written without the default port of its scheme, but a Host header may have it. */
const DEFAULT_PORT = /:(?:80|443)$/;

/** Of a fully qualified name: `pay.example.` is `pay.example`. */
const FINAL_DOT = /\.(?=:\d+$|$)/;

/** The public origins of this service. They come from its configuration, never from a client's header. */
export class PublicHost {
  #origins: readonly string[];

  /** @param origins the first is canonical; if empty, the local address is used after {@link listeningOn} */
  constructor(origins: readonly string[]) {
    this.#origins = origins;
  }

  get origins(): readonly string[] {
    return this.#origins;
  }

  listeningOn(port: number): void {
    if (this.#origins.length === 0) {
      this.#origins = [`http://localhost:${port}`];
    }
  }

  /**
   * Returns the origin that a client used, if it is one of ours, otherwise the canonical one.
   *
   * The scheme only decides between origins of the same host: behind a proxy that terminates TLS, the request itself
   * arrives as plain http.
   */
  originFor(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = normaliseHost(request.host ?? '');
    const sameHost = this.#origins.filter((origin) => normaliseHost(this.hostOf(origin)) === host);
    const exact = sameHost.find((origin) => origin.startsWith(`${request.protocol}://`));
    return exact ?? sameHost[0] ?? this.canonical;
  }

  /** Returns the host of an origin, with its port if that is not the default. Origins have no path. */
  hostOf(origin: string): string {
    return origin.slice(origin.indexOf('//') + 2);
  }

  get canonical(): string {
    const canonical = this.#origins[0];
    if (canonical === undefined) {
      throw new Error('the public origin is not known before the server listens');
    }
    return canonical;
  }
}

function normaliseHost(host: string): string {
  return host.toLowerCase().replace(DEFAULT_PORT, '').replace(FINAL_DOT, '');
}
