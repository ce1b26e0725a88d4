import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { Background } from './background.ts';
import type { Clock } from './clock.ts';
import { type Config, VERSION } from './config.ts';
import { isOpenToOthers } from './database/data-dir.ts';
import { type Database, openDatabase } from './database/database.ts';
import { keptSecret } from './database/generated-secret.ts';
import type { Listening } from './database/listen.ts';
import { Readiness } from './database/readiness.ts';
import { createHttp } from './http/create-http.ts';
import { listen } from './http/server.ts';
import { type Log, logOutput, openLog } from './log.ts';
import { Metrics } from './metrics/metrics.ts';
import { serveMetrics } from './metrics/metrics-server.ts';
import { createMints } from './mints/create-mints.ts';
import type { MintLimiterTiming } from './mints/route-limit.ts';
import type { FetchLimits } from './net/guarded-fetch.ts';
import { createQuotes } from './quotes/create-quotes.ts';
import {
  decodeIssued,
  decodeUpdates,
  ISSUED_CHANNEL,
  QUOTE_CHANNEL,
  RESCAN_CHANNEL,
} from './quotes/quote-channel.ts';
import { replayUpdates } from './quotes/update-log.ts';
import { ChangeSettings } from './recipients/change-settings.ts';
import { ADDRESS_CHANNEL, ALL_ADDRESSES, Recipients } from './recipients/recipients.ts';
import { PRUNE_INTERVAL_MS, pruneHistory } from './retention.ts';
import { Store } from './store.ts';
import { createUsernames } from './usernames/create-usernames.ts';
import { createWatcher } from './watcher/create-watcher.ts';
import { createZaps } from './zaps/create-zaps.ts';
import type { RelayTiming } from './zaps/relay-connection.ts';

/** While stopping, requests wait this long for mints. The command line stops the process after 10 s in all. */
const MINT_RESPONSE_DEADLINE_MS = 3_000;

/** While stopping, clients have this long to finish sending a request and to read the response. */
const CLIENT_DEADLINE_MS = 4_000;

export interface Surroundings {
  clock?: Clock;
  log?: Log;
  /** Opened by the caller, who closes it too. */
  database?: Database;
  socketAuthDeadlineMs?: number;
  socketHeartbeatMs?: number;
  pollGapMs?: number;
  mintTiming?: Partial<MintLimiterTiming>;
  monotonicMs?: () => number;
  fetchLimits?: Partial<FetchLimits>;
  scanIntervalMs?: number;
  relayTiming?: Partial<RelayTiming>;
}

/** The service, listening. */
export interface Service {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  url: string;
  /** The first of its public origins. */
  publicOrigin: string;
  /** Where Prometheus reads its metrics; null: nowhere. */
  metricsUrl: string | null;
  /**
   * Stops in order, within 10 s: is ready no longer, and leaves its mints to other processes; goes on
   * serving for `STOP_DELAY_SECONDS`; says goodbye to sockets; finishes requests; closes the database.
   */
  stop(): Promise<void>;
}

/**
 * Constructs every part once, and starts the service.
 *
 * @throws OperatorError where the database cannot be opened, and whatever keeps the port from it
 */
