import type { Clock } from '../clock.ts';
import type { ChannelKind } from '../database/schema.ts';
import type { Db } from '../database/transaction.ts';
import type { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import type { Logger } from '../log.ts';
import type { GuardedFetch } from '../net/guarded-fetch.ts';
import type { Sealer } from '../sealer.ts';
import type { DeliveryResult } from './delivery-policy.ts';
import type { TranslateMessage } from './message-text.ts';
import type { NostrMessenger } from './nostr-messenger.ts';
import type { VapidKeys } from './vapid-keys.ts';

export interface NotificationContext {
  db: Db;
  sealer: Sealer;
  fetch: Pick<GuardedFetch, 'request'>;
  /** Counts the requests to each site. */
  siteLimiter: FixedWindowRateLimiter;
  /** Null: the service has no key, or no relays at which it finds those of recipients. */
  nostr: NostrMessenger | null;
  onSent: (kind: ChannelKind, outcome: DeliveryResult['outcome']) => void;
  translate: TranslateMessage;
  vapidKeys: VapidKeys;
  getPublicOrigin: () => string;
  allowPrivateNetworks: boolean;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}
