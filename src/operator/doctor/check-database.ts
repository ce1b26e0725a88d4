import { randomBytes } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import type { Clock } from '../../clock.ts';
import { isAccessibleToOtherUsers, sqliteFilePath } from '../../database/data-dir.ts';
import type { Database, PostgresLocation } from '../../database/database.ts';
import { notify, transaction } from '../../database/transaction.ts';
import { rootCauseMessage } from '../../errors.ts';
import { checkClockSkew } from './check-clock.ts';
import { checkSessions } from './check-sessions.ts';
import {
  type PostgresReport,
  readPostgres,
  readSchema,
  readSqlite,
  type SchemaReport,
  type ServiceState,
  writeToWal,
} from './doctor-store.ts';
import { type Finding, FindingList } from './finding.ts';

/** The oldest version that the tests cover. */
const MIN_POSTGRES_MAJOR_VERSION = 15;

/** Ten connections for queries, one for LISTEN, and one for migrations. */
const MAX_CONNECTIONS_PER_PROCESS = 12;

/** Notifications arrive within milliseconds. */
const NOTIFICATION_TIMEOUT_MS = 3_000;

const MEBIBYTE = 1024 * 1024;

/** Room for a quarter of a million invoices of 2 KB each. */
const MIN_FREE_BYTES = 512 * MEBIBYTE;

/** With less, SQLite soon cannot extend its WAL file. */
const FULL_DISK_BYTES = 16 * MEBIBYTE;

export const RESTORE_BACKUP_ADVICE =
  'Try again in a moment. If the problem persists, keep the files as they are, and restore a backup into another DATA_DIR.';

export interface DatabaseReport {
  findings: Finding[];
  /** Null if the database could not be read. */
  serviceState: ServiceState | null;
}

export async function checkPostgres(
  database: Database,
  location: PostgresLocation,
  defaultMintUrl: string,
  clock: Clock,
): Promise<DatabaseReport> {
  const list = new FindingList();
  const sentAtMs = clock();
  const postgres = await readPostgres(database.db);
  const times = { sentAtMs, receivedAtMs: clock() };
  const schema = await readSchema(database.db, defaultMintUrl);
  list.ok('database.reachable', `PostgreSQL ${postgres.version}`);
  const sessionFindings = await checkSessions(location);
  list.findings.push(...checkPostgresSettings(postgres), ...sessionFindings);
  // Without a session the notification would be lost, and a standby cannot send one.
  if (!postgres.isReadOnly && sessionFindings.length === 0) {
    await checkNotifications(database, clock, list);
  }
  list.findings.push(
    ...checkSchema(schema),
    ...checkClockSkew('the database', new Date(postgres.nowMs).toUTCString(), times),
  );
  return { findings: list.findings, serviceState: schema.serviceState };
}

export async function checkSqlite(
  database: Database,
  dataDir: string,
  defaultMintUrl: string,
): Promise<DatabaseReport> {
  const list = new FindingList();
  const { version, corruption } = await readSqlite(database.db);
  list.ok('database.reachable', `SQLite ${version} in ${sqliteFilePath(dataDir)}`);
  if (corruption !== null) {
    const message = `The database is damaged (${corruption})`;
    list.problem('database.damage', message, RESTORE_BACKUP_ADVICE);
    return { findings: list.findings, serviceState: null };
  }
  const schema = await readSchema(database.db, defaultMintUrl);
  const { bavail, bsize } = await statfs(dataDir);
  const hasLoosePermissions = isAccessibleToOtherUsers(dataDir);
  const fileFindings = checkFiles(dataDir, { hasLoosePermissions, freeBytes: bavail * bsize });
  list.findings.push(...fileFindings, ...checkSchema(schema));
  return { findings: list.findings, serviceState: schema.serviceState };
}

export function checkFiles(
  dataDir: string,
  { hasLoosePermissions, freeBytes }: { hasLoosePermissions: boolean; freeBytes: number },
): Finding[] {
  const list = new FindingList();
  if (hasLoosePermissions) {
    list.warning(
      'database.permissions',
      `Other users of this machine can access ${dataDir} or files in it`,
      `They can read secrets there. Run \`chmod -R go= ${dataDir}\`.`,
    );
  }
  if (freeBytes < MIN_FREE_BYTES) {
    const level = freeBytes < FULL_DISK_BYTES ? 'problem' : 'warning';
    list[level](
      'database.space',
      `The disk of ${dataDir} has ${Math.floor(freeBytes / MEBIBYTE)} MB left`,
      'Free some space: on a full disk the service creates no invoices and records no payments.',
    );
  }
  return list.findings;
}