export async function startService(
  config: Config,
  surroundings: Surroundings = {},
): Promise<Service> {
  const { clock = Date.now, monotonicMs = () => performance.now() } = surroundings;
  const log = surroundings.log ?? openLog(config.logLevel, await logOutput(config.logFormat));
  const database = surroundings.database ?? (await openServiceDatabase(config, log));
  const store = new Store(database.db);
  const { allowPrivateNetworks, limits } = config;
  if (allowPrivateNetworks) {
    log.warn(
      { event: 'private_networks_allowed' },
      'ALLOW_PRIVATE_NETWORKS=true: strangers can make this service connect to private networks, and mints' +
        ' may be asked over plain http; for development only',
    );
  }
  const operatorMints = [...new Set([config.defaultMintUrl, config.usernames.mintUrl])];
  const operatorRelays = config.zaps.relays;
  const metrics = config.metrics && new Metrics({ version: VERSION, ownMints: operatorMints });
  const shared = { store, clock, monotonicMs, log };

  const mints = createMints({
    ...shared,
    store: store.mints,
    operatorMints,
    allowPrivateNetworks,
    fetchLimits: surroundings.fetchLimits ?? {},
    timing: surroundings.mintTiming ?? {},
    onFinished: (request) => metrics?.counters.mintRequestFinished(request),
  });
  const zaps = await createZaps({
    ...shared,
    ...config.zaps,
    allowPrivateNetworks,
    connect: mints.connectSocket,
    relayTiming: surroundings.relayTiming ?? {},
  });
  const secret = jwtSecret(config);
  const quotes = createQuotes({
    ...shared,
    mints,
    zaps: zaps.receipts,
    operatorRange: { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat },
    limits,
    secret,
    onIssued: (quote) => watcher.notice(quote),
    onTimed: (timing) => metrics?.counters.invoiceTimed(timing),
  });
  const processId = `${hostname()}-${process.pid}-${randomUUID()}`;
  const watcher = createWatcher({
    ...shared,
    mints,
    operatorMints,
    processId,
    recordObservations: quotes.recordObservations,
    announce: (quote) => quotes.announcer.add(quote),
    onNews: (news) => metrics?.counters.quotesChanged(news),
    pollGapMs: surroundings.pollGapMs,
    scanIntervalMs: surroundings.scanIntervalMs,
  });
  const recipients = new Recipients({
    store,
    defaults: { mintUrl: config.defaultMintUrl, lockQuotes: config.defaultLockQuotes },
    monotonicMs,
  });
  const usernames = await createUsernames({
    ...shared,
    settings: config,
    mints,
    allowHttpMints: allowPrivateNetworks,
  });
  const maintenance = new Background({
    work: async (signal) => {
      await pruneHistory(store, clock(), signal);
      await database.checkpoint();
    },
    intervalMs: PRUNE_INTERVAL_MS,
    onError: (error) =>
      log.warn(
        { event: 'database_maintenance_failed', err: error },
        'database maintenance failed; will retry',
      ),
  });

  let listening: Listening | null = null;
  const { subscribers, updateLog } = quotes;
  const startListening = async () => {
    listening = await database.listen({
      channels: {
        [QUOTE_CHANNEL]: (payload) => {
          for (const update of decodeUpdates(payload)) {
            updateLog.add(update, subscribers.tell(update.pubkey, update.quoteId));
          }
        },
        [ISSUED_CHANNEL]: (payload) => watcher.noticeFromElsewhere(decodeIssued(payload)),
        [RESCAN_CHANNEL]: () => watcher.rescan(),
        [ADDRESS_CHANNEL]: (address) => recipients.invalidate(address),
      },
      onGap: (sinceMs) => {
        recipients.invalidate(ALL_ADDRESSES);
        watcher.rescan();
        const onTold = updateLog.add;
        return replayUpdates(sinceMs, { events: store.events, subscribers, onTold, log });
      },
      onError: (error) =>
        log.error({ event: 'notification_failed', err: error }, 'a notification was not handled'),
      clock,
    });
  };
  const readiness = new Readiness({
    migrations: store.migrations,
    isListening: () => listening?.isConnected ?? false,
    isWritable: database.isWritable,
    monotonicMs,
  });
  const { app, publicHost, quoteSockets } = await createHttp({
    ...shared,
    readiness,
    version: VERSION,
    mintCounts: () => watcher.counts,
    onResponse: metrics && ((response) => metrics.counters.responseSent(response)),
    trustProxy: config.trustProxy,
    limits,
    lnurlText: config.lnurlText,
    maxCommentLength: config.maxCommentLength,
    zaps:
      zaps.pubkey === null
        ? null
        : {
            pubkey: zaps.pubkey,
            verifyEvent: zaps.verifyEvent,
            allowPrivateRelays: allowPrivateNetworks,
          },
    publicOrigins: config.publicOrigins,
    jwtSecret: secret,
    jwtSecretPrevious: config.jwtSecretPrevious,
    verifyEvent: zaps.verifyEvent,
    subscribers,
    socketAuthDeadlineMs: surroundings.socketAuthDeadlineMs,
    socketHeartbeatMs: surroundings.socketHeartbeatMs,
    recipients,
    recipientRelays: zaps.recipientRelays,
    changeSettings: new ChangeSettings(recipients, mints.infos, allowPrivateNetworks),
    issueInvoice: quotes.issueInvoice,
    purchaseUsername: usernames.purchaseUsername,
  });
  metrics?.watch({
    readiness,
    backlog: store.backlog,
    processId,
    poolUse: database.poolUse,
    quoteSockets,
    mintSockets: mints.socketSlots,
    watcher,
    limiter: mints.limiter,
    ownMints: operatorMints,
    ownRelays: operatorRelays,
    clock,
    monotonicMs,
    log,
  });

  let metricsServer: Awaited<ReturnType<typeof serveMetrics>> | null = null;
  const stop = async (stopDelayMs: number) => {
    readiness.stop();
    // At once, so that other processes take over the mints while this one still serves requests.
    const watcherStopped = watcher.stop();
    await delay(stopDelayMs);
    quoteSockets.close();
    // Accepts the connections that arrived meanwhile. Closing the listening socket would reset them.
    await nextTurn();
    const abortingMintRequests = setTimeout(() => void mints.close(), MINT_RESPONSE_DEADLINE_MS);
    const closingConnections = setTimeout(() => app.server.closeAllConnections(), CLIENT_DEADLINE_MS);
    await app.close();
    clearTimeout(abortingMintRequests);
    clearTimeout(closingConnections);
    await mints.close();
    await zaps.receiptDispatcher.stop();
    await Promise.all([quotes.announcer.stop(), watcherStopped]);
    await listening?.close();
    await usernames.stop();
    await Promise.all([updateLog.stop(), maintenance.stop()]);
    await Promise.all([metricsServer?.stop(), metrics?.idle()]);
    if (surroundings.database === undefined) {
      await database.close();
    }
    log.info({ event: 'stopped' }, 'nutpost has stopped');
  };
  try {
    metricsServer =
      config.metrics && metrics && (await serveMetrics({ ...config.metrics, metrics, log }));
    await startListening();
    const url = await listen(app, config.host, config.port);
    publicHost.listeningOn(Number(new URL(url).port));
    await watcher.start();
    zaps.receiptDispatcher.start();
    maintenance.start();
    usernames.start();
    readiness.serve();
    const { canonical: publicOrigin } = publicHost;
    const metricsUrl = metricsServer?.url ?? null;
    log.info({ event: 'listening', url, publicOrigin, metricsUrl }, 'nutpost is listening');
    return { url, publicOrigin, metricsUrl, stop: () => stop(config.stopDelayMs) };
  } catch (error) {
    await stop(0);
    throw error;
  }
}

