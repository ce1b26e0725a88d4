import { z } from 'zod';

/**
 * An archive: the database in lines of JSON, to move it to another database or to keep it as a backup. The first line
 * is the header. Every other line is a row of a table, under the column names, with times in ISO 8601. A row comes
 * after the rows that it refers to.
 *
 * Left out is what belongs to running processes: the tables `watch_processes` and `mint_leases`, claims of deliveries,
 * leases of purchases and withdrawals, and the hashed address groups of unpaid quotes.
 */

/** Rises with each change after which older archives cannot be read, such as a new column without a default in {@link ROWS}. */
const ARCHIVE_VERSION = 2;

/** Far fewer than a person would read. */
const MAX_TOLD_PROBLEMS = 3;

const text = z.string();
const time = z.iso.datetime({ offset: true });
const count = z.int().min(0);
const id = z.int().min(1);
const sat = z.int().min(1);
/** Of a public key or of an event, hex. */
const hex32 = z.string().regex(/^[0-9a-f]{64}$/, { error: 'must be 64 hexadecimal digits' });
const json = z.record(z.string(), z.unknown());

/** A journal entry for a swap at a mint, without its lease. */
const swapJournalEntry = {
  id: text,
  mint_url: text,
  state: z.enum(['open', 'done', 'undone']),
  created_at: time,
  settled_at: time.nullable(),
  reason: text.nullable(),
  tries: count,
  next_try_at: time.nullable(),
  refused_at: time.nullable(),
  outputs: z.array(json),
};

/** What a row of each table has, in the order of the archive. */
const ROWS = {
  usernames: z.strictObject({
    name: text.min(1),
    pubkey: hex32.nullable(),
    status: z.enum(['in_use', 'pending', 'released', 'reserved']),
    since: time,
    until: time.nullable(),
    purchase: text.nullable(),
    wish: id,
  }),
  users: z.strictObject({
    pubkey: hex32,
    name: text.nullable(),
    mint_url: text.nullable(),
    lock_quotes: z.boolean().nullable(),
    paid_count: count,
    last_paid_at: time.nullable(),
  }),
  recipient_blocks: z.strictObject({
    pubkey: hex32,
    created_at: time,
    reason: text.nullable(),
  }),
  npubcash_imported_rows: z.strictObject({ source_row: text.min(1) }),
  mints: z.strictObject({
    url: text,
    info: json,
    fetched_at: time,
    rate_limits: json.nullable(),
  }),
  relays: z.strictObject({
    url: text,
    failures: count,
    rest_until: time.nullable(),
    last_word: text.nullable(),
    last_try_at: time.nullable(),
    accepted_at: time.nullable(),
  }),
  quotes: z.strictObject({
    id,
    mint_url: text,
    quote_id: text.min(1),
    pubkey: hex32,
    request: text,
    amount_sat: sat,
    state: z.enum(['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED']),
    locked: z.boolean(),
    created_at: time,
    expires_at: time,
    paid_at: time.nullable(),
    paid_seq: id.nullable(),
    verify_token: text.nullable(),
    watch_until: time.nullable(),
    payment_hash: text.nullable(),
    zap_request: text.nullable(),
    comment: text.nullable(),
  }),
  quote_events: z.strictObject({
    id,
    quote: id,
    pubkey: hex32,
    at: time,
    kind: text,
    detail: json,
  }),
  zap_receipts: z.strictObject({ id: hex32, quote: id, event: text, created_at: time }),
  zap_receipt_deliveries: z.strictObject({
    receipt: hex32,
    relay: text,
    state: z.enum(['open', 'accepted', 'refused', 'given_up']),
    tries: count,
    last_word: text.nullable(),
    last_try_at: time.nullable(),
    next_try_at: time.nullable(),
    give_up_at: time,
  }),
  username_purchases: z.strictObject({
    ...swapJournalEntry,
    pubkey: hex32,
    name: text,
    price_sat: sat,
    paid_sat: sat,
    token: text.nullable(),
  }),
  username_purchase_proofs: z.strictObject({ y: text, purchase: text }),
  treasury_key: z.strictObject({ id: z.literal(true), key_id: text }),
  treasury_withdrawals: z.strictObject({
    ...swapJournalEntry,
    amount_sat: sat,
    proofs: text.nullable(),
    fee_sat: count.nullable(),
  }),
  treasury_proofs: z.strictObject({
    y: text,
    mint_url: text,
    amount_sat: sat,
    proof: text,
  }),
} as const;

