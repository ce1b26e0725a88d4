import { afterEach, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { saveNotificationChanges } from '../../src/notifications/outbox-store.ts';
import { deleteChannels } from '../helpers/database/delete-channels.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { startWebhookReceiver, verifyWebhook } from '../helpers/network/start-webhook-receiver.ts';
import { receiveListedPayment } from '../helpers/recipients/receive-listed-payment.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { scrapeMetrics } from '../helpers/service/metrics-scrape.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const PATH = '/api/v2/user/notifications';
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
/** After this time, a payment that was listed is reported. */
const DELAY_MS = 2 * SECOND_MS;

interface Channel {
  sentAt?: number;
  failingSince?: number;
  problem?: string;
  disabledAt?: number;
}

const clock = new TestClock();
const environment = useTestEnvironment({
  // The service does not know whether this mint issues quotes after their expiry.
  mint: { now: clock.now, switches: { version: 'Other/1.0' } },
  env: { METRICS_PORT: '0' },
  overrides: { clock: clock.now },
});

// Receivers are gone when their test ends.
afterEach(() => deleteChannels(environment.database.db));

it('sends a signed webhook for each payment, without its quote id', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const { secret } = await addWebhook(wallet, { url: `${url}/hook/?shop=1` });
  const { id, request } = await pay(wallet, 'amount=21000&comment=Table%204');
  clock.advance(DELAY_MS);
  const webhook = await webhooks.next();
  const [quote] = await wallet.listPaidQuotes();
  expect(verify(webhook, secret)).toEqual({
    type: 'payment.received',
    timestamp: new Date(clock.nowMs - DELAY_MS).toISOString(),
    data: {
      amount: 21,
      payments: [
        {
          paymentHash: expect.stringMatching(/^[0-9a-f]{64}$/),
          amount: 21,
          comment: 'Table 4',
          mintUrl: environment.mint.url,
          paidAt: quote?.['paidAt'],
          collectBy: quote?.['expiresAt'],
        },
      ],
    },
  });
  expect(webhook.body).not.toContain(id);
  expect(webhook.body).not.toContain(request);
  expect(webhook.path).toBe('/hook/?shop=1');
});

it('sends a webhook when the ecash of a payment was minted, at most one a minute', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const { secret } = await addWebhook(wallet, { url });
  const { id, request } = await pay(wallet, 'amount=21000');
  clock.advance(DELAY_MS);
  const received = verify(await webhooks.next(), secret);
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  await environment.mint.markIssued(id);
  await waitUntilIssued(wallet, id);
  expect(await trace(request)).toMatch(
    /received, webhook to 127\.0\.0\.1:\d+: delivered after 1 attempt.*HTTP 204\n.*collected, webhook to .*: not delivered yet; due .*in \d+ s/s,
  );
  clock.advance(MINUTE_MS);
  const collected = verify(await webhooks.next(), secret);
  expect(collected).toMatchObject({ type: 'payment.collected', data: { amount: 21 } });
  const [payment] = collected.data.payments;
  expect(payment?.['paymentHash']).toBe(received.data.payments[0]?.['paymentHash']);
  expect(payment).not.toHaveProperty('collectBy');
});

it('reports a payment only once if an open wallet collects it within 10 seconds', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const { secret } = await addWebhook(wallet, { url });
  const socket = await wallet.openSocket();
  const { id } = await pay(wallet, 'amount=21000');
  await socket.nextMessage();
  await waitForReports(wallet, 1);
  clock.advance(DELAY_MS);
  await environment.mint.markIssued(id);
  await waitUntilIssued(wallet, id);
  expect(verify(await webhooks.next(), secret).type).toBe('payment.collected');
  expect(webhooks.items).toEqual([]);

  await pay(wallet, 'amount=22000');
  await socket.nextMessage();
  await waitForReports(wallet, 2);
  clock.advance(MINUTE_MS);
  expect(verify(await webhooks.next(), secret)).toMatchObject({
    type: 'payment.received',
    data: { amount: 22 },
  });
  await socket.close();
});

