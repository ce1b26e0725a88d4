import { sql } from 'kysely';
import { beforeEach, expect, it } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import { deleteOldRows } from '../../src/database/retention-store.ts';
import { type Db, transaction } from '../../src/database/transaction.ts';
import { FixedWindowRateLimiter } from '../../src/fixed-window-rate-limiter.ts';
import { createLogger } from '../../src/log.ts';
import { deleteChannel } from '../../src/notifications/channel-store.ts';
import { NotificationDispatcher } from '../../src/notifications/notification-dispatcher.ts';
import { replaceChannels } from '../../src/notifications/notification-settings.ts';
import { recordNotifications } from '../../src/notifications/notifications-module.ts';
import {
  addNotifications,
  findEarliestDueNotification,
  listDueNotifications,
  recordMessage,
  releaseChannel,
  saveNotificationChanges,
} from '../../src/notifications/outbox-store.ts';
import { deleteUserData } from '../../src/operator/user-data-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { lockRows, waitForBlockedStatement } from '../helpers/database/postgres-locks.ts';
import { openTestDatabase, type TestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';
import { buildSentMessage } from '../helpers/recipients/sent-message.ts';

/** The recipient, the recorder and the dispatcher lock the same rows: channels first, by id, then their notifications. */

const NOW_MS = 1_800_000_000_000;

let testDatabase: TestDatabase;
let database: Database;
let db: Db;

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  db = database.db;
});

it('stores the result of a message while its channel is removed', async () => {
  const channel = await addChannel('channel', randomPubkey());
  const notificationIds = await addDueNotifications(channel);
  const unlock = await lockRow('notification_channels', channel);
  const removal = transaction(db, (tx) => deleteChannel(tx, channel));
  await waitForBlockedStatement(database);
  const sent = buildSentMessage({ notificationIds });
  const recording = transaction(db, (tx) => recordMessage(tx, channel, sent));
  await waitForBlockedStatement(database, 2);
  await unlock();
  await removal;
  await recording;
});

it('stores the result of a message while the data of its recipient are deleted', async () => {
  const pubkey = randomPubkey();
  const channel = await addChannel('channel', pubkey);
  const notificationIds = await addDueNotifications(channel, pubkey);
  await sql`update quotes set watch_until = null`.execute(db);
  const unlock = await lockRow('notification_channels', channel);
  const deletion = transaction(db, (tx) => deleteUserData(tx, pubkey));
  await waitForBlockedStatement(database);
  await unlock(`select 1 from notifications where id in (${notificationIds}) for update nowait`);
  expect(await deletion).toMatchObject({ deletedQuotes: 2 });
});

it('chooses the notifications of a message while its channel is removed', async () => {
  const channel = await addChannel('channel', randomPubkey());
  const notificationIds = await addDueNotifications(channel);
  const unlock = await lockRow('notification_channels', channel);
  const changes = notificationIds.map(
    (id) => ({ id, status: 'open', dueAtMs: NOW_MS, messageId: 'msg_1' }) as const,
  );
  const saving = saveNotificationChanges(db, channel, changes);
  // If it locked a notification first, it would wait for the removal, which waits for this notification.
  await waitForBlockedStatement(database);
  await unlock('delete from notification_channels');
  expect(await saving).toBe(false);
});

it('chooses no notification of a message if another process has chosen one of them', async () => {
  const channel = await addChannel('channel', randomPubkey());
  const [chosen = 0, other = 0] = await addDueNotifications(channel);
  await sql`update notification_channels set next_attempt_at = ${NOW_MS}`.execute(db);
  const unlock = await lockRow('notifications', chosen);
  const clock = () => NOW_MS;
  const siteLimiter = new FixedWindowRateLimiter(1, 1, clock);
  const context = { db, clock, monotonicMs: clock, siteLimiter, log: createLogger('silent') };
  const dispatcher = new NotificationDispatcher({ ...context, nostr: null } as never);
  dispatcher.start();
  await waitForBlockedStatement(database);
  await unlock(`update notifications set message_id = 'msg_1' where id = ${chosen}`);
  await dispatcher.stop();
  const left = db.selectFrom('notifications').select('message_id').where('id', '=', other);
  expect(await left.executeTakeFirst()).toEqual({ message_id: null });
});

