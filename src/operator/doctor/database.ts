import { randomBytes } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import type { Clock } from '../../clock.ts';
import { isOpenToOthers, sqliteFile } from '../../database/data-dir.ts';
import type { Database } from '../../database/database.ts';
import { Store } from '../../store.ts';
import { checkClock } from './clock.ts';
import type { DatabaseContents, ServerFacts, TableFacts } from './examination-store.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

/** The oldest version that is tested. */
const OLDEST_MAJOR_VERSION = 15;

/** Ten for queries, one to listen, and one for migrations. */
const CONNECTIONS_PER_PROCESS = 12;

/** Notifications arrive within milliseconds. */
const NOTIFICATION_TIMEOUT_MS = 3_000;

const MEBIBYTE = 1024 * 1024;

/** A quarter of a million invoices, of 2 KB each. */
const LOW_SPACE_BYTES = 512 * MEBIBYTE;

/** What to do about a database file that is damaged. */
export const RESTORE_BACKUP =
  'Try again in a moment. If it persists, keep the files as they are, and restore a backup into another DATA_DIR.';

/** What the doctor learned about the database. */
export interface DatabaseExamination {
  findings: Finding[];
  /** Null if they could not be read. */
  contents: DatabaseContents | null;
}

/**
 * Examines a database server and closes the connections to it.
 *
 * @param mintUrl the mint whose rate limits are read
 */
export async function examineServer(
  database: Database,
  mintUrl: string,
  clock: Clock,
): Promise<DatabaseExamination> {
  try {
    const store = new Store(database.db);
    const sentAtMs = clock();
    const server = await store.examination.server();
    const times = { sentAtMs, receivedAtMs: clock() };
    const tables = await store.examination.tables(mintUrl);
    return {
      findings: [
        ok('database.reachable', `PostgreSQL ${server.version}`),
        ...serverFindings(server),
        ...(server.isReadOnly ? [] : [await notifications(database, store, clock)]),
        ...tableFindings(tables),
        ...checkClock('the database', new Date(server.nowMs).toUTCString(), times),
      ],
      contents: tables.contents,
    };
  } finally {
    await database.close();
  }
}

/**
 * Examines SQLite, its files and their disk, and closes it.
 *
 * @param mintUrl the mint whose rate limits are read
 */
export async function examineSqlite(
  database: Database,
  dataDir: string,
  mintUrl: string,
): Promise<DatabaseExamination> {
  try {
    const { examination } = new Store(database.db);
    const { version, damage } = await examination.sqlite();
    const reachable = ok('database.reachable', `SQLite ${version} in ${sqliteFile(dataDir)}`);
    if (damage !== null) {
      const what = `The database is damaged (${damage})`;
      const findings = [reachable, problem('database.damage', what, RESTORE_BACKUP)];
      return { findings, contents: null };
    }
    const tables = await examination.tables(mintUrl);
    const { bavail, bsize } = await statfs(dataDir);
    const files = { isOpen: isOpenToOthers(dataDir), freeBytes: bavail * bsize };
    return {
      findings: [reachable, ...fileFindings(dataDir, files), ...tableFindings(tables)],
      contents: tables.contents,
    };
  } finally {
    await database.close();
  }
}

/** What is wrong with the files of SQLite, and with their disk. */
export function fileFindings(
  dataDir: string,
  { isOpen, freeBytes }: { isOpen: boolean; freeBytes: number },
): Finding[] {
  const findings: Finding[] = [];
  if (isOpen) {
    findings.push(
      warning(
        'database.permissions',
        `Other users of this machine can access ${dataDir} or files in it`,
        `They can read secrets there. Run \`chmod -R go= ${dataDir}\`.`,
      ),
    );
  }
  if (freeBytes < LOW_SPACE_BYTES) {
    findings.push(
      warning(
        'database.space',
        `The disk of ${dataDir} has ${Math.floor(freeBytes / MEBIBYTE)} MB left`,
        'Make room: while the disk is full, no invoice is issued and no payment is recorded.',
      ),
    );
  }
  return findings;
}

/** What is wrong with the server. */
export function serverFindings(facts: ServerFacts): Finding[] {
  const { version, majorVersion, isDurable, isReadOnly, maxConnections, usedConnections } = facts;
  const findings: Finding[] = [];
  if (majorVersion < OLDEST_MAJOR_VERSION) {
    findings.push(
      problem(
        'database.version',
        `PostgreSQL ${version} is too old`,
        `Upgrade the server to version ${OLDEST_MAJOR_VERSION} or later.`,
      ),
    );
  }
  if (isReadOnly) {
    findings.push(
      problem(
        'database.read_only',
        'The database is read-only: a standby server, default_transaction_read_only, or a user without the right to write',
        'Point DATABASE_URL to the primary server, and let the user own the tables (`reassign owned by <the owner> to <the user>`).',
      ),
    );
  }
  if (!isDurable) {
    findings.push(
      warning(
        'database.durability',
        'A crash of the server may lose recorded payments',
        'Set fsync, full_page_writes and synchronous_commit to on.',
      ),
    );
  }
  if (maxConnections - usedConnections < CONNECTIONS_PER_PROCESS) {
    findings.push(
      warning(
        'database.connections',
        `${usedConnections} of ${maxConnections} connections are in use, which may leave too few for another process`,
        `Raise max_connections: each process uses up to ${CONNECTIONS_PER_PROCESS}.`,
      ),
    );
  }
  return findings;
}

/** Whether a notification of one connection reaches another. */
async function notifications(database: Database, store: Store, clock: Clock): Promise<Finding> {
  // Random, so that two doctors at a time do not receive each other's.
  const channel = `nutpost_doctor_${randomBytes(8).toString('hex')}`;
  const received = Promise.withResolvers<boolean>();
  const listening = await database.listen({
    channels: { [channel]: () => received.resolve(true) },
    onGap: () => undefined,
    onError: received.reject,
    clock,
  });
  const timeout = setTimeout(() => received.resolve(false), NOTIFICATION_TIMEOUT_MS);
  try {
    await store.transaction((tx) => tx.notify(channel, ['']));
    return (await received.promise)
      ? ok('database.notifications', 'Notifications reach other connections (LISTEN)')
      : problem(
          'database.notifications',
          'Notifications (NOTIFY) do not reach other connections that listen',
          'Point DATABASE_URL to the server itself, or to a pooler that does not share connections between transactions (PgBouncer: pool_mode=session).',
        );
  } finally {
    clearTimeout(timeout);
    await listening.close();
  }
}

/** Whether the tables are those of this version, and in use. */
export function tableFindings({
  missingMigrations,
  unknownMigrations,
  contents,
}: TableFacts): Finding[] {
  if (unknownMigrations.length > 0) {
    return [
      problem(
        'database.migrations',
        `The tables are of a newer version of nutpost (${unknownMigrations.at(-1)}), with which this version does not start`,
        'Run the newer version, or restore the backup from before the upgrade.',
      ),
    ];
  }
  if (missingMigrations.length > 0) {
    return [
      warning(
        'database.migrations',
        `${missingMigrations.length} migrations are pending (the first is ${missingMigrations[0]})`,
        'The next start applies them, and so does `nutpost migrate`.',
      ),
    ];
  }
  const processes = contents?.processes ?? 0;
  return [
    ok('database.migrations', 'The tables are up to date'),
    ok('database.processes', `Running processes of the service: ${processes}`),
  ];
}