it('repeats a webhook with the same id until it is accepted', async () => {
  const answers = [
    ...[{ status: 500 }, { status: 503 }],
    { status: 429, headers: { 'retry-after': '7200' } },
  ];
  const { url, webhooks } = await startWebhookReceiver(() => answers.shift() ?? { status: 200 });
  const wallet = environment.newWallet();
  await addWebhook(wallet, { url });
  await pay(wallet, 'amount=21000');
  clock.advance(DELAY_MS);
  const first = await webhooks.next();
  const [failing] = await waitForChannel(wallet, ({ problem }) => problem === 'HTTP 500');
  expect(failing).toMatchObject({ failingSince: expect.any(Number) });
  // A tenth of the outage is not a whole number of milliseconds.
  clock.advance(29_999);
  await webhooks.next();
  await waitForChannel(wallet, ({ problem }) => problem === 'HTTP 503');
  clock.advance(3 * SECOND_MS);
  const second = await webhooks.next();
  await waitForChannel(wallet, ({ problem }) => problem === 'HTTP 429');
  clock.advance(2 * HOUR_MS - SECOND_MS);
  const { database } = environment;
  const { next } = await database.db
    .selectFrom('notification_channels')
    .select('next_attempt_at as next')
    .where('pubkey', '=', wallet.pubkey)
    .executeTakeFirstOrThrow();
  expect(next).toBe(clock.nowMs + SECOND_MS);
  clock.advance(SECOND_MS);
  const third = await webhooks.next();
  expect([second, third].map(({ headers }) => headers['webhook-id'])).toEqual([
    first.headers['webhook-id'],
    first.headers['webhook-id'],
  ]);
  // The time of the event, not of the attempt.
  expect([second, third].map(({ body }) => body)).toEqual([first.body, first.body]);
  const [working] = await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  expect(working).not.toHaveProperty('problem');
  const metrics = await scrapeMetrics(environment.service);
  const failed = { channel: 'webhook', outcome: 'failed' };
  expect(metrics.sumSeries('nutpost_notifications_total', failed)).toBe(3);
});

it('makes one webhook of a burst of payments', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const { secret } = await addWebhook(wallet, { url, minAmount: 10 });
  for (const amountSat of [20, 30, 9]) {
    await pay(wallet, `amount=${amountSat}000`);
  }
  clock.advance(DELAY_MS);
  const burst = verify(await webhooks.next(), secret);
  expect(burst.data).toMatchObject({ amount: 50, payments: [{ amount: 20 }, { amount: 30 }] });
});

it('divides a burst with long comments, because many servers accept only 100 KB', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const { secret } = await addWebhook(wallet, { url });
  // JSON takes six bytes for each of these characters.
  for (let count = 0; count < 30; count += 1) {
    await pay(wallet, `amount=1000&comment=${'%01'.repeat(255)}`);
  }
  clock.advance(DELAY_MS);
  const received = [await webhooks.next(), await webhooks.next()];
  const payments = received.flatMap((webhook) => verify(webhook, secret).data.payments);
  expect(payments).toHaveLength(30);
  expect(Math.max(...received.map(({ body }) => body.length))).toBeLessThan(40_000);
});

it('reminds of a payment that is not collected, and again ten minutes before the deadline', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const { secret } = await addWebhook(wallet, { url });
  const { id } = await pay(wallet, 'amount=21000');
  const other = await pay(wallet, 'amount=22000');
  clock.advance(DELAY_MS);
  expect(verify(await webhooks.next(), secret)).toMatchObject({ data: { amount: 43 } });
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  await environment.mint.markIssued(other.id);
  await waitUntilIssued(wallet, other.id);
  clock.advance(MINUTE_MS);
  expect(verify(await webhooks.next(), secret).type).toBe('payment.collected');

  const quote = (await wallet.listPaidQuotes()).find(({ quoteId }) => quoteId === id);
  const [paidAtMs, deadlineMs] = [quote?.['paidAt'], quote?.['expiresAt']].map(
    (seconds) => Number(seconds) * SECOND_MS,
  ) as [number, number];
  for (const dueAtMs of [(paidAtMs + deadlineMs) / 2, deadlineMs - 10 * MINUTE_MS]) {
    // The payment was made in the second that the list shows.
    await waitForNextAttempt(wallet, (nextMs) =>
      expect(Math.abs(Number(nextMs) - dueAtMs)).toBeLessThan(SECOND_MS),
    );
    clock.advance(dueAtMs - clock.nowMs + 5 * SECOND_MS);
    expect(verify(await webhooks.next(), secret)).toMatchObject({
      type: 'payment.deadline',
      data: { amount: 21, payments: [{ collectBy: quote?.['expiresAt'] }] },
    });
  }
});

