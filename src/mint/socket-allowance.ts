import { Counts } from '../domain/counts.ts';
import { remoteParty } from '../net/remote-party.ts';

/**
 * Sockets to mints that one process holds. Strangers choose the mints' urls, and each socket costs a
 * file descriptor and, with its quotes, 10 to 200 kB; a mint that gets none is polled all the same.
 */
export const MAX_MINT_SOCKETS = 2_000;

/**
 * Of those, to one host. A url's mint has one, and few hosts have more than a handful of mints, by
 * path or by port; a stranger can make up any number.
 */
const MAX_SOCKETS_PER_HOST = 8;

/**
 * Bounds how many sockets there are to all mints together, and to those of one host. The operator's
 * own mints have their places for certain: no other url of theirs, or of their host, takes them away.
 */
export class SocketAllowance {
  readonly #maxOfStrangers: number;
  readonly #allowPrivateNetworks: boolean;
  readonly #ownMints: ReadonlySet<string>;
  #takenByOwn = 0;
  #taken = 0;
  readonly #takenByHost = new Counts();

  /**
   * @param options.max sockets at one time, those of the operator's mints aside
   * @param options.ownMints normalised urls that the operator has named
   * @param options.allowPrivateNetworks development, where all mints are on one host
   */
  constructor(options: {
    max: number;
    ownMints: readonly string[];
    allowPrivateNetworks: boolean;
  }) {
    this.#maxOfStrangers = options.max;
    this.#ownMints = new Set(options.ownMints);
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
  }

  /** How many sockets there are now, those of the operator's mints as well. */
  get count(): number {
    return this.#takenByOwn + this.#taken;
  }

  /** Takes the place of a socket to a mint, which has one at a time; false where there is none. */
  take(mintUrl: string): boolean {
    if (this.#ownMints.has(mintUrl)) {
      this.#takenByOwn += 1;
      return true;
    }
    const host = this.#hostOf(mintUrl);
    const isHostFull = this.#takenByHost.of(host) >= MAX_SOCKETS_PER_HOST;
    if (this.#taken >= this.#maxOfStrangers || isHostFull) {
      return false;
    }
    this.#taken += 1;
    this.#takenByHost.add(host);
    return true;
  }

  /** Gives back a place that was taken. */
  giveBack(mintUrl: string): void {
    if (this.#ownMints.has(mintUrl)) {
      this.#takenByOwn -= 1;
      return;
    }
    this.#taken -= 1;
    this.#takenByHost.remove(this.#hostOf(mintUrl));
  }

  #hostOf(mintUrl: string): string {
    return remoteParty(new URL(mintUrl), { allowPrivateNetworks: this.#allowPrivateNetworks });
  }
}