it('finds what a payment adds while a claim ends', async () => {
  const channel = await addChannel('channel', randomPubkey());
  const [quoteRowId] = await insertQuotes(db, [buildUnpaidQuote(randomPubkey())]);
  const unlock = await lockRow('notification_channels', channel);
  const release = transaction(db, (tx) => releaseChannel(tx, channel, NOW_MS));
  await waitForBlockedStatement(database);
  await unlock(`
    insert into notifications (channel, quote, event, status, due_at, give_up_at)
    values ('${channel}', ${quoteRowId}, 'received', 'open', ${NOW_MS}, ${NOW_MS + 1});
    update notification_channels set next_attempt_at = ${NOW_MS}`);
  await release;
  expect(await findEarliestDueNotification(db)).toBe(NOW_MS);
});

it('changes the channels of a recipient while a payment to them is recorded as collected', async () => {
  const pubkey = randomPubkey();
  await addChannel('b', pubkey, NOW_MS);
  await addChannel('a', pubkey, NOW_MS + 1);
  const quote = buildUnpaidQuote(pubkey);
  await insertQuotes(db, [quote]);
  const recorder = createObservationRecorder(db, { recordNotifications });
  await recorder.record(quote.mintUrl, [{ quoteId: quote.quoteId, state: 'PAID', source: 'poll' }]);
  const unlock = await lockRow('notification_channels', 'a');
  const recording = recorder.record(quote.mintUrl, [
    { quoteId: quote.quoteId, state: 'ISSUED', source: 'poll' },
  ]);
  await waitForBlockedStatement(database);
  const change = replaceChannels({ db, clock: () => NOW_MS } as never, pubkey, []);
  await waitForBlockedStatement(database, 2);
  await unlock();
  await recording;
  expect((await change).channels).toEqual([]);
});

it('deletes old notifications while one of them is locked', async () => {
  const channel = await addChannel('channel', randomPubkey());
  const [id = 0, ...others] = await addDueNotifications(channel);
  await sql`update notifications set give_up_at = 1`.execute(db);
  const unlock = await lockRow('notifications', id);
  await deleteOldRows(db, 'notifications', 1_000);
  await unlock();
  const left = await db.selectFrom('notifications').select('id').execute();
  expect(left).toEqual([{ id }]);
  expect(others).not.toEqual([]);
});

async function addChannel(id: string, pubkey: string, createdAtMs = NOW_MS): Promise<string> {
  await db
    .insertInto('notification_channels')
    .values({
      id,
      pubkey,
      kind: 'webhook',
      site: 'shop.example',
      sealed_target: 'sealed',
      min_amount_sat: 1,
      created_at: createdAtMs,
    })
    .execute();
  return id;
}

/** Adds two notifications. @returns their ids */
async function addDueNotifications(channel: string, pubkey = randomPubkey()): Promise<number[]> {
  const quotes = [1, 2].map(() => buildUnpaidQuote(pubkey));
  const quoteRowIds = await insertQuotes(db, quotes);
  const planned = quoteRowIds.map((quoteRowId) => ({
    channel,
    quoteRowId: quoteRowId ?? 0,
    eventType: 'received' as const,
    dueAtMs: NOW_MS,
    giveUpAtMs: NOW_MS + 1,
  }));
  await transaction(db, (tx) => addNotifications(tx, planned));
  return (await listDueNotifications(db, channel, NOW_MS)).map(({ id }) => id);
}

function lockRow(table: string, id: string | number) {
  return lockRows(testDatabase, `select 1 from ${table} where id = $1 for update`, [id]);
}
