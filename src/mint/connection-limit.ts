import { Counts } from '../domain/counts.ts';
import { originKey } from '../net/request-limiter.ts';

/**
 * WebSockets to mints in one process. Users choose the mints' URLs, and each connection costs a file
 * descriptor and, with its quotes, 10 to 200 kB. A mint without a connection is polled.
 */
export const MAX_MINT_CONNECTIONS = 2_000;

/** Connections to one host: few hosts have several mints, but a user can invent any number of URLs. */
const MAX_CONNECTIONS_PER_HOST = 8;

/** Limits the WebSockets to all mints together and to each host. The operator's own mints are exempt. */
export class ConnectionLimit {
  readonly #max: number;
  readonly #allowPrivateNetworks: boolean;
  readonly #ownMints: ReadonlySet<string>;
  #ownCount = 0;
  #otherCount = 0;
  readonly #countByHost = new Counts();

  /**
   * @param options.max connections at one time, not counting those to the operator's mints
   * @param options.ownMints normalised URLs of the operator's mints
   * @param options.allowPrivateNetworks development, where all mints are on one host
   */
  constructor(options: {
    max: number;
    ownMints: readonly string[];
    allowPrivateNetworks: boolean;
  }) {
    this.#max = options.max;
    this.#ownMints = new Set(options.ownMints);
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
  }

  /** Connections to all mints now. */
  get count(): number {
    return this.#ownCount + this.#otherCount;
  }

  /** Counts a new connection to a mint; false if there are too many. */
  acquire(mintUrl: string): boolean {
    if (this.#ownMints.has(mintUrl)) {
      this.#ownCount += 1;
      return true;
    }
    const host = this.#hostOf(mintUrl);
    const isHostFull = this.#countByHost.of(host) >= MAX_CONNECTIONS_PER_HOST;
    if (this.#otherCount >= this.#max || isHostFull) {
      return false;
    }
    this.#otherCount += 1;
    this.#countByHost.add(host);
    return true;
  }

  /** Releases what {@link acquire} counted. */
  release(mintUrl: string): void {
    if (this.#ownMints.has(mintUrl)) {
      this.#ownCount -= 1;
      return;
    }
    this.#otherCount -= 1;
    this.#countByHost.remove(this.#hostOf(mintUrl));
  }

  #hostOf(mintUrl: string): string {
    return originKey(new URL(mintUrl), { allowPrivateNetworks: this.#allowPrivateNetworks });
  }
}