/** Opens the database and reports what an operator should know about it. */
async function openServiceDatabase({ database }: Config, log: Log): Promise<Database> {
  // A broken connection to a server is replaced at once; a full disk needs a person.
  const failureLevel = database.kind === 'postgres' ? 'warn' : 'error';
  const opened = await openDatabase(
    database,
    (error) =>
      log[failureLevel](
        { event: 'database_unavailable', err: error },
        'a connection or a write to the database failed; trying again',
      ),
    (line) => log.info({ event: 'database_migration' }, line),
  );
  if (database.kind === 'sqlite') {
    warnIfOpenToOthers(database.dataDir, log);
  }
  return opened;
}

/**
 * Brings the database up to date without starting the service.
 *
 * @param onProgress told how far it is, in one line without its end
 */
export async function migrateDatabase(
  config: Config,
  onProgress: (line: string) => void,
): Promise<void> {
  const database = await openDatabase(config.database, () => undefined, onProgress);
  await database.close();
}

function warnIfOpenToOthers(dataDir: string, log: Log): void {
  if (isOpenToOthers(dataDir)) {
    log.warn(
      { event: 'data_dir_permissions', dataDir },
      `other users of this machine can access DATA_DIR or files in it; run: chmod -R go= ${dataDir}`,
    );
  }
}

function jwtSecret(config: Config): string {
  if (config.jwtSecret !== null) {
    return config.jwtSecret;
  }
  if (config.database.kind !== 'sqlite') {
    throw new Error('JWT_SECRET is required with DATABASE_URL');
  }
  return keptSecret(config.database.dataDir, 'jwt-secret');
}