it('sends no reminders for a mint that issues quotes after their expiry', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const mint = await startTestMint({ version: 'Nutshell/0.21.0' }, { now: clock.now });
  expect((await setMint(wallet, mint.url)).status).toBe(200);
  const { secret } = await addWebhook(wallet, { url });
  await pay(wallet, 'amount=21000', mint);
  clock.advance(DELAY_MS);
  const [payment] = verify(await webhooks.next(), secret).data.payments;
  expect(payment).not.toHaveProperty('collectBy');
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  clock.advance(HOUR_MS - 2 * MINUTE_MS);
  await pay(wallet, 'amount=22000', mint);
  clock.advance(DELAY_MS);
  expect(verify(await webhooks.next(), secret)).toMatchObject({
    type: 'payment.received',
    data: { amount: 22 },
  });
});

it('delivers each webhook once although two processes send them', async () => {
  await useAdditionalService(environment, {}, { clock: clock.now });
  const { url, webhooks } = await startWebhookReceiver();
  const wallets = Array.from({ length: 8 }, () => environment.newWallet());
  for (const wallet of wallets) {
    await addWebhook(wallet, { url });
    await pay(wallet, 'amount=21000');
  }
  clock.advance(DELAY_MS);
  for (const _ of wallets) {
    await webhooks.next();
  }
  for (const wallet of wallets) {
    await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  }
  expect(webhooks.items).toEqual([]);
});

it('sends a webhook again with the same id if the process died that sent it', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  await addWebhook(wallet, { url });
  await pay(wallet, 'amount=21000');
  const { db } = environment.database;
  // What a process that dies during the delivery leaves behind.
  const claimedUntilMs = clock.nowMs + 30 * SECOND_MS;
  const channel = await db
    .updateTable('notification_channels')
    .set({ next_attempt_at: claimedUntilMs, not_before: claimedUntilMs })
    .where('pubkey', '=', wallet.pubkey)
    .returning('id')
    .executeTakeFirstOrThrow();
  await db
    .updateTable('notifications')
    .set({ message_id: 'msg_of_dead_process' })
    .where('channel', '=', channel.id)
    .where('event', '=', 'received')
    .execute();
  clock.advance(30 * SECOND_MS);
  expect((await webhooks.next()).headers['webhook-id']).toBe('msg_of_dead_process');
});

it('does not send a message again with another id if a process was suspended that had chosen it', async () => {
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  await addWebhook(wallet, { url });
  await pay(wallet, 'amount=21000');
  const { db } = environment.database;
  const notification = await db
    .selectFrom('notifications')
    .innerJoin('notification_channels as channel', 'channel.id', 'notifications.channel')
    .select(['notifications.id', 'channel', 'due_at as dueAtMs'])
    .where('pubkey', '=', wallet.pubkey)
    .where('event', '=', 'received')
    .executeTakeFirstOrThrow();
  clock.advance(DELAY_MS);
  await webhooks.next();
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  const { channel: channelId, ...due } = notification;
  const change = { ...due, status: 'open', messageId: 'msg_of_suspended_process' } as const;
  expect(await saveNotificationChanges(db, channelId, [change])).toBe(false);
  const { status } = await db
    .selectFrom('notifications')
    .select('status')
    .where('id', '=', notification.id)
    .executeTakeFirstOrThrow();
  expect(status).toBe('sent');
});

