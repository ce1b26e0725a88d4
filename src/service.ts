import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from './clock.ts';
import { type Config, readJournalStream } from './config.ts';
import { isAccessibleToOtherUsers, loadOrGenerateSecret } from './database/data-dir.ts';
import { type Database, openDatabase } from './database/database.ts';
import { areMigrationsApplied } from './database/migration-store.ts';
import type { NotificationSubscription } from './database/notifications.ts';
import { Readiness } from './database/readiness.ts';
import type { QuoteSocketTiming } from './http/api/quote-socket-server.ts';
import { createHttp } from './http/app.ts';
import { JwtIssuer } from './http/jwt.ts';
import { CLIENT_DEADLINE_MS } from './http/limits.ts';
import { PublicOrigins } from './http/public-origins.ts';
import { listen } from './http/server.ts';
import { createFiatRates } from './http/web/fiat-rates.ts';
import { translateMessage } from './http/web/page-language.ts';
import { createLogDestination, createLogger, type Logger } from './log.ts';
import { createAuditLogJob, createMaintenanceJob } from './maintenance.ts';
import { readDatabaseCounts } from './metrics/database-counts-store.ts';
import { Metrics } from './metrics/metrics.ts';
import { startMetricsServer } from './metrics/metrics-server.ts';
import { MintPolicy } from './mints/mint-policy.ts';
import { createMintsModule } from './mints/mints-module.ts';
import { createEgress, type Egress } from './net/egress.ts';
import type { FetchLimits } from './net/limits.ts';
import {
  createNotificationsModule,
  recordNotifications,
} from './notifications/notifications-module.ts';
import { createAlertChecks, createTreasuryCheck } from './operator/alerts/alert-checks.ts';
import { type AlertMessage, sendAlert } from './operator/alerts/alert-sender.ts';
import { checkAlert, createAlertJob } from './operator/alerts/alerts.ts';
import {
  decodeQuoteAnnouncements,
  decodeQuoteUpdates,
  NEW_QUOTES_CHANNEL,
  QUOTE_UPDATES_CHANNEL,
} from './quotes/process-notifications.ts';
import { createQuotesModule } from './quotes/quotes-module.ts';
import {
  ALL_RECIPIENTS,
  RECIPIENT_CHANGES_CHANNEL,
  RecipientDirectory,
} from './recipients/recipient-directory.ts';
import { shutDown } from './shutdown.ts';
import { createTreasurySealer, createUsernamesModule } from './usernames/usernames-module.ts';
import { VERSION } from './version.ts';
import { WatchCoordinator } from './watcher/watch-coordinator.ts';
import { createZapsModule } from './zaps/zaps-module.ts';

/** Constructs and starts the service. @throws OperatorError */
export async function startService(config: Config, overrides: ServiceOverrides = {}) {
  const parts = await createParts(config, overrides);
  try {
    const urls = await start(parts);
    return { ...urls, stop: () => stop(parts, config.stopDelayMs) };
  } catch (error) {
    await stop(parts, 0);
    throw error;
  }
}

export type Service = Awaited<ReturnType<typeof startService>>;

/** What tests and benchmarks replace. */
export interface ServiceOverrides {
  clock?: Clock;
  monotonicMs?: () => number;
  log?: Logger;
  /** The service does not close this database when it stops. */
  database?: Database;
  /** Replaces all connections to other servers. `fetchLimits` then has no effect. */
  egress?: Egress;
  /** Makes the app reachable in another way than on a port, and returns its URL. */
  listen?: (app: Awaited<ReturnType<typeof createHttp>>['app']) => Promise<string>;
  socketTiming?: QuoteSocketTiming;
  pollIntervalMs?: number;
  scanIntervalMs?: number;
  purchaseRecoveryIntervalMs?: number;
  alertIntervalMs?: number;
  fetchLimits?: Partial<FetchLimits>;
}

