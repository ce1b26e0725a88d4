/** A wallet's socket that has authenticated for a key. */
export interface QuoteSubscriber {
  /** Sends an update. Returns whether the connection accepted it. */
  sendUpdate(quoteId: string): boolean;
  /** Closes the socket, because its key has too many sockets. */
  evict(): void;
}

/** The authenticated sockets of this process by key, the oldest first. */
export class QuoteSubscribers {
  readonly #byPubkey = new Map<string, Set<QuoteSubscriber>>();
  readonly #maxPerKey: number;

  /** @param maxPerKey 0: no limit */
  constructor(maxPerKey = 0) {
    this.#maxPerKey = maxPerKey;
  }

  /**
   * Adds a socket. Beyond the limit, evicts the key's oldest socket, which is the likeliest to be dead: a phone that
   * changes networks leaves a half-open connection behind.
   */
  add(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.get(pubkey) ?? new Set();
    subscribers.add(subscriber);
    this.#byPubkey.set(pubkey, subscribers);
    const [oldest] = subscribers;
    if (this.#maxPerKey > 0 && subscribers.size > this.#maxPerKey) {
      oldest?.evict();
    }
  }

  remove(pubkey: string, subscriber: QuoteSubscriber): void {
    const subscribers = this.#byPubkey.get(pubkey);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) {
      this.#byPubkey.delete(pubkey);
    }
  }

  listPubkeys(): string[] {
    return [...this.#byPubkey.keys()];
  }

  /** Sends an update to every socket of a key. Returns how many accepted it. */
  sendUpdate(pubkey: string, quoteId: string): number {
    const subscribers = [...(this.#byPubkey.get(pubkey) ?? [])];
    return subscribers.filter((subscriber) => subscriber.sendUpdate(quoteId)).length;
  }
}
