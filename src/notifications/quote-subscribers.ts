/** Told the id of a quote of the key that it subscribed for; answers whether its client is there. */
export type QuoteSubscriber = (quoteId: string) => boolean;

/** The sockets of this process, by the key that each has authenticated for. */
export class QuoteSubscribers {
  readonly #byPubkey = new Map<string, Set<QuoteSubscriber>>();

  /** @returns ends the subscription */
  add(pubkey: string, subscriber: QuoteSubscriber): () => void {
    const subscribers = this.#byPubkey.get(pubkey) ?? new Set();
    subscribers.add(subscriber);
    this.#byPubkey.set(pubkey, subscribers);
    return () => {
      subscribers.delete(subscriber);
      if (subscribers.size === 0 && this.#byPubkey.get(pubkey) === subscribers) {
        this.#byPubkey.delete(pubkey);
      }
    };
  }

  /** The keys that have a socket here now. */
  pubkeys(): string[] {
    return [...this.#byPubkey.keys()];
  }

  /**
   * Tells every socket of a key that one of its quotes changed.
   *
   * @returns how many of them took it
   */
  tell(pubkey: string, quoteId: string): number {
    const subscribers = [...(this.#byPubkey.get(pubkey) ?? [])];
    return subscribers.filter((subscriber) => subscriber(quoteId)).length;
  }
}
