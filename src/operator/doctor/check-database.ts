import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Config } from '../../config.ts';
import { probeConnections } from '../../database/connection-probe.ts';
import {
  findDataDirProblem,
  isAccessibleToOtherUsers,
  sqliteFilePath,
} from '../../database/data-dir.ts';
import {
  type Database,
  openForInspection,
  type PostgresLocation,
} from '../../database/database.ts';
import { compareMigrations } from '../../database/migration-store.ts';
import { findNewestBackup } from '../../database/newest-backup-store.ts';
import { type Db, notify, transaction } from '../../database/transaction.ts';
import { OperatorError, rootCauseMessage } from '../../errors.ts';
import { findNewestChannel } from '../../notifications/channel-store.ts';
import { sealContext } from '../../notifications/send-message.ts';
import { findTreasuryProblem } from '../../usernames/treasury.ts';
import { createTreasurySealer } from '../../usernames/usernames-module.ts';
import { waitAtMost } from '../../wait-at-most.ts';
import { formatTimeWithDistance } from '../format.ts';
import { checkClockSkew } from './check-clock.ts';
import { findStartFailure } from './check-settings.ts';
import {
  type PostgresReport,
  readPostgres,
  readServiceState,
  readSqlite,
  type ServiceState,
  writeToWal,
} from './doctor-store.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

/** The oldest version that the tests cover. */
const MIN_POSTGRES_VERSION = 15;

/** A day, and time for a large database. */
export const MAX_BACKUP_AGE_MS = 26 * 3_600_000;

/** Ten for queries, one for LISTEN, and one for migrations. */
const MAX_CONNECTIONS_PER_PROCESS = 12;

const CHECK_SERVER_ADVICE =
  'Check that the server is up, and check the host, user and password in DATABASE_URL and the rights of the user.';

const RESTORE_BACKUP_ADVICE =
  'Try again in a moment. If the problem persists, keep the files as they are, and restore a backup into another DATA_DIR.';

export interface DatabaseReport {
  findings: Finding[];
  /** Null if the database does not exist or cannot be read, or its tables are not up to date. */
  serviceState: ServiceState | null;
}

/** Reports an unreadable database as a finding, so that the other checks still run. */
export async function checkDatabase(config: Config): Promise<DatabaseReport> {
  const { database: location } = config;
  const isPostgres = location.kind === 'postgres';
  const dataDir = isPostgres ? '' : path.resolve(location.dataDir);
  try {
    const missingDatabase = isPostgres ? null : findMissingDatabase(dataDir);
    if (missingDatabase !== null) {
      return { findings: [missingDatabase], serviceState: null };
    }
    const database = await openForInspection(
      // With a `listenUrl`, the connections use no prepared statements, which would fail if `url` leads to a pooler.
      isPostgres ? { ...location, listenUrl: location.listenUrl ?? location.url } : location,
      'doctor',
    );
    try {
      const findings = await (isPostgres
        ? checkPostgres(location, database)
        : checkSqlite(dataDir, database));
      if (findings.some(({ check }) => check === 'database.damage')) {
        return { findings, serviceState: null };
      }
      const tables = await checkTables(config, database.db);
      return { ...tables, findings: [...findings, ...tables.findings] };
    } finally {
      await database.close();
    }
  } catch (error) {
    const [reason = ''] = rootCauseMessage(error).split('\n');
    const advice = isPostgres ? CHECK_SERVER_ADVICE : RESTORE_BACKUP_ADVICE;
    const finding = problem('database.reachable', reason.replace(/\.$/, ''), advice);
    return { findings: [finding], serviceState: null };
  }
}