export type ArchiveTable = keyof typeof ROWS;

/** How many rows of each table. */
export type ArchiveCounts = Record<ArchiveTable, number>;

/** In the order in which an archive has them, so that what a row refers to is there before it. */
export const ARCHIVE_TABLES = Object.keys(ROWS) as ArchiveTable[];

/** A row, in the columns' own names. */
export interface ArchiveRow {
  table: ArchiveTable;
  row: Record<string, unknown>;
}

/** What is wrong with a line, without what stands there: it may be secret. */
export interface LineProblem {
  problem: string;
}

/** Told to a person. */
const programVersion = z.string().regex(/^[\w.+-]{1,40}$/);

const origin = z.object({
  archive: z.literal('nutpost'),
  version: z.int(),
  nutpost: programVersion,
});

const header = z.strictObject({
  archive: z.literal('nutpost'),
  version: z.literal(ARCHIVE_VERSION),
  nutpost: programVersion,
  made_at: time,
  rows: z.strictObject(
    Object.fromEntries(ARCHIVE_TABLES.map((table) => [table, count])) as Record<
      ArchiveTable,
      typeof count
    >,
  ),
});

const line = z.strictObject({ table: z.enum(ARCHIVE_TABLES), row: z.unknown() });

/** The columns of a table that are kept. */
export function archivedColumns(table: ArchiveTable): string[] {
  return Object.keys(ROWS[table].shape);
}

/** The first line of an archive, ended. @param nutpost the version of this program */
export function archiveHeader(rows: ArchiveCounts, nutpost: string, nowMs: number): string {
  const madeAt = new Date(nowMs).toISOString();
  const first: z.input<typeof header> = {
    archive: 'nutpost',
    version: ARCHIVE_VERSION,
    nutpost,
    made_at: madeAt,
    rows,
  };
  return `${JSON.stringify(first)}\n`;
}

/** One of the other lines, ended. @param row in JSON */
export function archiveLine(table: ArchiveTable, row: string): string {
  return `{"table":"${table}","row":${row}}\n`;
}

/**
 * Understands the first line.
 *
 * @returns how many rows follow, and which version of this program wrote them, where that can be read
 */
export function readArchiveHeader(
  text: string,
): { rows: ArchiveCounts; nutpost: string } | (LineProblem & { nutpost?: string }) {
  const value = parseJson(text);
  const known = origin.safeParse(value);
  if (!known.success) {
    return { problem: 'is not the first line of what `nutpost export` writes' };
  }
  const { version, nutpost } = known.data;
  if (version !== ARCHIVE_VERSION) {
    const problem = `is of version ${version} of the format, and this nutpost reads version ${ARCHIVE_VERSION}`;
    return { problem, nutpost };
  }
  const read = header.safeParse(value);
  return read.success ? { rows: read.data.rows, nutpost } : { ...problemOf(read.error), nutpost };
}

/** Understands one of the other lines. */
export function readArchiveLine(text: string): ArchiveRow | LineProblem {
  const value = parseJson(text);
  if (value === undefined) {
    return { problem: 'is no JSON' };
  }
  const outer = line.safeParse(value);
  if (!outer.success) {
    return problemOf(outer.error);
  }
  const { table } = outer.data;
  const row = ROWS[table].safeParse(outer.data.row);
  return row.success ? { table, row: row.data } : problemOf(row.error, table);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function problemOf({ issues }: z.ZodError, table?: ArchiveTable): LineProblem {
  const told = issues.slice(0, MAX_TOLD_PROBLEMS).map(({ path, message }) => {
    const place = [...(table === undefined ? [] : [table]), ...path].join('.');
    return place === '' ? message : `${place}: ${message}`;
  });
  return { problem: told.join('; ') };
}
