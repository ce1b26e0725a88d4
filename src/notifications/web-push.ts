import { createHash, ECDH } from 'node:crypto';
import webPush from 'web-push';
import { RequestError } from '../errors.ts';
import { toDisplayText } from '../untrusted-text.ts';
import { type DeliveryResult, toDeliveryResult } from './delivery-policy.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';
import { type Reader, writeMessageText } from './message-text.ts';
import type { NotificationContext } from './notification-context.ts';
import { parseReceiverUrl } from './receiver-url.ts';
import { listPayments, type Message } from './select-message.ts';

/** What a browser returns (`PushSubscription.toJSON()`). The keys are base64url. */
export interface PushSubscription {
  endpoint: string;
  keys: { p256dh: string; auth: string };
}

interface DeviceSettings extends Reader {
  /** Whether notifications, which others may see on a lock screen, contain comments. */
  showComment: boolean;
}

export type WantedDevice = DeviceSettings & { subscription: PushSubscription };
export type WebPushTarget = DeviceSettings & PushSubscription;

/** @throws RequestError `invalid` if the endpoint or a key is not acceptable */
export function createWebPushTarget(
  { subscription, language, timeZone, showComment }: WantedDevice,
  context: Pick<NotificationContext, 'allowPrivateNetworks'>,
): { site: string; target: WebPushTarget } {
  const { url: endpoint, site } = parseReceiverUrl(subscription.endpoint, context);
  const [p256dh, auth] = [subscription.keys.p256dh, subscription.keys.auth].map((key) =>
    Buffer.from(key, 'base64url'),
  ) as [Buffer, Buffer];
  if (!isPoint(p256dh) || auth.length !== 16) {
    throw new RequestError('invalid', 'channels: the keys of the subscription are not valid.');
  }
  const keys = { p256dh: p256dh.toString('base64url'), auth: auth.toString('base64url') };
  return { site, target: { endpoint, keys, language, timeZone, showComment } };
}

/**
 * Returns the id of the channel of a device. The same for each of its subscriptions with the same endpoint, so that a page
 * recognises its device, and a subscription replaces the previous one.
 */
export function toDeviceId(pubkey: string, { endpoint }: PushSubscription): string {
  return createHash('sha256').update(`${pubkey} ${endpoint}`).digest('hex');
}

/** Sends an encrypted notification to a push service (RFC 8030, 8291 and 8292). */
export async function sendWebPush(
  context: NotificationContext,
  { endpoint, keys, ...target }: WebPushTarget,
  message: Message,
): Promise<DeliveryResult> {
  const { fetch, clock, vapidKeys, getPublicOrigin } = context;
  const { cipherText } = webPush.encrypt(
    keys.p256dh,
    keys.auth,
    JSON.stringify(toPayload(context, target, message)),
    'aes128gcm',
  );
  const { Authorization: authorization } = webPush.getVapidHeaders(
    new URL(endpoint).origin,
    // Push services want to know whom to contact. In development, the origin may be plain http, which they reject.
    getPublicOrigin().replace(/^http:/, 'https:'),
    vapidKeys.publicKey,
    vapidKeys.privateKey,
    'aes128gcm',
  );
  const nowMs = clock();
  const response = await fetch.request({
    url: endpoint,
    body: cipherText,
    headers: {
      authorization,
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ttl: String(Math.floor(computeTimeToLiveMs(message, nowMs) / 1_000)),
      urgency: 'high',
    },
    maxBodyBytes: NOTIFICATION_LIMITS.maxResponseBytes,
  });
  // 404: the subscription has expired (RFC 8030 section 7.3).
  return toDeliveryResult(response, nowMs, [404, 410]);
}

/** What the service worker shows, and the page that opens with a click. Contains no quote id. */
function toPayload(
  context: NotificationContext,
  { showComment, ...reader }: DeviceSettings,
  { notifications, ...message }: Message,
) {
  const shown = notifications.map(({ comment, ...payment }) => ({
    ...payment,
    comment: toDisplayText(comment ?? '', NOTIFICATION_LIMITS.maxPushedComment) || null,
  }));
  const text = writeMessageText(context, { ...message, notifications: shown }, reader, {
    hasComment: showComment,
    payer: null,
  });
  return {
    id: message.id,
    tag: computeTag({ ...message, notifications }),
    ...text,
    url: `/collect?${new URLSearchParams({ lang: reader.language })}`,
  };
}

/** Returns what messages about the same payments have in common, so that a device shows only the newest of them. */
function computeTag({ id, notifications }: Message): string {
  const hashes = listPayments(notifications).map(({ paymentHash }) => paymentHash ?? id);
  return hashes.length === 0 ? id : createHash('sha256').update(hashes.sort().join()).digest('hex');
}

/**
 * Returns how long a push service keeps the message for a device that is off: until the last deadline of its payments. A
 * payment whose deadline has passed has none, because its mint may issue it nevertheless.
 */
function computeTimeToLiveMs({ notifications }: Message, nowMs: number): number {
  const { giveUpAfterMs } = NOTIFICATION_LIMITS;
  const deadlines = notifications.map(({ collectByMs }) => collectByMs ?? 0);
  const hasDeadlines = deadlines.length > 0 && deadlines.every((deadlineMs) => deadlineMs > nowMs);
  return hasDeadlines ? Math.min(Math.max(...deadlines) - nowMs, giveUpAfterMs) : giveUpAfterMs;
}

/** Returns whether the bytes are an uncompressed point of P-256. */
function isPoint(bytes: Buffer): boolean {
  try {
    return bytes.length === 65 && ECDH.convertKey(bytes, 'prime256v1').length > 0;
  } catch {
    return false;
  }
}
