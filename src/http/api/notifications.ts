import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { toOptionalUnixSeconds, toUnixSeconds } from '../../clock.ts';
import { listChannels, type NotificationChannel } from '../../notifications/channel-store.ts';
import type { NotificationContext } from '../../notifications/notification-context.ts';
import { replaceChannels, sendTestMessage } from '../../notifications/notification-settings.ts';
import {
  apiErrors,
  jsonBody,
  nonNegativeInteger,
  success,
  successEnvelope,
  unixSeconds,
} from '../schemas.ts';
import { LANGUAGE_CODES } from '../web/page-language.ts';

const DEVICE_ID_TEXT =
  'Of a device: the SHA-256 of the user’s public key, a space, and the endpoint of its subscription (hex).';

const channelSchema = z
  .object({
    id: z.string().describe(DEVICE_ID_TEXT),
    kind: z.enum(['webhook', 'nostr', 'web_push']).describe('Later versions may add kinds.'),
    site: z
      .string()
      .optional()
      .describe('The site that receives it, such as `example.com`. Of a webhook or device.'),
    minAmount: nonNegativeInteger.describe('Sats. Smaller payments cause no notification.'),
    createdAt: unixSeconds,
    sentAt: unixSeconds.optional().describe('When the last notification was delivered.'),
    failingSince: unixSeconds.optional(),
    problem: z.string().optional().describe('Why the last attempt failed. For people.'),
    disabledAt: unixSeconds
      .optional()
      .describe('The service no longer uses the channel: it failed for a week, or is gone.'),
    secret: z
      .string()
      .optional()
      .describe('Of a new webhook, in this response only. Verifies its signatures.'),
  })
  .meta({ id: 'NotificationChannel', description: 'Where a user is notified.' });

const channelsResponse = successEnvelope(
  z.object({
    channels: z.array(channelSchema),
    nostrPubkey: z
      .string()
      .optional()
      .describe('The key that sends Nostr messages. Absent if the service sends none.'),
    webPushKey: z
      .string()
      .describe('The `applicationServerKey` with which a browser subscribes (base64url).'),
  }),
).meta({ description: 'The user’s channels, the oldest first.' });

const minAmount = z
  .number({ error: 'must be a whole number of sats, at least 1' })
  .int()
  .min(1)
  .max(Number.MAX_SAFE_INTEGER)
  .default(1)
  .meta({ type: 'integer', default: 1 });

const language = z.enum(LANGUAGE_CODES).default('en');

const timeZone = z
  .string()
  .refine(isTimeZone, { error: 'must be a time zone, such as Europe/Berlin' })
  .default('UTC');

const subscription = z
  .object({
    endpoint: z.string(),
    keys: z.object({ p256dh: z.string().max(100), auth: z.string().max(100) }),
  })
  .describe('`PushSubscription.toJSON()` of a browser.');

const wantedChannel = z.union([
  z.object({ id: z.string().describe('An existing channel.'), minAmount }),
  z.object({ kind: z.literal('webhook'), url: z.string(), minAmount }),
  z.object({
    kind: z.literal('nostr'),
    language,
    timeZone,
    minAmount,
  }),
  z.object({
    kind: z.literal('web_push'),
    subscription,
    language,
    timeZone,
    showComment: z.boolean().default(false).describe('On the lock screen, too.'),
    minAmount,
  }),
]);

const getSchema = {
  operationId: 'getNotifications',
  summary: 'Get the user’s notification channels',
  response: { 200: channelsResponse, ...apiErrors(401, 404, 500, 503) },
};

const replaceSchema = {
  operationId: 'replaceNotifications',
  summary: 'Change the user’s notification channels',
  description:
    'Replaces the list: keeps the channels whose ids are given, adds new ones, and deletes all others. ' +
    'Webhooks are signed (Standard Webhooks). Nostr messages are private direct messages (NIP-17) to the relays that ' +
    'the user lists for them (kind 10050). A device (Web Push) replaces its channel with the same endpoint.',
  body: jsonBody({ channels: z.array(wantedChannel).max(20) }),
  response: { 200: channelsResponse, ...apiErrors(400, 401, 404, 413, 500, 503) },
};

const testSchema = {
  operationId: 'testNotification',
  summary: 'Send a test notification',
  body: jsonBody({ id: z.string({ error: 'must be the id of a channel' }) }),
  response: {
    200: successEnvelope(
      z.object({
        problem: z.string().optional().describe('Why it was not delivered. For people.'),
      }),
    ).meta({ description: 'Whether the channel accepted the notification.' }),
    ...apiErrors(400, 401, 404, 413, 500, 503),
  },
};

/** Registered only if the service sends notifications. */
export const notificationRoutes: FastifyPluginAsyncZod<NotificationContext> = async (
  app,
  context,
) => {
  const path = '/api/v2/user/notifications';
  const config = { rateLimitCategory: 'settingChanges' } as const;
  const keys = { nostrPubkey: context.nostr?.pubkey, webPushKey: context.vapidKeys.publicKey };
  app.get(path, { schema: getSchema }, async ({ pubkey }) => {
    const channels = await listChannels(context.db, pubkey);
    return success({ channels: channels.map((channel) => renderChannel(channel)), ...keys });
  });

  const putConfig = { rateLimitCategory: 'notificationChanges' } as const;
  app.put(path, { schema: replaceSchema, config: putConfig }, async ({ pubkey, body }) => {
    const { channels, secrets } = await replaceChannels(context, pubkey, body.channels);
    return success({
      channels: channels.map((channel) => renderChannel(channel, secrets.get(channel.id))),
      ...keys,
    });
  });

  app.post(`${path}/test`, { schema: testSchema, config }, async ({ pubkey, body }) => {
    const problem = await sendTestMessage(context, pubkey, body.id);
    return success({ problem: problem ?? undefined });
  });
};

function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

function renderChannel(
  channel: NotificationChannel,
  secret?: string,
): z.infer<typeof channelSchema> {
  return {
    id: channel.id,
    kind: channel.kind,
    site: channel.site ?? undefined,
    minAmount: channel.minAmountSat,
    createdAt: toUnixSeconds(channel.createdAtMs),
    sentAt: toOptionalUnixSeconds(channel.lastSentAtMs),
    failingSince: toOptionalUnixSeconds(channel.failingSinceMs),
    problem: channel.lastError ?? undefined,
    disabledAt: toOptionalUnixSeconds(channel.disabledAtMs),
    secret,
  };
}