async function start(parts: ServiceParts) {
  const { config, clock, log, metrics, quotes, watcher, http, publicOrigins, started } = parts;
  if (config.metrics !== null && metrics !== null) {
    started.metricsServer = await startMetricsServer(config.metrics, metrics, log);
  }
  started.notifications = await subscribeToNotifications(parts);
  // Schedules the updates of payments that were recorded before this start, but are listed later (ADR 40).
  await quotes.updateSender.replayMissed(clock());
  const url = await parts.listen(http.app);
  publicOrigins.setListeningPort(Number(new URL(url).port));
  await watcher.start();
  parts.zaps.receiptDispatcher.start();
  parts.notifications?.dispatcher.start();
  for (const job of parts.jobs) {
    job.start();
  }
  parts.readiness.phase = 'serving';
  const publicOrigin = publicOrigins.canonicalOrigin;
  const metricsUrl = started.metricsServer?.url ?? null;
  log.info({ event: 'listening', url, publicOrigin, metricsUrl }, 'nutpost is listening');
  return { url, publicOrigin, metricsUrl };
}

function subscribeToNotifications(parts: ServiceParts): Promise<NotificationSubscription> {
  const { database, quotes, watcher, recipients, clock, log } = parts;
  return database.listen({
    channels: {
      [QUOTE_UPDATES_CHANNEL]: (payload) => {
        for (const update of decodeQuoteUpdates(payload)) {
          quotes.updateSender.send(update);
        }
      },
      [NEW_QUOTES_CHANNEL]: (payload) => watcher.watchAnnounced(decodeQuoteAnnouncements(payload)),
      [RECIPIENT_CHANGES_CHANNEL]: (localPart) => recipients.invalidate(localPart),
    },
    onMissedNotifications: (sinceMs) => {
      recipients.invalidate(ALL_RECIPIENTS);
      watcher.reloadAll();
      return quotes.updateSender.replayMissed(sinceMs);
    },
    onError: (error) =>
      log.error(
        { event: 'notification_failed', err: error },
        'could not handle a database notification',
      ),
    clock,
  });
}

/** Stops the parts in the order of ADR 21. The deadlines of the stages add up to 10 s. */
async function stop(parts: ServiceParts, stopDelayMs: number): Promise<void> {
  const { readiness, watcher, http, mints, zaps, quotes, metrics, started, log } = parts;
  const { database, ownsDatabase } = parts;
  readiness.phase = 'stopping';
  // Other processes take over the mints while this one still serves requests.
  const watcherStopped = watcher.stop();
  // Keeps an early failure from ending the process. The stage `watcher` logs it.
  watcherStopped.catch(() => undefined);
  await delay(stopDelayMs);
  await shutDown(log, {
    clients: [
      CLIENT_DEADLINE_MS + 750,
      async () => {
        // After 3 s, requests to mints fail, so that payers get an error before `http.close` disconnects them.
        const mintDeadline = setTimeout(() => void mints.close(), 3_000);
        await http.close();
        clearTimeout(mintDeadline);
        await mints.close();
      },
    ],
    outboxes: [
      1_000,
      () => Promise.all([zaps.receiptDispatcher.stop(), parts.notifications?.dispatcher.stop()]),
    ],
    watcher: [1_000, () => Promise.all([quotes.announcer.stop(), watcherStopped])],
    'database notifications': [500, () => started.notifications?.close()],
    'quote updates': [500, () => quotes.updateSender.stop()],
    // Before the jobs, which may wait for a response.
    connections: [250, () => parts.egress.close()],
    jobs: [750, () => Promise.all(parts.jobs.map((job) => job.stop()))],
    metrics: [250, () => Promise.all([started.metricsServer?.stop(), metrics?.waitForCounts()])],
    database: [1_000, () => ownsDatabase && database.close()],
  });
  log.info({ event: 'stopped' }, 'nutpost has stopped');
}

type ServiceParts = Awaited<ReturnType<typeof createParts>>;

/** What {@link start} opens and {@link stop} closes; null until it is open. */
interface StartedParts {
  notifications: NotificationSubscription | null;
  metricsServer: Awaited<ReturnType<typeof startMetricsServer>> | null;
}

