import type { Clock } from '../domain/clock.ts';
import {
  decodeIssued,
  decodeUpdates,
  ISSUED_CHANNEL,
  type IssuedQuote,
  QUOTE_CHANNEL,
  type QuoteUpdate,
} from './quote-channel.ts';
import type { QuoteSubscribers } from './quote-subscribers.ts';
import { decodeRecipientChange, RECIPIENT_CHANNEL } from './recipient-channel.ts';

/** How channels of the database are listened to; `store/` gives it. */
type Listen = (listener: {
  channels: Record<string, (payload: string) => void>;
  onGap: (sinceMs: number) => void;
  clock: Clock;
}) => Promise<Listening>;

interface Listening {
  readonly isConnected: boolean;
  readonly isHearing: boolean;
  close(): Promise<void>;
}

/** What {@link NotificationListener} needs; `service.ts` constructs it. */
export interface NotificationListenerParts {
  listen: Listen;
  subscribers: Pick<QuoteSubscribers, 'tell'>;
  /** Told of each quote (`HeldQuote.id`) that changed, before any socket is. */
  onQuoteChanged: (id: number) => void;
  /** Told of each update that came, with how many sockets here were sent it. */
  onTold: (update: QuoteUpdate, sockets: number) => void;
  /** Called with quotes that a process issued and does not watch itself. */
  onIssued: (quotes: IssuedQuote[]) => void;
  /** Told the key (hex) whose settings, name or block changed; null: any may have. */
  onRecipientChanged: (pubkey: string | null) => void;
  /** Told that nothing may have been heard since a time (milliseconds since 1970) until now. */
  onGap: (sinceMs: number) => void;
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

  /** Whether all is heard that any process told until some seconds ago. */
  get isHearing(): boolean {
    return this.#listening?.isHearing ?? false;
  }

  /** Resolves once nothing that is told from now on is missed. */
  async start(): Promise<void> {
    const { listen, onRecipientChanged, onGap, clock } = this.#parts;
    this.#listening = await listen({
      channels: {
        [QUOTE_CHANNEL]: (payload) => this.#tellSockets(payload),
        [ISSUED_CHANNEL]: (payload) => this.#tellOfIssued(payload),
        [RECIPIENT_CHANNEL]: (payload) => onRecipientChanged(decodeRecipientChange(payload)),
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
    const { subscribers, onQuoteChanged, onTold } = this.#parts;
    const updates = decodeUpdates(payload);
    for (const { id } of updates) {
      onQuoteChanged(id);
    }
    for (const update of updates) {
      onTold(update, subscribers.tell(update.pubkey, update.quoteId));
    }
  }

  #tellOfIssued(payload: string): void {
    this.#parts.onIssued(decodeIssued(payload));
  }
}
