import { Counts } from '../../domain/counts.ts';

/** How a wish for one more socket ends. */
export type Reservation = 'granted' | 'all_taken' | 'all_of_address_taken';

/** How many sockets there are in this process, in all and by address; other processes count their own. */
export class SocketAllowances {
  readonly #most: { sockets: number; socketsPerAddress: number };
  readonly #byNetwork = new Counts();
  #count = 0;

  /** @param most at a time; 0: no such limit */
  constructor(most: { sockets: number; socketsPerAddress: number }) {
    this.#most = most;
  }

  /**
   * Counts one more where there is room. Whoever is granted one gives it back once.
   *
   * @param network whom it is counted for (`clientNetwork`)
   */
  reserve(network: string): Reservation {
    const { sockets, socketsPerAddress } = this.#most;
    if (socketsPerAddress > 0 && this.#byNetwork.of(network) >= socketsPerAddress) {
      return 'all_of_address_taken';
    }
    if (sockets > 0 && this.#count >= sockets) {
      return 'all_taken';
    }
    this.#count += 1;
    this.#byNetwork.add(network);
    return 'granted';
  }

  /** Gives back what {@link SocketAllowances.reserve} granted. */
  release(network: string): void {
    this.#count -= 1;
    this.#byNetwork.remove(network);
  }
}