export function checkPostgresSettings(postgres: PostgresReport): Finding[] {
  const { version, majorVersion, isDurable, maxConnections, usedConnections } = postgres;
  const list = new FindingList();
  if (majorVersion < MIN_POSTGRES_MAJOR_VERSION) {
    list.problem(
      'database.version',
      `PostgreSQL ${version} is too old`,
      `Upgrade the server to version ${MIN_POSTGRES_MAJOR_VERSION} or later.`,
    );
  }
  if (postgres.isStandby) {
    list.problem(
      'database.read_only',
      'The server is a standby, which is read-only: the service does not start with it',
      'Point DATABASE_URL to the primary server, or to a proxy that always leads to the primary.',
    );
  } else if (postgres.isReadOnly) {
    list.problem(
      'database.read_only',
      'The database is read-only: default_transaction_read_only, or a user without the right to write',
      'Set default_transaction_read_only to off, and make the user the owner of the tables (`reassign owned by <the owner> to <the user>`).',
    );
  }
  if (postgres.replication === 'synchronous') {
    list.ok('database.replication', 'Commits wait for a standby server (synchronous replication)');
  } else if (postgres.replication === 'asynchronous') {
    list.warning(
      'database.replication',
      'Commits do not wait for the standby server: if it replaces the primary server, the last invoices and payments may be lost',
      'Set synchronous_standby_names and synchronous_commit=on (Patroni: synchronous_mode: true).',
    );
  }
  if (!isDurable) {
    list.warning(
      'database.durability',
      'A crash of the server may lose recorded payments',
      'Set fsync, full_page_writes and synchronous_commit to on.',
    );
  }
  if (maxConnections - usedConnections < MAX_CONNECTIONS_PER_PROCESS) {
    list.warning(
      'database.connections',
      `${usedConnections} of ${maxConnections} connections are in use, which may leave too few for another process`,
      `Raise max_connections: each process uses up to ${MAX_CONNECTIONS_PER_PROCESS}.`,
    );
  }
  return list.findings;
}

/** Checks that a notification from one connection reaches another. */
async function checkNotifications(
  database: Database,
  clock: Clock,
  list: FindingList,
): Promise<void> {
  // Random, so that two doctor commands that run at the same time do not receive each other's notifications.
  const channel = `nutpost_doctor_${randomBytes(8).toString('hex')}`;
  const received = Promise.withResolvers<boolean>();
  const listener = await database.listen({
    channels: { [channel]: () => received.resolve(true) },
    onMissedNotifications: () => undefined,
    onError: received.reject,
    clock,
  });
  const timeout = setTimeout(() => received.resolve(false), NOTIFICATION_TIMEOUT_MS);
  let isCommitted = false;
  const send = async () => {
    await transaction(database.db, async (tx) => {
      // Without a write, the commit would not wait for a synchronous standby.
      await writeToWal(tx);
      await notify(tx, channel, ['']);
    });
    isCommitted = true;
  };
  try {
    send().catch(received.reject);
    if (await received.promise) {
      list.ok('database.notifications', 'Notifications reach other connections (LISTEN)');
    } else if (!isCommitted) {
      list.problem(
        'database.replication',
        'Commits do not complete: they wait for a standby server that is not connected',
        'Connect a standby server that synchronous_standby_names names, or change the setting.',
      );
    } else {
      list.problem(
        'database.notifications',
        'Notifications (NOTIFY) do not reach other connections that listen',
        'Set DATABASE_LISTEN_URL to the URL of the server itself, without a pooler.',
      );
    }
  } catch (error) {
    list.problem(
      'database.notifications',
      `A transaction that sends a notification fails (${rootCauseMessage(error)})`,
      'If DATABASE_URL leads to a pooler, use it in transaction mode (PgBouncer: pool_mode=transaction), not in statement mode.',
    );
  } finally {
    clearTimeout(timeout);
    await listener.close();
  }
}

export function checkSchema({
  missingMigrations,
  unknownMigrations,
  serviceState,
}: SchemaReport): Finding[] {
  const list = new FindingList();
  if (unknownMigrations.length > 0) {
    list.problem(
      'database.migrations',
      `The database was migrated by a newer version of nutpost (${unknownMigrations.at(-1)}); this version does not start with it`,
      'Run the newer version, or restore the backup from before the upgrade.',
    );
  } else if (missingMigrations.length > 0) {
    list.warning(
      'database.migrations',
      `Pending migrations: ${missingMigrations.length} (the first is ${missingMigrations[0]})`,
      'Run `nutpost migrate`, or start the service, which applies them.',
    );
  } else {
    const processCount = serviceState?.runningProcessCount ?? 0;
    list.ok('database.migrations', 'The tables are up to date');
    list.ok('database.processes', `Running processes of the service: ${processCount}`);
    for (const proxy of serviceState?.untrustedProxies ?? []) {
      list.problem(
        'settings.trust_proxy',
        `Requests came through the reverse proxy ${proxy}, which TRUST_PROXY does not contain: all its clients share one rate limit`,
        `If it is your proxy, add ${proxy} to TRUST_PROXY, and restart the service.`,
      );
    }
  }
  return list.findings;
}
