/** Told the id of a quote of the key that it subscribed for. */
export type QuoteSubscriber = (quoteId: string) => void;

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

  /** Tells every socket of a key that one of its quotes changed. */
  tell(pubkey: string, quoteId: string): void {
    for (const subscriber of this.#byPubkey.get(pubkey) ?? []) {
      subscriber(quoteId);
    }
  }
}