async function checkTables(config: Config, db: Db): Promise<DatabaseReport> {
  const { missing, unknown } = await compareMigrations(db);
  if (missing.length > 0) {
    const text = `Pending migrations: ${missing.length} (the first is ${missing[0]})`;
    const advice = 'Run `nutpost migrate`, or start the service, which applies them.';
    return { findings: [warning('database.migrations', text, advice)], serviceState: null };
  }
  const serviceState = await readServiceState(db, config);
  const assertTreasurySecret = async () => {
    const treasuryProblem = await findTreasuryProblem(createTreasurySealer(config), db);
    if (treasuryProblem !== null) {
      throw new OperatorError(treasuryProblem);
    }
  };
  const findings = [
    ...checkService(unknown, serviceState),
    ...(await findStartFailure('settings.treasury_secret', assertTreasurySecret)),
    ...(await checkNotificationSecret(config, db)),
    ...(await checkBackup(db)),
  ];
  return { findings, serviceState };
}

/** Finds nothing if backups are made in another way. */
async function checkBackup(db: Db): Promise<Finding[]> {
  const madeAtMs = await findNewestBackup(db);
  const isOld = madeAtMs !== null && madeAtMs < Date.now() - MAX_BACKUP_AGE_MS;
  const text = `The last backup was made ${formatTimeWithDistance(madeAtMs ?? 0, Date.now())}`;
  const advice = 'Look at what `nutpost backup` printed, and run it again.';
  return isOld ? [warning('database.backup', text, advice)] : [];
}

/** Checks that the service can send notifications. Where they go is encrypted. */
async function checkNotificationSecret(config: Config, db: Db): Promise<Finding[]> {
  const sealer = createTreasurySealer(config);
  // With SQLite, the service generates the secret.
  if (!config.hasNotifications || (sealer === null && config.database.kind === 'sqlite')) {
    return [];
  }
  if (sealer === null) {
    const text = 'Recipients cannot be notified, because TREASURY_SECRET is not set';
    return [warning('settings.notifications', text, 'Set it, or NOTIFICATIONS=false.')];
  }
  const newest = await findNewestChannel(db);
  try {
    if (newest !== undefined) {
      await sealer.open(sealContext(newest.id), newest.sealedTarget);
    }
    return [];
  } catch {
    const text =
      'Recipients are not notified, because they asked for it with another TREASURY_SECRET';
    const advice = 'Set the previous secret, or ask recipients to switch notifications on again.';
    return [warning('settings.notifications', text, advice)];
  }
}

async function checkPostgres(location: PostgresLocation, database: Database): Promise<Finding[]> {
  const sentAtMs = Date.now();
  const postgres = await readPostgres(database.db);
  const times = { sentAtMs, receivedAtMs: Date.now() };
  const sessionProblem = await findSessionProblem(location);
  // A read-only server cannot send a notification, and without a session nothing receives it.
  const canNotify = !postgres.isReadOnly && sessionProblem === null;
  return [
    ok('database.reachable', `PostgreSQL ${postgres.version}`),
    ...checkPostgresSettings(postgres),
    ...(sessionProblem === null ? [] : [sessionProblem]),
    ...(canNotify ? [await checkNotifications(database)] : []),
    ...checkClockSkew('the database', new Date(postgres.nowMs).toUTCString(), times),
  ];
}

/** Checks that the service has the sessions that it needs: for LISTEN, migrations and prepared statements. */
async function findSessionProblem({ url, listenUrl }: PostgresLocation): Promise<Finding | null> {
  const urlProbe = await tryToProbe(url);
  if ('error' in urlProbe) {
    const text = `The database accepts no further connections (${urlProbe.error})`;
    const advice = 'Raise max_connections of the server, or the pool size of the pooler.';
    return problem('database.connections', text, advice);
  }
  if (listenUrl === undefined) {
    const text = `DATABASE_URL ${SHARED_TEXT}, migrations and prepared statements do not work`;
    return urlProbe.sharesConnections ? problem('database.pooler', text, LISTEN_URL_ADVICE) : null;
  }
  const listenProbe = await tryToProbe(listenUrl);
  let text: string | null = null;
  if ('error' in listenProbe) {
    text = `DATABASE_LISTEN_URL: the database cannot be reached (${listenProbe.error})`;
  } else if (listenProbe.sharesConnections) {
    text = `DATABASE_LISTEN_URL ${SHARED_TEXT} and migrations do not work`;
  } else if (listenProbe.databaseId !== urlProbe.databaseId) {
    text = 'DATABASE_LISTEN_URL and DATABASE_URL lead to different servers or databases';
  }
  return text === null ? null : problem('database.listen_url', text, LISTEN_URL_ADVICE);
}

