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

interface Parts {
  subscribers: Pick<QuoteSubscribers, 'tell'>;
  /** Called with each update and the number of sockets of this process that it was sent to. */
  onTold: (update: QuoteUpdate, sockets: number) => void;
  /** Called with quotes that a process issued and does not watch itself. */
  onIssued: (quotes: IssuedQuote[]) => void;
  /** Called when an import added quotes to watch. */
  onRescan: () => void;
  /** Called with an address whose recipient, settings or block changed, or `ALL_ADDRESSES`. */
  onAddressChanged: (address: string) => void;
}

/** Returns what is called with the payload of each notification of any process, by channel. */
export function notificationChannels(parts: Parts): Record<string, (payload: string) => void> {
  const { subscribers, onTold, onIssued, onRescan, onAddressChanged } = parts;
  return {
    [QUOTE_CHANNEL]: (payload: string) => {
      for (const update of decodeUpdates(payload)) {
        onTold(update, subscribers.tell(update.pubkey, update.quoteId));
      }
    },
    [ISSUED_CHANNEL]: (payload: string) => onIssued(decodeIssued(payload)),
    [RESCAN_CHANNEL]: onRescan,
    [ADDRESS_CHANNEL]: onAddressChanged,
  };
}
