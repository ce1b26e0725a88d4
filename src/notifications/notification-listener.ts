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

/** How channels of the database are listened to; `store/` gives it. */
type Listen = (listener: {
  channels: Record<string, (payload: string) => void>;
  onGap: (sinceMs: number) => Promise<void> | undefined;
  clock: Clock;
}) => Promise<Listening>;

interface Listening {
  readonly isConnected: boolean;
  close(): Promise<void>;
}

/** What {@link NotificationListener} needs; `service.ts` constructs it. */
export interface NotificationListenerParts {
  listen: Listen;
  subscribers: Pick<QuoteSubscribers, 'tell'>;
  /** Told of each update that came, with how many sockets here were sent it. */
  onTold: (update: QuoteUpdate, sockets: number) => void;
  /** Called with quotes that a process issued and does not watch itself. */
  onIssued: (quotes: IssuedQuote[]) => void;
  /** Called when an import added quotes to watch. */
  onRescan: () => void;
  /** Called with an address whose recipient, settings or block changed, or `ALL_ADDRESSES`. */
  onAddressChanged: (address: string) => void;
  /** Called when notifications since a time (milliseconds since 1970) may be lost; again if it fails. */
  onGap: (sinceMs: number) => Promise<void> | undefined;
  clock: Clock;
}

/** Hears what any process tells through the database, and passes it on within this one. */
export class NotificationListener {
  readonly #parts: NotificationListenerParts;
  #listening: Listening | null = null;

  constructor(parts: NotificationListenerParts) {
    this.#parts = parts;
  }

  /** Whether what any process tells now is heard, as far as is known. */
  get isListening(): boolean {
    return this.#listening?.isConnected ?? false;
  }

  /** Resolves once nothing that is told from now on is missed. */
  async start(): Promise<void> {
    const { listen, onRescan, onAddressChanged, onGap, clock } = this.#parts;
    this.#listening = await listen({
      channels: {
        [QUOTE_CHANNEL]: (payload) => this.#tellSockets(payload),
        [ISSUED_CHANNEL]: (payload) => this.#tellOfIssued(payload),
        [RESCAN_CHANNEL]: onRescan,
        [ADDRESS_CHANNEL]: onAddressChanged,
      },
      onGap,
      clock,
    });
  }

  async stop(): Promise<void> {
    await this.#listening?.close();
    this.#listening = null;
  }

  #tellSockets(payload: string): void {
    const { subscribers, onTold } = this.#parts;
    for (const update of decodeUpdates(payload)) {
      onTold(update, subscribers.tell(update.pubkey, update.quoteId));
    }
  }

  #tellOfIssued(payload: string): void {
    this.#parts.onIssued(decodeIssued(payload));
  }
}