function tryToProbe(url: string) {
  return probeConnections(url).catch((error: unknown) => ({ error: rootCauseMessage(error) }));
}

const SHARED_TEXT =
  'leads to a pooler that shares connections between transactions: notifications (LISTEN)';

const LISTEN_URL_ADVICE =
  'Set DATABASE_LISTEN_URL to the same database at the server itself, at a proxy that always leads to the primary, or at a pooler in session mode (PgBouncer: pool_mode=session), and check its host, user and password.';

/** Returns null if the data directory has a database. No database is a problem only if the service cannot create it. */
function findMissingDatabase(dataDir: string): Finding | null {
  const accessProblem = findDataDirProblem(dataDir);
  if (accessProblem !== null) {
    return problem(
      'database.data_dir',
      `DATA_DIR: ${dataDir} cannot be used (${accessProblem})`,
      'Run this command as the user that runs the service, and make that user the owner of the directory.',
    );
  }
  return fs.existsSync(sqliteFilePath(dataDir))
    ? null
    : ok('database.reachable', `No database in ${dataDir} yet; the first start creates it`);
}

async function checkSqlite(dataDir: string, database: Database): Promise<Finding[]> {
  const { version, corruption } = await readSqlite(database.db);
  const reachable = ok('database.reachable', `SQLite ${version} in ${sqliteFilePath(dataDir)}`);
  if (corruption !== null) {
    const message = `The database is damaged (${corruption})`;
    return [reachable, problem('database.damage', message, RESTORE_BACKUP_ADVICE)];
  }
  const hasLoosePermissions = isAccessibleToOtherUsers(dataDir);
  const { freeBytes = 0 } = (await database.readDiskSpace()) ?? {};
  return [reachable, ...checkDataDir(dataDir, { hasLoosePermissions, freeBytes })];
}

export function* checkDataDir(
  dataDir: string,
  { hasLoosePermissions, freeBytes }: { hasLoosePermissions: boolean; freeBytes: number },
): Generator<Finding> {
  if (hasLoosePermissions) {
    yield warning(
      'database.permissions',
      `Other users of this machine can access ${dataDir} or files in it`,
      `They can read secrets there. Run \`chmod -R go= ${dataDir}\`.`,
    );
  }
  const freeMebibytes = Math.floor(freeBytes / 2 ** 20);
  // 512 MB are enough for a quarter of a million invoices of 2 KB each.
  if (freeMebibytes < 512) {
    // With less than 16 MB, SQLite soon cannot extend its WAL file.
    const createFinding = freeMebibytes < 16 ? problem : warning;
    yield createFinding(
      'database.space',
      `The disk of ${dataDir} has ${freeMebibytes} MB left`,
      'Free some space: on a full disk the service creates no invoices and records no payments.',
    );
  }
}

