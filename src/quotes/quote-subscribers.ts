/** A socket that has authenticated for a key. */
export interface QuoteSubscriber {
  /** Sends an update. @returns whether the client's connection accepted it */
  update(quoteId: string): boolean;
  /** Closes the socket, because its key opened more sockets than it may have. */
  makeRoom(): void;
}

/** The authenticated sockets of this process by key, each key's oldest first. */
export class QuoteSubscribers {
  readonly #byPubkey = new Map<string, Set<QuoteSubscriber>>();
  readonly #maxPerKey: number;

  /** @param maxPerKey 0: no limit */
  constructor(maxPerKey = 0) {
    this.#maxPerKey = maxPerKey;
  }

  /**
   * Adds a socket. Beyond the limit it replaces the key's oldest one, which is the likeliest to be dead: a phone that
   * changed networks leaves its connection half open, and must not be kept out by it.
   */
  add(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.get(pubkey) ?? new Set();
    subscribers.add(subscriber);
    this.#byPubkey.set(pubkey, subscribers);
    const [oldest] = subscribers;
    if (this.#maxPerKey > 0 && subscribers.size > this.#maxPerKey) {
      oldest?.makeRoom();
    }
  }

  remove(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.get(pubkey);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) {
      this.#byPubkey.delete(pubkey);
    }
  }

  /** The keys that have a socket here now. */
  pubkeys(): string[] {
    return [...this.#byPubkey.keys()];
  }

  /** Sends an update to every socket of a key. @returns how many of them accepted it */
  tell(pubkey: string, quoteId: string): number {
    const subscribers = [...(this.#byPubkey.get(pubkey) ?? [])];
    return subscribers.filter((subscriber) => subscriber.update(quoteId)).length;
  }
}
