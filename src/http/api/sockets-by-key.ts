/** The signed-in sockets of each key in this process, oldest first; other processes count their own. */
export class SocketsByKey<Socket> {
  readonly #mostPerKey: number;
  readonly #byPubkey = new Map<string, Set<Socket>>();

  /** @param mostPerKey at a time; 0: no limit */
  constructor(mostPerKey: number) {
    this.#mostPerKey = mostPerKey;
  }

  /**
   * Takes one more in, always: the oldest ones are the likeliest to be dead. A phone that changed networks
   * leaves its connection half open, and must not be kept out by it.
   *
   * @returns the one that leaves for it; null where there was room
   */
  enter(pubkey: string, socket: Socket): Socket | null {
    if (this.#mostPerKey === 0) {
      return null;
    }
    const sockets = this.#byPubkey.get(pubkey) ?? new Set();
    sockets.add(socket);
    this.#byPubkey.set(pubkey, sockets);
    const [oldest] = sockets;
    if (oldest === undefined || sockets.size <= this.#mostPerKey) {
      return null;
    }
    sockets.delete(oldest);
    return oldest;
  }

  /** Takes one out; nothing where it is not in. */
  leave(pubkey: string, socket: Socket): void {
    const sockets = this.#byPubkey.get(pubkey);
    sockets?.delete(socket);
    if (sockets?.size === 0) {
      this.#byPubkey.delete(pubkey);
    }
  }
}
