import type { FastifyRequest } from 'fastify';

/** An origin is written without the port that its scheme implies; a Host header may name it. */
const DEFAULT_PORT = /:(80|443)$/;

/** The public origins of this service, from its configuration and never from a stranger's header. */
export class PublicHost {
  #origins: readonly string[];

  /** @param origins the first is canonical; empty: the local address, once {@link listeningOn} tells it */
  constructor(origins: readonly string[]) {
    this.#origins = origins;
  }

  /** All origins on which a signed url is accepted. */
  get origins(): readonly string[] {
    return this.#origins;
  }

  /** Tells the port that the server really listens on. */
  listeningOn(port: number): void {
    if (this.#origins.length === 0) {
      this.#origins = [`http://localhost:${port}`];
    }
  }

  /**
   * The origin that a client used, when it is one of ours, else the canonical one.
   *
   * The scheme decides only between origins of the same host: behind a proxy that ends TLS the
   * request itself arrives as plain http.
   */
  originFor(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = request.host?.toLowerCase().replace(DEFAULT_PORT, '');
    const sameHost = this.#origins.filter((origin) => new URL(origin).host === host);
    const exact = sameHost.find((origin) => origin === `${request.protocol}://${host}`);
    return exact ?? sameHost[0] ?? this.canonical;
  }

  get canonical(): string {
    const canonical = this.#origins[0];
    if (canonical === undefined) {
      throw new Error('the public origin is not known before the server listens');
    }
    return canonical;
  }
}
