import { createHmac, randomBytes } from 'node:crypto';
import { toUnixSeconds } from '../clock.ts';
import { type DeliveryResult, toDeliveryResult } from './delivery-policy.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';
import type { NotificationContext } from './notification-context.ts';
import { parseReceiverUrl } from './receiver-url.ts';
import { computeEventTimeMs, listPayments, type Message } from './select-message.ts';

export interface WebhookTarget {
  url: string;
  /** `whsec_` and 32 bytes in base64, as Standard Webhooks defines it. */
  secret: string;
}

const SECRET_PREFIX = 'whsec_';

/** @throws RequestError `invalid` if the URL is not acceptable */
export function createWebhookTarget(
  { url: enteredUrl }: { url: string },
  context: Pick<NotificationContext, 'allowPrivateNetworks'>,
): { site: string; target: WebhookTarget } {
  const { url, site } = parseReceiverUrl(enteredUrl, context);
  const secret = SECRET_PREFIX + randomBytes(32).toString('base64');
  return { site, target: { url, secret } };
}

/** Sends a signed webhook (Standard Webhooks 1.0). */
export async function sendWebhook(
  { fetch, clock }: NotificationContext,
  target: WebhookTarget,
  message: Message,
): Promise<DeliveryResult> {
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
  return toDeliveryResult(response, nowMs, [410]);
}

/**
 * The body of a webhook (docs/api.md, "Receive webhooks"). Contains no quote id: anyone who knows the id of an unlocked
 * quote can mint its ecash.
 */
function toPayload(message: Message, nowMs: number) {
  const { type, notifications } = message;
  const payments = listPayments(notifications);
  return {
    type: type === 'test' ? 'test' : `payment.${type}`,
    timestamp: new Date(computeEventTimeMs(message, nowMs)).toISOString(),
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
