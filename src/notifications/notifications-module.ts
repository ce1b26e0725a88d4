import type { Tx } from '../database/transaction.ts';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import type { Egress } from '../net/egress.ts';
import { loadEventSigner, loadEventVerifier } from '../nostr/events.ts';
import type { NotifiedChange } from '../quotes/observation-recorder.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';
import { NostrMessenger } from './nostr-messenger.ts';
import type { NotificationContext } from './notification-context.ts';
import { NotificationDispatcher } from './notification-dispatcher.ts';
import { addNotifications, lockChannels } from './outbox-store.ts';
import { planNotifications } from './plan-notifications.ts';
import { deriveVapidKeys } from './vapid-keys.ts';

export async function createNotificationsModule(
  options: Omit<NotificationContext, 'fetch' | 'siteLimiter' | 'nostr' | 'vapidKeys'> & {
    egress: Egress;
    /** Signs Nostr messages; hex. Null: there are none. */
    secretKey: string | null;
    operatorRelays: readonly string[];
    getCollectUrl: () => string | null;
  },
) {
  const { egress, secretKey, operatorRelays, monotonicMs } = options;
  const { perSiteAndMinute, maxCountedSites } = NOTIFICATION_LIMITS;
  const siteLimiter = new FixedWindowRateLimiter(perSiteAndMinute, maxCountedSites, monotonicMs);
  const nostr =
    secretKey === null || operatorRelays.length === 0
      ? null
      : new NostrMessenger({
          ...options,
          siteLimiter,
          signer: await loadEventSigner(secretKey),
          verifyEvent: await loadEventVerifier(),
        });
  const context: NotificationContext = {
    ...options,
    fetch: egress.createFetch(),
    siteLimiter,
    nostr,
    vapidKeys: deriveVapidKeys(options.sealer),
  };
  return { context, dispatcher: new NotificationDispatcher(context) };
}

/** Adds the notifications of recorded changes to the outbox, in the transaction that records them. */
export async function recordNotifications(
  tx: Tx,
  changes: readonly NotifiedChange[],
  nowMs: number,
): Promise<void> {
  const channels = await lockChannels(
    tx,
    changes.map(({ pubkey }) => pubkey),
  );
  const channelsByPubkey = Map.groupBy(channels, ({ pubkey }) => pubkey);
  const planned = changes.flatMap((change) =>
    (channelsByPubkey.get(change.pubkey) ?? []).flatMap((channel) =>
      planNotifications(change, channel, nowMs),
    ),
  );
  await addNotifications(tx, planned);
}