/** Opens the database and constructs all parts, which {@link start} starts. */
async function createParts(config: Config, overrides: ServiceOverrides) {
  const { clock = Date.now, monotonicMs = () => performance.now() } = overrides;
  const log =
    overrides.log ??
    createLogger(
      config.logLevel,
      await createLogDestination(config.logFormat, readJournalStream()),
    );
  const database = overrides.database ?? (await openServiceDatabase(config, log));
  const { db } = database;
  const shared = { db, clock, monotonicMs, log };
  const { allowPrivateNetworks, limits } = config;
  if (allowPrivateNetworks) {
    log.warn(
      { event: 'private_networks_allowed' },
      'ALLOW_PRIVATE_NETWORKS=true: any client can make this service connect to private networks,' +
        ' and mints may use plain http; for development only',
    );
  }
  const mintPolicy = new MintPolicy(config);
  const metrics = config.metrics && new Metrics({ version: VERSION, mintPolicy });
  const processId = `${hostname()}-${process.pid}-${randomUUID()}`;
  // Signs the tokens of wallets, and keys the hashes of payers' addresses.
  const jwtSecret = config.jwtSecret ?? loadOrGenerateSecret(config.database.dataDir, 'jwt-secret');
  // The address of a reverse proxy that requests came through and TRUST_PROXY lacks, for the doctor and a gauge.
  let untrustedProxy: string | null = null;
  const getUntrustedProxy = () => untrustedProxy;

  const egress =
    overrides.egress ??
    createEgress({
      monotonicMs,
      allowPrivateNetworks,
      operatorUrls: [...mintPolicy.operatorMints, ...config.zaps.relays],
      fetchLimits: overrides.fetchLimits,
      onNetworkThreadStopped: ({ error, ...details }) => {
        metrics?.recordNetworkThreadStop();
        log.warn(
          { event: 'network_thread_stopped', ...details, err: error },
          'replacing the network thread, which was blocked or died',
        );
      },
    });
  const mints = createMintsModule({
    ...shared,
    policy: mintPolicy,
    egress,
    onRequestFinished: (request) => metrics?.recordMintRequest(request),
  });
  const zaps = await createZapsModule({
    ...shared,
    secretKey: config.zaps.secretKey,
    operatorRelays: config.zaps.relays,
    mintPolicy,
    maxReceiptsPerHour: limits.zapReceiptsPerRecipientPerHour,
    allowPrivateNetworks,
    egress,
  });
  const { alertTarget, publicOrigins: origins } = config;
  const alerts = alertTarget && {
    ...shared,
    send: (message: AlertMessage) => sendAlert(alertTarget, message),
    siteName: origins[0] ?? hostname(),
  };
  const treasurySealer = createTreasurySealer(config);
  if (alerts !== null) {
    // With a wrong secret, the service does not start.
    const check = createTreasuryCheck(db, treasurySealer);
    await checkAlert(alerts, 'treasury_secret_wrong', check);
  }
  const usernames = await createUsernamesModule({
    ...shared,
    recoveryIntervalMs: overrides.purchaseRecoveryIntervalMs,
    settings: config,
    mints,
    allowHttpMints: allowPrivateNetworks,
  });
  const notificationSealer = config.hasNotifications ? usernames.sealer : null;
  const quotes = createQuotesModule({
    ...shared,
    mints,
    zaps: zaps.receiptSigning,
    recordNotifications: notificationSealer && recordNotifications,
    operatorRange: { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat },
    limits,
    secret: jwtSecret,
    onQuoteCreated: (quote) => watcher.watchOrAnnounce(quote),
    onInvoiceFinished: (outcome) => metrics?.recordInvoiceRequest(outcome),
  });
  const watcher = new WatchCoordinator({
    ...shared,
    mints,
    getUntrustedProxy,
    processId,
    recording: quotes.recordingContext,
    announce: (quote) => quotes.announcer.add(quote),
    onQuotesChanged: (changes) => metrics?.recordQuoteChanges(changes),
    minPollIntervalMs: overrides.pollIntervalMs,
    scanIntervalMs: overrides.scanIntervalMs,
  });
  const recipients = new RecipientDirectory({
    ...shared,
    defaults: { mintUrl: config.defaultMintUrl, lockQuotes: config.defaultLockQuotes },
    membersOnly: config.membersOnly,
  });
  const notifications =
    notificationSealer !== null
      ? await createNotificationsModule({
          ...shared,
          sealer: notificationSealer,
          secretKey: config.notifySecretKey,
          operatorRelays: config.zaps.relays,
          getCollectUrl: () => config.web && `${publicOrigins.canonicalOrigin}/collect`,
          onSent: (kind, outcome) => metrics?.recordNotification(kind, outcome),
          translate: translateMessage,
          getPublicOrigin: () => publicOrigins.canonicalOrigin,
          allowPrivateNetworks,
          egress,
        })
      : null;
  const { fiatRateUrl, fiatCurrencies = [] } = config.web ?? {};
  const fiatRates =
    fiatRateUrl === undefined
      ? null
      : createFiatRates(fiatRateUrl, fiatCurrencies, { ...shared, fetch: egress.createFetch() });
  const started: StartedParts = { notifications: null, metricsServer: null };
  const readiness = new Readiness({
    areMigrationsApplied: () => areMigrationsApplied(db),
    isListening: () => started.notifications?.isConnected ?? false,
    isWritable: database.isWritable,
    monotonicMs,
  });
  const alertChecks = createAlertChecks({
    ...shared,
    database,
    readiness,
    mintInfoCache: mints.infoCache,
    defaultMintUrl: config.defaultMintUrl,
    sealer: treasurySealer,
  });
  const alertJob =
    alerts && createAlertJob(alerts, alertChecks, overrides.alertIntervalMs ?? 60_000);
  const optionalJobs = [usernames.recoveryJob, alertJob, fiatRates?.job ?? null];
  const jobs = [
    createMaintenanceJob(shared),
    createAuditLogJob(shared),
    ...optionalJobs.filter((job) => job !== null),
  ];
  const publicOrigins = new PublicOrigins(config.publicOrigins);
  const http = await createHttp(
    {
      ...shared,
      readiness,
      limits,
      publicOrigins,
      jwt: new JwtIssuer(jwtSecret, config.jwtSecretPrevious),
      verifyEvent: zaps.verifyEvent,
      recipients,
      mintPolicy,
      mintInfoCache: mints.infoCache,
      invoices: quotes.invoiceContext,
      descriptionTemplate: config.lnurlText,
      maxCommentLength: config.maxCommentLength,
      getZapPubkey: zaps.getZapPubkey,
      hasZaps: config.zaps.secretKey !== null,
      subscribers: quotes.subscribers,
      usernames: usernames.context,
      notifications: notifications?.context ?? null,
      recipientRelays: zaps.recipientRelays,
      profiles: config.web?.hasProfiles ? zaps.profiles : null,
      fiatRates,
      allowPrivateNetworks,
    },
    {
      trustProxy: config.trustProxy,
      web: config.web,
      socketTiming: overrides.socketTiming ?? {},
      observer: {
        onUntrustedProxy: (proxy) => {
          untrustedProxy = proxy;
        },
        onResponse: (response) => metrics?.recordResponse(response),
      },
    },
  );
  metrics?.addGauges({
    ...shared,
    readiness,
    getUntrustedProxy,
    readCounts: () => readDatabaseCounts(db, processId, clock(), notifications !== null),
    readDiskSpace: database.readDiskSpace,
    poolStats: database.poolStats,
    quoteSockets: http.quoteSockets,
    mintSockets: mints.socketSlots,
    watcher,
    limiter: mints.limiter,
    mintPolicy,
    operatorRelays: config.zaps.relays,
  });

  return {
    ...shared,
    config,
    database,
    ownsDatabase: overrides.database === undefined,
    metrics,
    egress,
    mints,
    zaps,
    quotes,
    watcher,
    recipients,
    notifications,
    jobs,
    readiness,
    publicOrigins,
    http,
    listen: overrides.listen ?? ((app) => listen(app, config.host, config.port)),
    started,
  };
}

async function openServiceDatabase({ database: location }: Config, log: Logger) {
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
