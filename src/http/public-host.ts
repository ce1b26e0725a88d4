import type { FastifyRequest } from 'fastify';

/** An origin is written without the port that its scheme implies; a Host header may name it. */
const DEFAULT_PORT = /:(?:80|443)$/;

/** Of a name that is written in full, as in DNS: `pay.example.` is `pay.example`. */
const FINAL_DOT = /\.(?=:\d+$|$)/;

/** The public origins of this service, from its configuration and never from a stranger's header. */
export class PublicHost {
  #origins: readonly string[];
  #byHost: ReadonlyMap<string, readonly string[]>;
  /** Parsed once: every discovery names the host. */
  #hosts: ReadonlyMap<string, string>;

  /** @param origins the first is canonical; empty: the local address, once {@link listeningOn} tells it */
  constructor(origins: readonly string[]) {
    this.#origins = origins;
    this.#byHost = groupByHost(origins);
    this.#hosts = hostsOf(origins);
  }

  /** All origins on which a signed url is accepted. */
  get origins(): readonly string[] {
    return this.#origins;
  }

  /** Tells the port that the server really listens on. */
  listeningOn(port: number): void {
    if (this.#origins.length === 0) {
      this.#origins = [`http://localhost:${port}`];
      this.#byHost = groupByHost(this.#origins);
      this.#hosts = hostsOf(this.#origins);
    }
  }

  /**
   * The origin that a client used, when it is one of ours, else the canonical one.
   *
   * The scheme decides only between origins of the same host: behind a proxy that ends TLS the
   * request itself arrives as plain http.
   */
  originFor(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = request.host ?? '';
    // Nearly always it is written as in the configuration.
    const sameHost = this.#byHost.get(host) ?? this.#byHost.get(plainHost(host));
    const exact = sameHost?.find((origin) => origin.startsWith(`${request.protocol}://`));
    return exact ?? sameHost?.[0] ?? this.canonical;
  }

  /** The host of one of our origins, with its port where it has one of its own. */
  hostOf(origin: string): string {
    const host = this.#hosts.get(origin);
    if (host === undefined) {
      throw new Error('not an origin of ours');
    }
    return host;
  }

  get canonical(): string {
    const canonical = this.#origins[0];
    if (canonical === undefined) {
      throw new Error('the public origin is not known before the server listens');
    }
    return canonical;
  }
}

function hostsOf(origins: readonly string[]): ReadonlyMap<string, string> {
  return new Map(origins.map((origin) => [origin, new URL(origin).host]));
}

function groupByHost(origins: readonly string[]): ReadonlyMap<string, readonly string[]> {
  return Map.groupBy(origins, (origin) => plainHost(new URL(origin).host));
}

/** One spelling of a host and its port, for those of an origin and of a Host header alike. */
function plainHost(host: string): string {
  return host.toLowerCase().replace(DEFAULT_PORT, '').replace(FINAL_DOT, '');
}
