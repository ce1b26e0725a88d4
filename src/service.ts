import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay, setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import type { Clock } from './clock.ts';
import { type Config, readJournalStream, VERSION } from './config.ts';
import { isAccessibleToOtherUsers } from './database/data-dir.ts';
import { type Database, openDatabase } from './database/database.ts';
import { loadOrGenerateSecret } from './database/generated-secret.ts';
import { readMigrationStatus } from './database/migration-store.ts';
import type { NotificationSubscription } from './database/postgres-notifications.ts';
import { Readiness } from './database/readiness.ts';
import { createHttp } from './http/app.ts';
import { listen } from './http/server.ts';
import { createLogDestination, createLogger, type Logger } from './log.ts';
import { readDatabaseCounts } from './metrics/database-counts-store.ts';
import { Metrics } from './metrics/metrics.ts';
import { startMetricsServer } from './metrics/metrics-server.ts';
import { MintPolicy } from './mints/mint-policy.ts';
import { createMintsModule } from './mints/mints-module.ts';
import type { RateLimiterTiming } from './mints/route-rate-limiter.ts';
import { createEgress } from './net/egress.ts';
import type { FetchLimits } from './net/guarded-fetch.ts';
import {
  decodeQuoteAnnouncements,
  decodeQuoteUpdates,
  NEW_QUOTES_CHANNEL,
  QUOTE_UPDATES_CHANNEL,
  WATCH_RESCAN_CHANNEL,
} from './quotes/process-notifications.ts';
import { createQuotesModule } from './quotes/quotes-module.ts';
import {
  ALL_RECIPIENTS,
  RECIPIENT_CHANGES_CHANNEL,
  RecipientDirectory,
} from './recipients/recipient-directory.ts';
import { SettingsUpdater } from './recipients/settings-updater.ts';
import { createMaintenanceJob } from './retention.ts';
import { Store } from './store.ts';
import { createUsernamesModule } from './usernames/usernames-module.ts';
import { createWatcherModule } from './watcher/watcher-module.ts';
import { createZapsModule } from './zaps/zaps-module.ts';

/** At shutdown, requests to mints are aborted after this time. */
const MINT_RESPONSE_DEADLINE_MS = 3_000;

/** At shutdown, the connections of clients are closed after this time. */
const CLIENT_DEADLINE_MS = 4_000;

/** Tests and the benchmark replace parts and intervals of the service. */
export interface ServiceOverrides {
  clock?: Clock;
  monotonicMs?: () => number;
  log?: Logger;
  /** The service does not close this database when it stops. */
  database?: Database;
  socketAuthTimeoutMs?: number;
  socketHeartbeatIntervalMs?: number;
  pollIntervalMs?: number;
  scanIntervalMs?: number;
  mintLimiterTiming?: Partial<RateLimiterTiming>;
  fetchLimits?: Partial<FetchLimits>;
}

export interface Service {
  /** The local URL, such as `http://127.0.0.1:3000`. */
  url: string;
  publicOrigin: string;
  /** Null if metrics are disabled. */
  metricsUrl: string | null;
  /** Stops within 10 s (ADR 21). */
  stop(): Promise<void>;
}

