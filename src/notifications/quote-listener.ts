import { decodeUpdates, QUOTE_CHANNEL } from './quote-channel.ts';
import type { QuoteSubscribers } from './quote-subscribers.ts';

/** How a channel of the database is listened to; `store/` gives it. */
type Listen = (
  channel: string,
  listener: { onNotification: (payload: string) => void },
) => Promise<{ close(): Promise<void> }>;

/** Passes what any process tells about changed quotes on to this process's sockets. */
export class QuoteListener {
  readonly #listen: Listen;
  readonly #subscribers: Pick<QuoteSubscribers, 'tell'>;
  #listening: { close(): Promise<void> } | null = null;

  constructor(listen: Listen, subscribers: Pick<QuoteSubscribers, 'tell'>) {
    this.#listen = listen;
    this.#subscribers = subscribers;
  }

  /** Resolves once no update from now on is missed. */
  async start(): Promise<void> {
    this.#listening = await this.#listen(QUOTE_CHANNEL, {
      onNotification: (payload) => {
        for (const { pubkey, quoteId } of decodeUpdates(payload)) {
          this.#subscribers.tell(pubkey, quoteId);
        }
      },
    });
  }

  async stop(): Promise<void> {
    await this.#listening?.close();
    this.#listening = null;
  }
}
