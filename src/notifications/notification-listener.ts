import type { Clock } from '../domain/clock.ts';
import { ADDRESS_CHANNEL } from './address-channel.ts';
import {
  decodeIssued,
  decodeUpdates,
  ISSUED_CHANNEL,
  type IssuedQuote,
  QUOTE_CHANNEL,
  type QuoteUpdate,
  RESCAN_CHANNEL,
} from './quote-channel.ts';
import type { QuoteSubscribers } from './quote-subscribers.ts';

interface Listening {
  readonly isConnected: boolean;
  close(): Promise<void>;
}

interface NotificationListenerParts {
  /** `Database.listen`. */
  listen: (listener: {
    channels: Record<string, (payload: string) => void>;
    onGap: (sinceMs: number) => Promise<void> | undefined;
    clock: Clock;
  }) => Promise<Listening>;
  subscribers: Pick<QuoteSubscribers, 'tell'>;
  /** Called with each update and the number of sockets of this process that it was sent to. */
  onTold: (update: QuoteUpdate, sockets: number) => void;
  /** Called with quotes that a process issued and does not watch itself. */
  onIssued: (quotes: IssuedQuote[]) => void;
  /** Called when an import added quotes to watch. */
  onRescan: () => void;
  /** Called with an address whose recipient, settings or block changed, or `ALL_ADDRESSES`. */
  onAddressChanged: (address: string) => void;
  /**
   * Called after notifications may have been lost, since a time in milliseconds since 1970. It is called again if its
   * promise is rejected.
   */
  onGap: (sinceMs: number) => Promise<void> | undefined;
  clock: Clock;
}

/** Receives the notifications of all processes through the database, and dispatches them within this one. */
export class NotificationListener {
  readonly #parts: NotificationListenerParts;
  #listening: Listening | null = null;

  constructor(parts: NotificationListenerParts) {
    this.#parts = parts;
  }

  /** Whether notifications arrive, as far as is known. */
  get isListening(): boolean {
    return this.#listening?.isConnected ?? false;
  }

  /** Resolves when every notification from now on arrives. */
  async start(): Promise<void> {
    const { listen, subscribers, onTold, onIssued, onRescan, onAddressChanged, onGap, clock } =
      this.#parts;
    const channels = {
      [QUOTE_CHANNEL]: (payload: string) => {
        for (const update of decodeUpdates(payload)) {
          onTold(update, subscribers.tell(update.pubkey, update.quoteId));
        }
      },
      [ISSUED_CHANNEL]: (payload: string) => onIssued(decodeIssued(payload)),
      [RESCAN_CHANNEL]: onRescan,
      [ADDRESS_CHANNEL]: onAddressChanged,
    };
    this.#listening = await listen({ channels, onGap, clock });
  }

  async stop(): Promise<void> {
    await this.#listening?.close();
    this.#listening = null;
  }
}
