import { createHmac, randomBytes } from 'node:crypto';
import { toUnixSeconds } from '../clock.ts';
import { type DeliveryResult, toDeliveryResult } from './delivery-policy.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';
import type { NotificationContext } from './notification-context.ts';
import type { DueChannel } from './outbox-store.ts';
import type { Message } from './select-message.ts';

interface WebhookTarget {
  url: string;
  /** `whsec_` and 32 bytes in base64, as Standard Webhooks defines it. */
  secret: string;
}

const SECRET_PREFIX = 'whsec_';

export function createWebhookTarget(url: string): WebhookTarget {
  return { url, secret: SECRET_PREFIX + randomBytes(32).toString('base64') };
}

/** Binds an encrypted target to the row of its channel. */
export function sealContext(channelId: string): string {
  return `notification channel ${channelId}`;
}

/** Sends a signed webhook (Standard Webhooks 1.0). */
export async function sendWebhook(
  { sealer, fetch, clock }: NotificationContext,
  { id, sealedTarget }: Pick<DueChannel, 'id' | 'sealedTarget'>,
  message: Message,
): Promise<DeliveryResult> {
  let target: WebhookTarget;
  try {
    target = (await sealer.open(sealContext(id), sealedTarget)) as WebhookTarget;
  } catch {
    // The operator has changed TREASURY_SECRET, which the doctor reports.
    const text = 'The server has lost the key of this webhook. Add it again.';
    return { outcome: 'failed', text, retryAfterMs: 0 };
  }
  const nowMs = clock();
  const timestamp = toUnixSeconds(nowMs);
  const payload = toPayload(message, nowMs);
  const key = Buffer.from(target.secret.slice(SECRET_PREFIX.length), 'base64');
  const signature = createHmac('sha256', key)
    .update(`${message.id}.${timestamp}.${JSON.stringify(payload)}`)
    .digest('base64');
  const response = await fetch.request({
    url: target.url,
    body: payload,
    headers: {
      'webhook-id': message.id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${signature}`,
    },
    maxBodyBytes: NOTIFICATION_LIMITS.maxResponseBytes,
  });
  return toDeliveryResult(response, nowMs);
}

/**
 * The body of a webhook (docs/api.md, "Receive webhooks"). Contains no quote id: anyone who knows the id of an unlocked
 * quote can mint its ecash.
 */
function toPayload({ type, notifications }: Message, nowMs: number) {
  // Both reminders of a payment may be due at the same time.
  const payments = [...new Map(notifications.map((each) => [each.quoteRowId, each])).values()];
  return {
    type: type === 'test' ? 'test' : `payment.${type}`,
    timestamp: new Date(nowMs).toISOString(),
    data: {
      amount: payments.reduce((sum, { amountSat }) => sum + amountSat, 0),
      payments: payments.map((payment) => ({
        paymentHash: payment.paymentHash ?? undefined,
        amount: payment.amountSat,
        comment: payment.comment ?? undefined,
        mintUrl: payment.mintUrl,
        paidAt: toUnixSeconds(payment.paidAtMs),
        collectBy: payment.collectByMs === null ? undefined : toUnixSeconds(payment.collectByMs),
      })),
    },
  };
}