/** Constructs and starts the service. Throws OperatorError or, if the port is unavailable, a system error. */
export async function startService(
  config: Config,
  overrides: ServiceOverrides = {},
): Promise<Service> {
  const { clock = Date.now, monotonicMs = () => performance.now() } = overrides;
  const log =
    overrides.log ??
    createLogger(
      config.logLevel,
      await createLogDestination(config.logFormat, readJournalStream()),
    );
  const database = overrides.database ?? (await openServiceDatabase(config, log));
  const store = new Store(database.db);
  const { allowPrivateNetworks, limits } = config;
  if (allowPrivateNetworks) {
    log.warn(
      { event: 'private_networks_allowed' },
      'ALLOW_PRIVATE_NETWORKS=true: any client can make this service connect to private networks,' +
        ' and mints may use plain http; for development only',
    );
  }
  const mintPolicy = new MintPolicy({
    defaultMintUrl: config.defaultMintUrl,
    usernameMintUrl: config.usernames.mintUrl,
    zapMintUrls: config.zaps.mints,
    allowPrivateNetworks,
  });
  const metrics = config.metrics && new Metrics({ version: VERSION, mintPolicy });
  const processId = `${hostname()}-${process.pid}-${randomUUID()}`;
  const shared = { store, clock, monotonicMs, log };

  const egress = createEgress({
    monotonicMs,
    allowPrivateNetworks,
    operatorUrls: [...mintPolicy.operatorMints, ...config.zaps.relays],
    fetchLimits: overrides.fetchLimits,
    onNetworkThreadStopped: ({ error, ...stop }) => {
      metrics?.recordNetworkThreadStop();
      log.warn(
        { event: 'network_thread_stopped', ...stop, err: error },
        'replacing the network thread, which was blocked or died',
      );
    },
  });
  const mints = createMintsModule({
    ...shared,
    db: database.db,
    policy: mintPolicy,
    egress,
    limiterTiming: overrides.mintLimiterTiming ?? {},
    onRequestFinished: (request) => metrics?.recordMintRequest(request),
  });
  const zaps = await createZapsModule({
    ...shared,
    secretKey: config.zaps.secretKey,
    relays: config.zaps.relays,
    mintPolicy,
    maxReceiptsPerHour: limits.zapReceiptsPerRecipientPerHour,
    allowPrivateNetworks,
    connect: egress.connect,
  });
  const jwtSecret = resolveJwtSecret(config);
  const quotes = createQuotesModule({
    ...shared,
    mints,
    zaps: zaps.receiptSigning,
    operatorRange: { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat },
    limits,
    secret: jwtSecret,
    onQuoteCreated: (quote) => watcher.watchOrAnnounce(quote),
    onInvoiceFinished: (timing) => metrics?.recordInvoiceRequest(timing),
  });
  let untrustedProxy: string | null = null;
  const getUntrustedProxy = () => untrustedProxy;
  const watcher = createWatcherModule({
    ...shared,
    mints,
    getUntrustedProxy,
    processId,
    observationRecorder: quotes.observationRecorder,
    announce: (quote) => quotes.announcer.add(quote),
    onQuotesChanged: (changes) => metrics?.recordQuoteChanges(changes),
    minPollIntervalMs: overrides.pollIntervalMs,
    scanIntervalMs: overrides.scanIntervalMs,
  });
  const recipients = new RecipientDirectory({
    db: database.db,
    log,
    defaults: { mintUrl: config.defaultMintUrl, lockQuotes: config.defaultLockQuotes },
    monotonicMs,
  });
  const usernames = await createUsernamesModule({
    ...shared,
    settings: config,
    mints,
    allowHttpMints: allowPrivateNetworks,
  });
  const maintenance = createMaintenanceJob({ ...shared, checkpoint: () => database.checkpoint() });

  let notifications: NotificationSubscription | null = null;
  const readiness = new Readiness({
    queryMigrations: () => readMigrationStatus(store.db),
    isListening: () => notifications?.isConnected ?? false,
    isWritable: database.isWritable,
    monotonicMs,
  });
  const { updateSender, updateLog } = quotes;
  const { app, publicOrigins, quoteSockets } = await createHttp({
    ...overrides,
    ...shared,
    ...zaps,
    ...quotes,
    ...usernames,
    // `config` is not spread, because Fastify would apply `config.logLevel` to each plugin.
    publicOrigins: config.publicOrigins,
    trustProxy: config.trustProxy,
    limits,
    jwtSecret,
    jwtSecretPrevious: config.jwtSecretPrevious,
    readiness,
    onUntrustedProxy: (proxy) => {
      untrustedProxy = proxy;
    },
    onResponse: (response) => metrics?.recordResponse(response),
    descriptionTemplate: config.lnurlText,
    maxCommentLength: config.maxCommentLength,
    hasZaps: config.zaps.secretKey !== null,
    web: config.web,
    allowPrivateNetworks,
    recipients,
    settingsUpdater: new SettingsUpdater(recipients, mints.infoCache, mintPolicy),
    mintInfoCache: mints.infoCache,
  });
  metrics?.addGauges({
    ...shared,
    readiness,
    getUntrustedProxy,
    readCounts: () => readDatabaseCounts(store.db, processId),
    readFreeDiskBytes: database.readFreeDiskBytes,
    poolStats: database.poolStats,
    quoteSockets,
    mintSockets: mints.socketSlots,
    watcher,
    limiter: mints.limiter,
    mintPolicy,
    operatorRelays: config.zaps.relays,
  });

  let metricsServer: Awaited<ReturnType<typeof startMetricsServer>> | null = null;
  const start = async () => {
    if (config.metrics !== null && metrics !== null) {
      metricsServer = await startMetricsServer(config.metrics, metrics, log);
    }
    notifications = await database.listen({
      channels: {
        [QUOTE_UPDATES_CHANNEL]: (payload) => {
          for (const update of decodeQuoteUpdates(payload)) {
            updateSender.send(update);
          }
        },
        [NEW_QUOTES_CHANNEL]: (payload) =>
          watcher.watchAnnounced(decodeQuoteAnnouncements(payload)),
        [WATCH_RESCAN_CHANNEL]: () => watcher.reloadAll(),
        [RECIPIENT_CHANGES_CHANNEL]: (address) => recipients.invalidate(address),
      },
      onMissedNotifications: (sinceMs) => {
        recipients.invalidate(ALL_RECIPIENTS);
        watcher.reloadAll();
        return updateSender.replayMissed(sinceMs);
      },
      onError: (error) =>
        log.error(
          { event: 'notification_failed', err: error },
          'could not handle a database notification',
        ),
      clock,
    });
    // Payments that were recorded before this start may not be listed yet.
    await updateSender.replayMissed(clock());
    const url = await listen(app, config.host, config.port);
    publicOrigins.setListeningPort(Number(new URL(url).port));
    await watcher.start();
    zaps.receiptDispatcher.start();
    maintenance.start();
    usernames.start();
    readiness.markServing();
    const publicOrigin = publicOrigins.canonicalOrigin;
    const metricsUrl = metricsServer?.url ?? null;
    log.info({ event: 'listening', url, publicOrigin, metricsUrl }, 'nutpost is listening');
    return { url, publicOrigin, metricsUrl, stop: () => stop(config.stopDelayMs) };
  };
  const stop = async (stopDelayMs: number) => {
    readiness.markStopping();
    // Other processes take over the mints while this one still serves requests.
    const watcherStopped = watcher.stop();
    await delay(stopDelayMs);
    quoteSockets.closeAll();
    // Lets the server accept connections that are already in its queue. `app.close` would reset them.
    await nextEventLoopTurn();
    const mintDeadline = setTimeout(() => void mints.close(), MINT_RESPONSE_DEADLINE_MS);
    const clientDeadline = setTimeout(() => app.server.closeAllConnections(), CLIENT_DEADLINE_MS);
    await app.close();
    clearTimeout(mintDeadline);
    clearTimeout(clientDeadline);
    await mints.close();
    await zaps.receiptDispatcher.stop();
    await Promise.all([quotes.announcer.stop(), watcherStopped]);
    await notifications?.close();
    updateSender.stop();
    await usernames.stop();
    await egress.close();
    await Promise.all([updateLog.stop(), maintenance.stop()]);
    await Promise.all([metricsServer?.stop(), metrics?.waitUntilIdle()]);
    if (overrides.database === undefined) {
      await database.close();
    }
    log.info({ event: 'stopped' }, 'nutpost has stopped');
  };
  try {
    return await start();
  } catch (error) {
    await stop(0);
    throw error;
  }
}

async function openServiceDatabase({ database: location }: Config, log: Logger): Promise<Database> {
  // A PostgreSQL pool replaces broken connections by itself, but a full disk of SQLite needs the operator.
  const failureLevel = location.kind === 'postgres' ? 'warn' : 'error';
  const database = await openDatabase(
    location,
    (error) =>
      log[failureLevel](
        { event: 'database_unavailable', err: error },
        'database connection or write failed; will retry',
      ),
    (line) => log.info({ event: 'database_migration' }, line),
  );
  if (location.kind === 'sqlite' && isAccessibleToOtherUsers(location.dataDir)) {
    const { dataDir } = location;
    log.warn(
      { event: 'data_dir_permissions', dataDir },
      `other users of this machine can access DATA_DIR or files in it; run: chmod -R go= ${dataDir}`,
    );
  }
  return database;
}

function resolveJwtSecret({ jwtSecret, database }: Config): string {
  if (jwtSecret !== null) {
    return jwtSecret;
  }
  if (database.kind !== 'sqlite') {
    throw new Error('JWT_SECRET is required with DATABASE_URL');
  }
  return loadOrGenerateSecret(database.dataDir, 'jwt-secret');
}