it('reports a payment to others while a webhook is answered that was removed meanwhile', async () => {
  const answer = Promise.withResolvers<{ status: number }>();
  const slow = await startWebhookReceiver(() => answer.promise);
  const leaving = environment.newWallet();
  await addWebhook(leaving, { url: slow.url });
  await pay(leaving, 'amount=21000');
  clock.advance(DELAY_MS);
  await slow.webhooks.next();
  expect((await leaving.send('PUT', PATH, { channels: [] })).status).toBe(200);

  const { url, webhooks } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  await addWebhook(wallet, { url });
  // SQLite gives its notifications the ids of those that were deleted.
  await pay(wallet, 'amount=22000');
  const delivered = { channel: 'webhook', outcome: 'delivered' };
  const countDelivered = async () =>
    (await scrapeMetrics(environment.service)).sumSeries('nutpost_notifications_total', delivered);
  const deliveredBefore = (await countDelivered()) ?? 0;
  answer.resolve({ status: 200 });
  await eventually(async () => expect(await countDelivered()).toBe(deliveredBefore + 1));
  clock.advance(DELAY_MS);
  expect(JSON.parse((await webhooks.next()).body)).toMatchObject({ data: { amount: 22 } });
});

it('stops using a webhook that is gone, or has failed for a week', async () => {
  let status = 500;
  const { url, webhooks } = await startWebhookReceiver(() => ({ status }));
  const wallet = environment.newWallet();
  await addWebhook(wallet, { url });
  for (let day = 0; day <= 7; day += 1) {
    await pay(wallet, 'amount=1000');
    clock.advance(24 * HOUR_MS);
    await webhooks.next();
    await waitForIdleChannel(wallet);
  }
  const [failed] = await waitForChannel(wallet, ({ disabledAt }) => disabledAt !== undefined);
  expect(failed).toMatchObject({ problem: 'HTTP 500' });

  status = 410;
  await addWebhook(wallet, { url });
  await pay(wallet, 'amount=1000');
  clock.advance(DELAY_MS);
  await waitForChannel(wallet, ({ disabledAt }) => disabledAt !== undefined);
});

it('does not stop using a webhook because a failure follows one of the week before', async () => {
  const { url, webhooks } = await startWebhookReceiver(() => ({ status: 500 }));
  const wallet = environment.newWallet();
  await addWebhook(wallet, { url });
  const failOnce = async () => {
    await pay(wallet, 'amount=1000');
    clock.advance(DELAY_MS);
    await webhooks.next();
    await waitForIdleChannel(wallet);
  };
  await failOnce();
  clock.advance(8 * 24 * HOUR_MS);
  // Until the first payment is given up. This ends with a pause, which must begin before the second payment.
  await waitForNextAttempt(wallet, (nextMs) => expect(nextMs).toBeNull());
  await failOnce();
  const [channel] = await waitForChannel(wallet, ({ problem }) => problem !== undefined);
  expect(channel).not.toHaveProperty('disabledAt');
});

it('sends nothing, and stores nothing, if notifications are off', async () => {
  const service = await useAdditionalService(
    environment,
    { NOTIFICATIONS: 'false' },
    { clock: clock.now },
  );
  const wallet = environment.newWallet().withOrigin(service.publicOrigin);
  expect((await wallet.get(PATH)).status).toBe(404);
});

it.each([
  ['a URL with a password', [{ kind: 'webhook', url: 'https://a:b@example.com/' }]],
  ['a URL of another scheme', [{ kind: 'webhook', url: 'ftp://example.com/' }]],
  ['an unknown channel', [{ id: 'unknown' }]],
  ['a minimum of 0 sats', [{ kind: 'webhook', url: 'https://example.com/', minAmount: 0 }]],
  [
    'two webhooks',
    [
      { kind: 'webhook', url: 'https://example.com/1' },
      { kind: 'webhook', url: 'https://example.com/2' },
    ],
  ],
])('refuses %s', async (_title, channels) => {
  const wallet = environment.newWallet();
  expect(await wallet.send('PUT', PATH, { channels })).toMatchObject({ status: 400 });
  expect((await wallet.get(PATH)).body.data.channels).toEqual([]);
});

