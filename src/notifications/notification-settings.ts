import { randomUUID } from 'node:crypto';
import { transaction } from '../database/transaction.ts';
import { RequestError, rateLimitError } from '../errors.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import { lockPaymentCounters } from '../recipients/user-store.ts';
import {
  changeChannel,
  deleteChannel,
  findChannel,
  listChannels,
  type NotificationChannel,
  retryChannel,
  saveChannel,
} from './channel-store.ts';
import { toSiteKey } from './delivery-policy.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';
import type { Reader } from './message-text.ts';
import type { NotificationContext } from './notification-context.ts';
import { lockChannels } from './outbox-store.ts';
import { NO_NOSTR_MESSAGES, sealContext, sendMessage } from './send-message.ts';
import {
  createWebPushTarget,
  toDeviceId,
  type WantedDevice,
  type WebPushTarget,
} from './web-push.ts';
import { createWebhookTarget, type WebhookTarget } from './webhook.ts';

/** A channel as its owner wants it. `id`: an existing channel, of which only the amount can change. */
export type WantedChannel = { minAmount: number } & (
  | { id: string }
  | { kind: 'webhook'; url: string }
  | ({ kind: 'nostr' } & Reader)
  | ({ kind: 'web_push' } & WantedDevice)
);

/**
 * Replaces the notification channels of a recipient: changes those that are named, adds new ones (a device replaces itself),
 * and deletes all others. Returns the channels, and the secrets of new webhooks by channel.
 *
 * @throws RequestError `invalid` if there are too many channels, or one does not exist or is not possible
 */
export async function replaceChannels(
  context: NotificationContext,
  pubkey: string,
  wanted: readonly WantedChannel[],
): Promise<{ channels: NotificationChannel[]; secrets: ReadonlyMap<string, string | undefined> }> {
  const created = await Promise.all(
    wanted.flatMap((channel) => ('id' in channel ? [] : createChannel(context, pubkey, channel))),
  );
  const kept = wanted.filter((channel) => 'id' in channel);
  const channels = await transaction(context.db, async (tx) => {
    // Two requests at once must not exceed the limit.
    await lockPaymentCounters(tx, [pubkey]);
    // In the order in which payments lock them, which would deadlock otherwise.
    await lockChannels(tx, [pubkey]);
    const existing = await listChannels(tx, pubkey);
    const unknown = kept.find(({ id }) => !existing.some((channel) => channel.id === id));
    if (unknown !== undefined) {
      throw new RequestError('invalid', `channels: ${unknown.id} does not exist. Read them again.`);
    }
    for (const { id } of existing) {
      const channel = kept.find((each) => each.id === id);
      if (channel !== undefined) {
        await changeChannel(tx, id, channel.minAmount);
      } else if (!created.some(({ row }) => row.id === id)) {
        await deleteChannel(tx, id);
      }
    }
    for (const { row } of created) {
      await saveChannel(tx, row);
    }
    const changed = await listChannels(tx, pubkey);
    for (const [kind, max] of Object.entries(NOTIFICATION_LIMITS.maxChannels)) {
      if (changed.filter((channel) => channel.kind === kind).length > max) {
        throw new RequestError(
          'invalid',
          `channels: the list may contain at most ${max} of the kind ${kind}.`,
        );
      }
    }
    await recordAuditEvent(tx, {
      atMs: context.clock(),
      action: 'change notifications',
      pubkey,
      before: existing.map(describeChannel),
      after: changed.map(describeChannel),
    });
    return changed;
  });
  return { channels, secrets: new Map(created.map(({ row, secret }) => [row.id, secret])) };
}

/** Without its URL and keys. The id shows if another URL or device of the same site takes its place. */
function describeChannel({ id, kind, site, minAmountSat }: NotificationChannel) {
  return { id, kind, site, minAmountSat };
}

async function createChannel(
  context: NotificationContext,
  pubkey: string,
  wanted: Exclude<WantedChannel, { id: string }>,
) {
  const id = wanted.kind === 'web_push' ? toDeviceId(pubkey, wanted.subscription) : randomUUID();
  const { site, target } = createTarget(context, wanted);
  const row = {
    id,
    pubkey,
    kind: wanted.kind,
    site,
    sealedTarget: await context.sealer.seal(sealContext(id), target),
    minAmountSat: wanted.minAmount,
    createdAtMs: context.clock(),
  };
  return { row, secret: 'secret' in target ? target.secret : undefined };
}

function createTarget(
  context: NotificationContext,
  wanted: Exclude<WantedChannel, { id: string }>,
): { site: string | null; target: WebhookTarget | WebPushTarget | Reader } {
  if (wanted.kind === 'webhook') {
    return createWebhookTarget(wanted, context);
  }
  if (wanted.kind === 'web_push') {
    return createWebPushTarget(wanted, context);
  }
  if (context.nostr === null) {
    throw new RequestError('invalid', `channels: ${NO_NOSTR_MESSAGES}`);
  }
  return { site: null, target: { language: wanted.language, timeZone: wanted.timeZone } };
}

/**
 * Sends a test message through a channel. Returns null if it was delivered, otherwise why not.
 *
 * @throws RequestError `invalid` if the recipient has no such channel
 */
export async function sendTestMessage(
  context: NotificationContext,
  pubkey: string,
  channelId: string,
): Promise<string | null> {
  const channel = await findChannel(context.db, pubkey, channelId);
  if (channel === undefined) {
    throw new RequestError('invalid', 'id: must be the id of one of your channels');
  }
  // All tests by Nostr messages share a limit.
  const waitMs = context.siteLimiter.consume([toSiteKey(channel.site ?? channel.kind)]);
  if (waitMs !== null) {
    throw rateLimitError('This server sends too many messages there.', waitMs);
  }
  const message = { id: `msg_${randomUUID()}`, type: 'test', notifications: [] } as const;
  const { outcome, text } = await sendMessage(context, channel, message);
  if (outcome !== 'delivered') {
    return text;
  }
  await retryChannel(context.db, channelId, context.clock());
  return null;
}
