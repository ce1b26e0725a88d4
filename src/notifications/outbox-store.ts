import { sql } from 'kysely';
import type { ChannelKind, NotificationEvent, NotificationStatus } from '../database/schema.ts';
import { columnInSubquery, columnInValues, jsonRows, lockRows, toFlag } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { COLLECT_BY } from '../quotes/collect-deadline-store.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';

/** A channel that payments are added for. */
export interface WatchingChannel {
  id: string;
  kind: ChannelKind;
  pubkey: string;
  minAmountSat: number;
}

/** Locks the channels of these recipients until the transaction ends, in a fixed order. */
export async function lockChannels(tx: Tx, pubkeys: readonly string[]): Promise<WatchingChannel[]> {
  if (pubkeys.length === 0) {
    return [];
  }
  const { rows } = await sql<WatchingChannel>`
    select id, kind, pubkey, min_amount_sat as "minAmountSat" from notification_channels
    where ${columnInValues(tx, 'pubkey', 'text', [...new Set(pubkeys)])} and disabled_at is null
    order by id
    ${lockRows(tx, 'for no key update')}
  `.execute(tx);
  return rows;
}

export interface PlannedNotification {
  channel: string;
  quoteRowId: number;
  eventType: NotificationEvent;
  dueAtMs: number;
  giveUpAtMs: number;
}

const PLAN_COLUMNS = {
  text: ['channel', 'eventType'],
  bigint: ['quoteRowId', 'dueAtMs', 'giveUpAtMs'],
} as const;

/** Adds notifications to the outbox, and makes their channels due for them. The transaction has locked the channels. */
export async function addNotifications(
  tx: Tx,
  planned: readonly PlannedNotification[],
): Promise<void> {
  if (planned.length === 0) {
    return;
  }
  await sql`
    insert into notifications (channel, quote, event, status, due_at, give_up_at)
    select channel, "quoteRowId", "eventType", 'open', "dueAtMs", "giveUpAtMs"
    from ${jsonRows(tx, PLAN_COLUMNS, planned)} as planned
    where true -- SQLite needs it before "on conflict"
    on conflict do nothing
  `.execute(tx);
  // Early for some of the channels, which costs them a scan.
  const dueAtMs = Math.min(...planned.map((notification) => notification.dueAtMs));
  const ids = planned.map(({ channel }) => channel);
  await sql`
    update notification_channels
    set next_attempt_at = case when not_before > ${dueAtMs} then not_before else ${dueAtMs} end
    where ${columnInValues(tx, 'id', 'text', [...new Set(ids)])}
      -- Most payments to a busy channel find it due already.
      and (next_attempt_at is null or (next_attempt_at > ${dueAtMs} and next_attempt_at > not_before))
  `.execute(tx);
}

/** A channel to send to. */
export interface DueChannel {
  id: string;
  pubkey: string;
  kind: ChannelKind;
  /** Null for Nostr messages. */
  site: string | null;
  sealedTarget: string;
  failingSinceMs: number | null;
  lastAttemptAtMs: number | null;
}

/** Claims channels that are due, the longest due first, so that no other process sends to them at the same time. */
export async function claimDueChannels(
  db: Db,
  nowMs: number,
  { limit, busyGroups }: { limit: number; busyGroups: readonly string[] },
): Promise<DueChannel[]> {
  const claimedUntilMs = nowMs + NOTIFICATION_LIMITS.claimTimeoutMs;
  const { rows } = await sql<DueChannel>`
    with due as (
      select id from notification_channels
      where next_attempt_at <= ${nowMs} and not case
        when site is null then ${columnInValues(db, 'kind', 'text', busyGroups)}
        else ${columnInValues(db, 'site', 'text', busyGroups)}
      end
      order by next_attempt_at limit ${limit}
      ${lockRows(db, 'for update skip locked')}
    )
    update notification_channels
    set next_attempt_at = ${claimedUntilMs}, not_before = ${claimedUntilMs}
    where ${columnInSubquery(db, 'id', sql`select id from due`)}
    returning id, pubkey, kind, site, sealed_target as "sealedTarget",
      failing_since as "failingSinceMs", last_attempt_at as "lastAttemptAtMs"
  `.execute(db);
  return rows;
}

/** A notification that is due, with its payment. Times in milliseconds since 1970. */
export interface DueNotification {
  id: number;
  event: NotificationEvent;
  dueAtMs: number;
  giveUpAtMs: number;
  messageId: string | null;
  quoteRowId: number;
  amountSat: number;
  paymentHash: string | null;
  comment: string | null;
  /** As its sender signed it. Null: the payment is not a zap. */
  zapRequest: string | null;
  mintUrl: string;
  paidAtMs: number;
  collectByMs: number | null;
  isCollected: 0 | 1;
  /** Whether a socket of the recipient received the update. */
  hasReachedSocket: 0 | 1;
}

/** Lists due notifications of a channel: first those of a message that was not delivered, then the oldest. */
export async function listDueNotifications(
  db: Db,
  channelId: string,
  nowMs: number,
): Promise<DueNotification[]> {
  const { rows } = await sql<DueNotification>`
    select due.id, event, due_at as "dueAtMs", give_up_at as "giveUpAtMs",
      message_id as "messageId", quotes.id as "quoteRowId", amount_sat as "amountSat",
      payment_hash as "paymentHash", comment, zap_request as "zapRequest",
      mint_url as "mintUrl", paid_at as "paidAtMs",
      ${COLLECT_BY} as "collectByMs",
      case when state = 'ISSUED' then 1 else 0 end as "isCollected",
      case when exists (
        select 1 from quote_events
        where quote_events.quote = quotes.id and kind = 'update_sent'
      ) then 1 else 0 end as "hasReachedSocket"
    from (
      select * from notifications where channel = ${channelId} and due_at <= ${nowMs}
      order by message_id is null, message_id, due_at, id limit ${NOTIFICATION_LIMITS.maxPerMessage}
    ) as due join quotes on quotes.id = due.quote
    order by message_id is null, message_id, due_at, due.id
  `.execute(db);
  return rows;
}