it('changes the minimum of a webhook, and removes it', async () => {
  const wallet = environment.newWallet();
  const { id } = await addWebhook(wallet, { url: 'https://shop.example/' });
  const changed = await wallet.send('PUT', PATH, { channels: [{ id, minAmount: 21 }] });
  expect(changed.body.data.channels).toEqual([
    {
      id,
      kind: 'webhook',
      site: 'shop.example',
      minAmount: 21,
      createdAt: expect.any(Number),
    },
  ]);
  const stranger = environment.newWallet();
  const stolen = await stranger.send('PUT', PATH, { channels: [{ id, minAmount: 1 }] });
  expect(stolen.status).toBe(400);
  const removed = await wallet.send('PUT', PATH, { channels: [] });
  expect(removed.body.data.channels).toEqual([]);
});

function pay(wallet: RecipientClient, query: string, mint: TestMint = environment.mint) {
  return receiveListedPayment(environment, clock, wallet, { query, mint });
}

async function waitUntilIssued(wallet: RecipientClient, quoteId: string): Promise<void> {
  await eventually(async () =>
    expect(await wallet.listPaidQuotes()).toContainEqual(
      expect.objectContaining({ quoteId, state: 'ISSUED' }),
    ),
  );
}

/** Waits until the service has stored that its sockets received this many updates. */
async function waitForReports(wallet: RecipientClient, count: number): Promise<void> {
  await eventually(async () => {
    const rows = await environment.database.db
      .selectFrom('quote_events')
      .innerJoin('quotes', 'quotes.id', 'quote_events.quote')
      .select('quote_events.id')
      .where('pubkey', '=', wallet.pubkey)
      .where('kind', '=', 'update_sent')
      .execute();
    expect(rows.length).toBeGreaterThanOrEqual(count);
  });
}

/** Waits until the wallet's channel is not claimed. */
async function waitForIdleChannel(wallet: RecipientClient): Promise<void> {
  await waitForChannel(wallet, ({ problem }) => problem !== undefined);
  await waitForNextAttempt(wallet, (_next, lastAttempt) => expect(lastAttempt).toBe(clock.nowMs));
}

async function waitForNextAttempt(
  wallet: RecipientClient,
  assert: (nextMs: number | null, lastAttemptMs: number | null) => void,
): Promise<void> {
  await eventually(async () => {
    const { next, last } = await environment.database.db
      .selectFrom('notification_channels')
      .select(['next_attempt_at as next', 'last_attempt_at as last'])
      .where('pubkey', '=', wallet.pubkey)
      .executeTakeFirstOrThrow();
    assert(next, last);
  });
}

/** Waits until the wallet's only channel is as expected, and returns the channels. */
function waitForChannel(wallet: RecipientClient, isExpected: (channel: Channel) => boolean) {
  return eventually(async () => {
    const { channels } = (await wallet.get(PATH)).body.data as { channels: Channel[] };
    expect(channels.every(isExpected), JSON.stringify(channels)).toBe(true);
    return channels;
  });
}

async function addWebhook(wallet: RecipientClient, webhook: Record<string, unknown>) {
  const channels = [{ kind: 'webhook', ...webhook }];
  const { status, body } = await wallet.send('PUT', PATH, { channels });
  expect(status, JSON.stringify(body)).toBe(200);
  const [channel] = body.data.channels;
  expect((await wallet.get(PATH)).body.data.channels).toEqual([{ ...channel, secret: undefined }]);
  return channel as { id: string; secret: string };
}

async function trace(request: string): Promise<string> {
  const options = { clock: clock.now };
  return (await runOperatorCommand(environment.database, ['trace', request], options)).stdout;
}

function verify(webhook: Parameters<typeof verifyWebhook>[0], secret: string) {
  return verifyWebhook(webhook, secret, clock.nowMs);
}