export function* checkPostgresSettings(postgres: PostgresReport): Generator<Finding> {
  const { version, majorVersion, isDurable, maxConnections, usedConnections } = postgres;
  if (majorVersion < MIN_POSTGRES_VERSION) {
    yield problem(
      'database.version',
      `PostgreSQL ${version} is too old`,
      `Upgrade the server to version ${MIN_POSTGRES_VERSION} or later.`,
    );
  }
  if (postgres.isStandby) {
    yield problem(
      'database.read_only',
      'The server is a standby, which is read-only: the service does not start with it',
      'Point DATABASE_URL to the primary server, or to a proxy that always leads to the primary.',
    );
  } else if (postgres.isReadOnly) {
    yield problem(
      'database.read_only',
      'The database is read-only: default_transaction_read_only, or a user without the right to write',
      'Set default_transaction_read_only to off, and make the user the owner of the tables (`reassign owned by <the owner> to <the user>`).',
    );
  }
  if (postgres.replication === 'synchronous') {
    yield ok('database.replication', 'Commits wait for a standby server (synchronous replication)');
  } else if (postgres.replication === 'asynchronous') {
    yield warning(
      'database.replication',
      'Commits do not wait for the standby server: if it replaces the primary server, the last invoices and payments may be lost',
      'Set synchronous_standby_names and synchronous_commit=on (Patroni: synchronous_mode: true).',
    );
  }
  if (!isDurable) {
    yield warning(
      'database.durability',
      'A crash of the server may lose recorded payments',
      'Set fsync, full_page_writes and synchronous_commit to on.',
    );
  }
  if (maxConnections - usedConnections < MAX_CONNECTIONS_PER_PROCESS) {
    yield warning(
      'database.connections',
      `${usedConnections} of ${maxConnections} connections are in use, which may leave too few for another process`,
      `Raise max_connections: each process uses up to ${MAX_CONNECTIONS_PER_PROCESS}.`,
    );
  }
}

export async function checkNotifications({ db, listen }: Database): Promise<Finding> {
  // Random, so that two doctor commands that run at the same time do not receive each other's notifications.
  const channel = `nutpost_doctor_${randomBytes(8).toString('hex')}`;
  const received = Promise.withResolvers<void>();
  const listener = await listen({
    channels: { [channel]: () => received.resolve() },
    onMissedNotifications: () => undefined,
    onError: received.reject,
    clock: Date.now,
  });
  let [isCommitted, isReceived] = [false, false];
  const send = async () => {
    await transaction(db, async (tx) => {
      // Without a write, the commit would not wait for a synchronous standby.
      await writeToWal(tx);
      await notify(tx, channel, ['']);
    });
    isCommitted = true;
  };
  const receive = async () => {
    await received.promise;
    isReceived = true;
  };
  try {
    // Usually both happen within milliseconds.
    await waitAtMost(3_000, Promise.all([send(), receive()]));
  } catch (error) {
    return problem(
      'database.notifications',
      `A transaction that sends a notification fails (${rootCauseMessage(error)})`,
      'If DATABASE_URL leads to a pooler, use it in transaction mode (PgBouncer: pool_mode=transaction), not in statement mode.',
    );
  } finally {
    await listener.close();
  }
  if (isReceived) {
    return ok('database.notifications', 'Notifications reach other connections (LISTEN)');
  }
  return isCommitted
    ? problem(
        'database.notifications',
        'Notifications (NOTIFY) do not reach other connections that listen',
        'Set DATABASE_LISTEN_URL to the URL of the server itself, without a pooler.',
      )
    : problem(
        'database.replication',
        'Commits do not complete: they wait for a standby server that is not connected',
        'Connect a standby server that synchronous_standby_names names, or change the setting.',
      );
}

/** @param unknownMigrations those that only a newer version has */
function* checkService(
  unknownMigrations: readonly string[],
  { runningProcessCount, untrustedProxies }: ServiceState,
): Generator<Finding> {
  yield unknownMigrations.length === 0
    ? ok('database.migrations', 'The tables are up to date')
    : warning(
        'database.migrations',
        `A newer version of nutpost has added to the tables (${unknownMigrations.at(-1)}); this version does not use that`,
        'This is as expected after going back to this version. `nutpost export` may omit what was added.',
      );
  yield ok('database.processes', `Running processes of the service: ${runningProcessCount}`);
  for (const proxy of untrustedProxies) {
    yield problem(
      'settings.trust_proxy',
      `Requests came through the reverse proxy ${proxy}, which TRUST_PROXY does not contain: all its clients share one rate limit`,
      `If it is your proxy, add ${proxy} to TRUST_PROXY, and restart the service.`,
    );
  }
}