export interface NotificationChange {
  id: number;
  status: NotificationStatus;
  dueAtMs: number | null;
  messageId: string | null;
}

const CHANGE_COLUMNS = { text: ['status', 'messageId'], bigint: ['id', 'dueAtMs'] } as const;

/**
 * Stores what happens to due notifications. The id of a message is stored before it is sent. Returns false if another
 * process has changed one of them meanwhile, or its channel was removed.
 */
export async function saveNotificationChanges(
  db: Db,
  channelId: string,
  changes: readonly NotificationChange[],
): Promise<boolean> {
  if (changes.length === 0) {
    return true;
  }
  const ids = changes.map(({ id }) => id);
  const { numAffectedRows } = await sql`
    with changed as materialized (select * from ${jsonRows(db, CHANGE_COLUMNS, changes)} as given),
      -- Locked before its notifications, as by the removal of a channel, which would deadlock otherwise.
      locked as materialized (
        select id from notification_channels where id = ${channelId}
        ${lockRows(db, 'for no key update')}
      )
    update notifications
    set status = changed.status, due_at = "dueAtMs", message_id = "messageId"
    from changed, locked
    where notifications.id = changed.id and ${columnInValues(db, 'notifications.id', 'bigint', ids)}
      and channel = locked.id
      and notifications.status = 'open' and (message_id is null or message_id = "messageId")
  `.execute(db);
  return numAffectedRows === BigInt(changes.length);
}

/** The new state of a channel after a message. */
export interface ChannelUpdate {
  notBeforeMs: number;
  failingSinceMs: number | null;
  lastError: string | null;
  isDisabled: boolean;
}

export interface SentMessage extends ChannelUpdate {
  messageId: string;
  notificationIds: readonly number[];
  isDelivered: boolean;
  result: string;
  nowMs: number;
}

/** Records the result of sending a message, and when the channel is due again. Locks the channel first. */
export async function recordMessage(
  tx: Tx,
  channelId: string,
  { messageId, notificationIds, isDelivered, result, nowMs, ...channel }: SentMessage,
): Promise<void> {
  const { notBeforeMs, failingSinceMs, lastError, isDisabled } = channel;
  await sql`
    update notification_channels set
      last_attempt_at = ${nowMs}, failing_since = ${failingSinceMs}, last_error = ${lastError},
      last_sent_at = case when ${toFlag(isDelivered)} = 1 then ${nowMs} else last_sent_at end,
      disabled_at = case when ${toFlag(isDisabled)} = 1 then ${nowMs} else disabled_at end
    where id = ${channelId}
  `.execute(tx);
  // If the channel was removed meanwhile, SQLite may have given the ids to notifications of others.
  await sql`
    update notifications set
      status = ${isDelivered ? 'sent' : 'open'},
      due_at = case when ${toFlag(isDelivered)} = 1 then null else due_at end,
      attempts = attempts + 1, last_attempt_at = ${nowMs}, last_result = ${result}
    where status = 'open' and ${columnInValues(tx, 'id', 'bigint', notificationIds)}
      and message_id = ${messageId}
  `.execute(tx);
  if (isDisabled) {
    await sql`
      update notifications set status = 'given_up', due_at = null
      where channel = ${channelId} and due_at is not null
    `.execute(tx);
  }
  await releaseChannel(tx, channelId, notBeforeMs);
}

/** Ends the claim of a channel. Its next attempt is at the given time, or when its first notification is due. */
export async function releaseChannel(
  tx: Tx,
  channelId: string,
  notBeforeMs: number,
): Promise<void> {
  // Locked by an own statement, because one that waits for a lock does not see what was added meanwhile.
  await sql`
    select 1 from notification_channels where id = ${channelId} ${lockRows(tx, 'for no key update')}
  `.execute(tx);
  await sql`
    update notification_channels set not_before = ${notBeforeMs}, next_attempt_at = (
      select case when min(due_at) > ${notBeforeMs} then min(due_at)
        when min(due_at) is not null then ${notBeforeMs} end
      from notifications where channel = ${channelId} and due_at is not null
    )
    where id = ${channelId}
  `.execute(tx);
}

/** For metrics. Returns null if nothing is due in any channel. */
export async function findEarliestDueNotification(db: Db): Promise<number | null> {
  const { dueAtMs } = await db
    .selectFrom('notification_channels')
    .select(({ fn }) => fn.min<number | null>('next_attempt_at').as('dueAtMs'))
    .where('next_attempt_at', 'is not', null)
    .executeTakeFirstOrThrow();
  return dueAtMs;
}

/** For `nutpost trace`. */
export async function listNotificationsOfQuote(db: Db, quoteRowId: number) {
  return await db
    .selectFrom('notifications')
    .innerJoin('notification_channels as channel', 'channel.id', 'notifications.channel')
    .select([
      'kind',
      'site',
      'event',
      'status',
      'attempts',
      'due_at as dueAtMs',
      'not_before as notBeforeMs',
      'notifications.last_attempt_at as lastAttemptAtMs',
      'last_result as lastResult',
    ])
    .where('quote', '=', quoteRowId)
    .orderBy('notifications.id')
    .execute();
}

export type TracedNotification = Awaited<ReturnType<typeof listNotificationsOfQuote>>[number];
