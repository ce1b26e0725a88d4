import type { DeliveryResult } from './delivery-policy.ts';
import type { Reader } from './message-text.ts';
import type { NotificationContext } from './notification-context.ts';
import type { DueChannel } from './outbox-store.ts';
import type { Message } from './select-message.ts';
import { sendWebPush, type WebPushTarget } from './web-push.ts';
import { sendWebhook, type WebhookTarget } from './webhook.ts';

/** Binds an encrypted target to the row of its channel. */
export function sealContext(channelId: string): string {
  return `notification channel ${channelId}`;
}

export const NO_NOSTR_MESSAGES = 'This service sends no Nostr messages.';

/** Sends a message through a channel of any kind. */
export async function sendMessage(
  context: NotificationContext,
  { id, pubkey, kind, sealedTarget }: Pick<DueChannel, 'id' | 'pubkey' | 'kind' | 'sealedTarget'>,
  message: Message,
): Promise<DeliveryResult> {
  let target: unknown;
  try {
    target = await context.sealer.open(sealContext(id), sealedTarget);
  } catch {
    // The operator has changed TREASURY_SECRET, which the doctor reports.
    const text = 'The server has lost the key of this channel. Add it again.';
    return { outcome: 'failed', text };
  }
  switch (kind) {
    case 'webhook':
      return await sendWebhook(context, target as WebhookTarget, message);
    case 'nostr':
      return context.nostr === null
        ? { outcome: 'failed', text: NO_NOSTR_MESSAGES }
        : await context.nostr.send(pubkey, target as Reader, message);
    case 'web_push':
      return await sendWebPush(context, target as WebPushTarget, message);
  }
}
