import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { deleteOldRows } from '../../src/database/retention-store.ts';
import type { Tx } from '../../src/database/transaction.ts';
import { listChannels } from '../../src/notifications/channel-store.ts';
import {
  addNotifications,
  claimDueChannels,
  findEarliestDueNotification,
  listDueNotifications,
  lockChannels,
  recordMessage,
  releaseChannel,
  saveNotificationChanges,
} from '../../src/notifications/outbox-store.ts';
import { measureQueryCost } from '../helpers/database/postgres-query-cost.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { insertPaidQuotes, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';
import { buildSentMessage } from '../helpers/recipients/sent-message.ts';

/** The queries of the outbox must not read many more rows than they need, however large the tables are. */

const CHANNEL_COUNT = 5_000;
const PAYMENT_COUNT = 5_000;
const NOW_MS = 1_800_000_000_000;

const database = useTestDatabase();
const pubkey = randomPubkey();
let quoteRowId: number;
let notificationId: number;

beforeAll(async () => {
  const { db } = database;
  await insertPaidQuotes(database, pubkey, PAYMENT_COUNT);
  // One of a hundred channels is due.
  await sql`
    insert into notification_channels
      (id, pubkey, kind, site, sealed_target, min_amount_sat, created_at, next_attempt_at)
    select 'channel-' || n, case when n = 1 then ${pubkey} else 'other-' || n end, 'webhook',
      'site-' || n, 'sealed', 1, n,
      case when n % 100 = 1 then ${NOW_MS} - n when n % 3 = 0 then ${NOW_MS} + n end
    from generate_series(1::bigint, ${CHANNEL_COUNT}) as n
  `.execute(db);
  await sql`
    insert into notifications (channel, quote, event, status, due_at, give_up_at)
    select 'channel-' || (1 + row_number() over (order by quotes.id) % 10), quotes.id, event,
      case when quotes.id % 100 = 0 then 'open' else 'sent' end,
      case when quotes.id % 100 = 0 then ${NOW_MS}::bigint - quotes.id end, ${NOW_MS}::bigint + quotes.id
    from quotes, (values ('received'), ('collected')) as events (event)
  `.execute(db);
  const open = await db
    .selectFrom('notifications')
    .select(['id', 'quote'])
    .where('status', '=', 'open')
    .limit(1)
    .executeTakeFirstOrThrow();
  quoteRowId = open.quote;
  notificationId = open.id;
});

const channel = 'channel-1';
const CALLS: [maxRows: number, title: string, call: (tx: Tx) => Promise<unknown>][] = [
  [1, 'locking the channels of a recipient', (tx) => lockChannels(tx, [pubkey])],
  [1, 'listing the channels of a recipient', (tx) => listChannels(tx, pubkey)],
  [
    2,
    'adding a notification',
    (tx) =>
      addNotifications(tx, [
        { channel, quoteRowId, eventType: 'deadline', dueAtMs: NOW_MS, giveUpAtMs: NOW_MS },
      ]),
  ],
  [
    30,
    'claiming ten channels',
    (tx) => claimDueChannels(tx, NOW_MS, { limit: 10, busyGroups: [] }),
  ],
  [110, 'listing due notifications', (tx) => listDueNotifications(tx, 'channel-1', NOW_MS)],
  [
    2,
    'saving a change',
    (tx) =>
      saveNotificationChanges(tx, channel, [
        { id: notificationId, status: 'open', dueAtMs: NOW_MS, messageId: 'message' },
      ]),
  ],
  [
    30,
    'recording a message',
    (tx) =>
      recordMessage(
        tx,
        channel,
        buildSentMessage({
          notificationIds: [notificationId],
          nowMs: NOW_MS,
          notBeforeMs: NOW_MS,
        }),
      ),
  ],
  [30, 'releasing a channel', (tx) => releaseChannel(tx, channel, NOW_MS)],
  [
    2,
    'what the foreign key does when a channel is removed',
    (tx) => tx.deleteFrom('notifications').where('channel', '=', 'channel-100').execute(),
  ],
  [1, 'finding the earliest due notification', (tx) => findEarliestDueNotification(tx)],
  [1, 'deleting old notifications', (tx) => deleteOldRows(tx, 'notifications', 500)],
];

describe.each([
  ['without table statistics', false],
  ['with table statistics', true],
])('PostgreSQL %s', (_name, isAnalyzed) => {
  beforeAll(async () => {
    if (isAnalyzed) {
      await sql`vacuum analyze`.execute(database.db);
    }
  });

  it.each(CALLS)('reads at most %i rows for %s', async (maxRows, _title, call) => {
    const { rowsRead, pagesRead } = await measureQueryCost(database.db, call);
    expect(rowsRead).toBeLessThanOrEqual(maxRows);
    expect(pagesRead).toBeLessThan(500);
  });
});
