import { columnInValues } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { findUserByPubkey } from './user-store.ts';

/** A change. It must contain no secrets, such as the URL of a webhook, and no addresses of clients. */
export interface AuditEvent {
  atMs: number;
  /** The command, such as `user block`, or what a user did, such as `change settings`. */
  action: string;
  /** The key (hex) that the change is about, if any. */
  pubkey?: string | null;
  /** Who has run a command. Undefined: the user with the key has made the change. */
  systemUser?: string | undefined;
  /** The username that the change is about. By default, that of the key after the change. */
  name?: string | null;
  /** The changed values, if there were or are any. */
  before?: object | null | undefined;
  after?: object | null | undefined;
}

/** Adds a change to the audit trail, in the transaction that makes it. Adds nothing if no value differs. */
export async function recordAuditEvent(tx: Tx, event: AuditEvent): Promise<void> {
  const { atMs, action, pubkey = null } = event;
  const before = event.before ? JSON.stringify(event.before) : null;
  const after = event.after ? JSON.stringify(event.after) : null;
  if (before === after) {
    return;
  }
  const user = event.name === undefined && pubkey !== null && (await findUserByPubkey(tx, pubkey));
  const name = event.name ?? (user ? user.name : null);
  await tx
    .insertInto('audit_events')
    .values({
      at: atMs,
      actor_kind: event.systemUser === undefined ? 'user' : 'command',
      actor: event.systemUser ?? pubkey ?? '',
      action,
      pubkey,
      name,
      before,
      after,
    })
    .execute();
}

/** Marks up to `limit` events as logged and returns them, the oldest first. Each event is returned once. */
export async function claimEventsToLog(db: Db, limit: number) {
  const due = await db
    .selectFrom('audit_events')
    .select('id')
    .where('logged', '=', 0)
    .orderBy('id')
    .limit(limit)
    .execute();
  if (due.length === 0) {
    return [];
  }
  const ids = due.map(({ id }) => id);
  const rows = await db
    .updateTable('audit_events')
    .set({ logged: 1 })
    .where(columnInValues(db, 'id', 'bigint', ids))
    .where('logged', '=', 0)
    .returning(EVENT_COLUMNS)
    .execute();
  return rows.toSorted((a, b) => a.id - b.id).map(parseEvent);
}

export type StoredAuditEvent = Awaited<ReturnType<typeof listAuditEvents>>[number];

/** The changes of this key, of this key by others, or of this name; null for all. `beforeId`: of the previous page. */
export interface AuditFilter {
  about: { pubkey: string | null; name: string | null } | null;
  sinceMs: number | null;
  beforeId: number | null;
}

/** Returns the newest changes, the newest first. */
export async function listAuditEvents(
  db: Db,
  { about, sinceMs, beforeId }: AuditFilter,
  limit: number,
) {
  const { pubkey = null, name = null } = about ?? {};
  const rows = await db
    .selectFrom('audit_events')
    .select(EVENT_COLUMNS)
    .$if(about !== null, (query) =>
      query.where(({ or, eb }) =>
        or([
          eb('pubkey', '=', pubkey),
          eb('actor', '=', pubkey),
          eb('name', '=', name),
          // The change with which a user gave the name up for another one.
          eb('before', '=', name && JSON.stringify({ name })),
        ]),
      ),
    )
    .where('at', '>=', sinceMs ?? 0)
    .where('id', '<', beforeId ?? Number.MAX_SAFE_INTEGER)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(parseEvent);
}

const EVENT_COLUMNS = [
  'id',
  'at as atMs',
  'actor_kind as actorKind',
  'actor',
  'action',
  'pubkey',
  'name',
  'before',
  'after',
] as const;

function parseEvent<Row extends { before: string | null; after: string | null }>(row: Row) {
  const { before, after } = row;
  return { ...row, before: parseValues(before), after: parseValues(after) };
}

function parseValues(json: string | null): object | null {
  return json === null ? null : (JSON.parse(json) as object);
}
