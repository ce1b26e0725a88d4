import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { loadEventSigner } from './nostr/event-signer.ts';
import { loadEventVerifier } from './nostr/event-verifier.ts';
import { JwtIssuer } from './http/jwt.ts';
import type { Config } from './config.ts';
import { isOpenToOthers } from './database/data-dir-access.ts';
import { type Database, openDatabase } from './database/database.ts';
import { keptSecret } from './database/generated-secret.ts';
import type { Listening } from './database/listen.ts';
import type { Clock } from './clock.ts';
import { SOCKET_AUTH_DEADLINE_MS } from './limits.ts';
import { QuoteSockets, SOCKET_HEARTBEAT_MS } from './http/api/quote-sockets.ts';
import { createApp } from './http/app.ts';
import { Authenticator } from './http/authenticate.ts';
import { PublicHost } from './http/public-host.ts';
import { listen } from './http/server.ts';
import { type Log, logOutput, openLog } from './log.ts';
import { Metrics } from './metrics/metrics.ts';
import { serveMetrics } from './metrics/metrics-server.ts';
import { MintAnomalies } from './mints/mint-anomalies.ts';
import { MintClient } from './mints/mint-client.ts';
import { MintInfoCache } from './mints/mint-info-cache.ts';
import { MintRateLimiter } from './mints/mint-rate-limiter.ts';
import { MINT_CONNECTION_LIMITS } from './mints/mint-subscription.ts';
import { QuoteCreator } from './mints/quote-creator.ts';
import type { MintLimiterTiming } from './mints/route-limit.ts';
import { type FetchLimits, GuardedFetch } from './net/guarded-fetch.ts';
import { guardedSocketConnector } from './net/guarded-socket.ts';
import { HostSlots } from './net/host-slots.ts';
import { ADDRESS_CHANNEL, ALL_ADDRESSES } from './recipients/address-channel.ts';
import {
  decodeIssued,
  decodeUpdates,
  ISSUED_CHANNEL,
  QUOTE_CHANNEL,
  RESCAN_CHANNEL,
} from './quotes/quote-channel.ts';
import { QuoteSubscribers } from './quotes/quote-subscribers.ts';
import type { RelayTiming } from './zaps/relay-connection.ts';
import { RelayPool } from './zaps/relay-pool.ts';
import { Store } from './store.ts';
import { createTreasury, refuseWrongSecret } from './usernames/create-treasury.ts';
import { quoteAnnouncer } from './quotes/announce-quotes.ts';
import { ChangeSettings } from './recipients/change-settings.ts';
import { InvoiceAdmission } from './quotes/invoice-admission.ts';
import { IssueInvoice } from './quotes/issue-invoice.ts';
import { PRUNE_INTERVAL_MS, pruneHistory } from './prune-history.ts';
import { PurchaseUsername } from './usernames/purchase-username.ts';
import { QuoteWriter } from './quotes/quote-writer.ts';
import { ReadPayment } from './usernames/read-payment.ts';
import { Readiness } from './database/readiness.ts';
import { RecipientRelays } from './zaps/recipient-relays.ts';
import { Recipients } from './recipients/recipients.ts';
import { RecordObservations } from './quotes/record-observations.ts';
import { replayUpdates } from './quotes/replay-updates.ts';
import { SETTLE_INTERVAL_MS } from './usernames/settle-purchases.ts';
import { openUpdateLog } from './quotes/update-log.ts';
import { ZapReceipts } from './zaps/zap-receipts.ts';
import { VERSION } from './version.ts';
import { Background } from './background.ts';
import { MintWatcher } from './watcher/mint-watcher.ts';
import { POLL_GAP_MS } from './watcher/quote-poller.ts';
import { QuoteWatcher, SCAN_INTERVAL_MS } from './watcher/quote-watcher.ts';
import { ReceiptDispatcher } from './zaps/receipt-dispatcher.ts';

/** At the end, so long do requests under way wait for mints; the command line waits for 10 s in all. */
const LAST_ANSWERS_MS = 3_000;

/** At the end, so long may clients take to send the rest of a request and to read its answer. */
const LAST_REQUESTS_MS = 4_000;

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
  const clock = surroundings.clock ?? Date.now;
  const monotonicMs = surroundings.monotonicMs ?? (() => performance.now());
  const log = surroundings.log ?? openLog(config.logLevel, await logOutput(config.logFormat));
  // A broken connection to a server is replaced at once; a full disk needs a person.
  const failureLevel = config.database.kind === 'postgres' ? 'warn' : 'error';
  const database =
    surroundings.database ??
    (await openDatabase(
      config.database,
      (error) =>
        log[failureLevel](
          { event: 'database_unavailable', err: error },
          'a connection or a write to the database failed; trying again',
        ),
      (line) => log.info(line),
    ));
  const store = new Store(database.db);
  if (surroundings.database === undefined && config.database.kind === 'sqlite') {
    warnIfOpenToOthers(config.database.dataDir, log);
  }

  if (config.allowPrivateNetworks) {
    log.warn(
      'ALLOW_PRIVATE_NETWORKS=true: strangers can make this service connect to private networks, and mints' +
        ' may be asked over plain http; for development only',
    );
  }
  const ownMints = [...new Set([config.defaultMintUrl, config.usernames.mintUrl])];
  const metrics = config.metrics && new Metrics({ version: VERSION, ownMints });
  let metricsServer: Awaited<ReturnType<typeof serveMetrics>> | null = null;
  const guard = { allowPrivateNetworks: config.allowPrivateNetworks };
  const connect = guardedSocketConnector(guard);
  const anomalies = new MintAnomalies(log);
  const limiter = new MintRateLimiter({
    store: store.mints,
    monotonicMs,
    timing: surroundings.mintTiming ?? {},
    onFinished: (request) => metrics?.counters.mintRequestFinished(request),
    log,
  });
  // Lanes, each with its own bound on requests: a flood of payers must not hold up the polls.
  const lane = {
    ...guard,
    trustedOrigins: ownMints.map((mintUrl) => new URL(mintUrl).origin),
    limits: surroundings.fetchLimits ?? {},
  };
  const payersFetch = new GuardedFetch(lane);
  const pollsFetch = new GuardedFetch(lane);
  const treasuryFetch = new GuardedFetch(lane);
  const mints = new MintClient({ fetch: payersFetch, clock, limiter });
  const polls = new MintClient({ fetch: pollsFetch, clock, limiter });
  const infos = new MintInfoCache({
    client: mints,
    recall: (mintUrl) => store.mints.recallInfo(mintUrl),
    remember: (mintUrl, info) => store.mints.rememberInfo(mintUrl, info, clock()),
    monotonicMs,
    log,
  });

  const { secretKey, relays } = config.zaps;
  const signer = secretKey === null ? null : await loadEventSigner(secretKey);
  const allowPrivateRelays = config.allowPrivateNetworks;
  const recordObservations = new RecordObservations({
    store,
    anomalies,
    zaps: signer && {
      receipts: new ZapReceipts({ signer, relays, allowPrivateRelays, log }),
      onReceipts: () => receiptDispatcher.notice(),
    },
    clock,
    log,
  });
  const verifyEvent = await loadEventVerifier();
  const processId = `${hostname()}-${process.pid}-${randomUUID()}`;
  const relayPool = new RelayPool({
    connect,
    signer,
    verifyEvent,
    clock,
    log,
    timing: surroundings.relayTiming ?? {},
  });
  const receiptDispatcher = new ReceiptDispatcher({
    deliveries: store.deliveries,
    relayPool,
    ownRelays: relays,
    ...guard,
    clock,
    log,
  });
  const announcer = quoteAnnouncer(store, log);
  const mintSockets = new HostSlots({ ...guard, ...MINT_CONNECTION_LIMITS, trusted: ownMints });
  const watcher = new QuoteWatcher({
    quotes: store.watch,
    ownMints,
    leases: store.leases,
    processId,
    watchMint: (mintUrl) =>
      new MintWatcher({
        mintUrl,
        quotes: store.watch,
        infos,
        client: polls,
        limiter,
        connect,
        slots: mintSockets,
        anomalies,
        recordObservations,
        onNews: (news) => metrics?.counters.quotesChanged(news),
        pollGapMs: surroundings.pollGapMs ?? POLL_GAP_MS,
        clock,
        monotonicMs,
        log,
      }),
    announce: (quote) => announcer.add(quote),
    scanIntervalMs: surroundings.scanIntervalMs ?? SCAN_INTERVAL_MS,
    monotonicMs,
    log,
  });

  const pruning = new Background({
    work: async (signal) => {
      await pruneHistory(store, clock(), signal);
      await database.checkpoint();
    },
    intervalMs: PRUNE_INTERVAL_MS,
    onError: (error) => log.warn({ err: error }, 'database maintenance failed; will retry'),
  });

  const recipients = new Recipients({
    store,
    defaults: { mintUrl: config.defaultMintUrl, lockQuotes: config.defaultLockQuotes },
    monotonicMs,
  });
  const secret = jwtSecret(config);
  const issueInvoice = new IssueInvoice({
    infos,
    operatorRange: { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat },
    mints: new QuoteCreator({ client: mints, limiter, monotonicMs, log }),
    quotes: new QuoteWriter(store.quotes),
    admission: new InvoiceAdmission({
      limiter,
      quotes: store.quotes,
      limits: config.limits,
      secret,
      patienceMs: limiter.payerPatienceMs,
      clock,
      monotonicMs,
    }),
    onIssued: (quote) => watcher.notice(quote),
    onTimed: (timing) => metrics?.counters.invoiceTimed(timing),
    monotonicMs,
    clock,
    log,
  });
  const changeSettings = new ChangeSettings(recipients, infos, config.allowPrivateNetworks);

  const selling = { config, store, limiter, clock, monotonicMs, log };
  const treasury = createTreasury({ ...selling, fetch: treasuryFetch });
  await refuseWrongSecret(treasury?.sealer ?? null, store);
  const purchaseUsername = new PurchaseUsername({
    offer: config.usernames,
    store,
    treasury: treasury && {
      ...treasury,
      readPayment: new ReadPayment({
        mintUrl: config.usernames.mintUrl,
        infos,
        keysets: treasury.keysets,
        allowHttpMints: config.allowPrivateNetworks,
        log,
      }),
    },
    clock,
  });
  const settling = new Background({
    work: async () => treasury?.purchases.runDue(),
    intervalMs: SETTLE_INTERVAL_MS,
    onError: (error) => log.warn({ err: error }, 'purchase recovery failed; will retry'),
  });

  const publicHost = new PublicHost(config.publicOrigins);
  const jwt = new JwtIssuer(secret, config.jwtSecretPrevious);
  const recipientRelays = new RecipientRelays({
    pool: relayPool,
    relays,
    allowPrivate: allowPrivateRelays,
    monotonicMs,
  });
  const authenticator = new Authenticator({ verifyEvent, jwt, publicHost, clock });
  const subscribers = new QuoteSubscribers(config.limits.socketsPerKey);
  const updateLog = openUpdateLog(store.events, clock, log);
  const onTold = updateLog.add;
  let listening: Listening | null = null;
  const startListening = async () => {
    listening = await database.listen({
      channels: {
        [QUOTE_CHANNEL]: (payload) => {
          for (const update of decodeUpdates(payload)) {
            onTold(update, subscribers.tell(update.pubkey, update.quoteId));
          }
        },
        [ISSUED_CHANNEL]: (payload) => watcher.noticeFromElsewhere(decodeIssued(payload)),
        [RESCAN_CHANNEL]: () => watcher.rescan(),
        [ADDRESS_CHANNEL]: (address) => recipients.invalidate(address),
      },
      onGap: (sinceMs) => {
        recipients.invalidate(ALL_ADDRESSES);
        watcher.rescan();
        return replayUpdates(sinceMs, { events: store.events, subscribers, onTold, log });
      },
      onError: (error) =>
        log.error({ event: 'notification_failed', err: error }, 'a notification was not handled'),
      clock,
    });
  };
  const quoteSockets = new QuoteSockets({
    authenticator,
    subscribers,
    publicHost,
    limits: config.limits,
    authDeadlineMs: surroundings.socketAuthDeadlineMs ?? SOCKET_AUTH_DEADLINE_MS,
    heartbeatMs: surroundings.socketHeartbeatMs ?? SOCKET_HEARTBEAT_MS,
    monotonicMs,
    log,
  });
  const readiness = new Readiness({
    migrations: store.migrations,
    isListening: () => listening?.isConnected ?? false,
    isWritable: database.isWritable,
    monotonicMs,
  });
  const app = await createApp({
    log,
    clock,
    readiness,
    version: VERSION,
    mintCounts: () => watcher.counts,
    onResponse: metrics && ((response) => metrics.counters.responseSent(response)),
    monotonicMs,
    trustProxy: config.trustProxy,
    limits: config.limits,
    lnurlText: config.lnurlText,
    maxCommentLength: config.maxCommentLength,
    zaps: signer && { pubkey: signer.pubkey, verifyEvent, allowPrivateRelays },
    publicHost,
    authenticator,
    jwt,
    store,
    recipients,
    recipientRelays,
    changeSettings,
    issueInvoice,
    purchaseUsername,
    quoteSockets,
  });

  metrics?.watch({
    readiness,
    backlog: store.backlog,
    processId,
    poolUse: database.poolUse,
    quoteSockets,
    mintSockets,
    watcher,
    limiter,
    ownMints,
    ownRelays: relays,
    clock,
    monotonicMs,
    log,
  });

  const leaveMints = () =>
    Promise.all([payersFetch.close(), pollsFetch.close(), treasuryFetch.close()]);
  const stop = async (stopDelayMs: number) => {
    readiness.stop();
    // At once, so that others see payments that are made meanwhile; what is still issued here they are told.
    const mintsLeft = watcher.stop();
    await delay(stopDelayMs);
    quoteSockets.close();
    // Accepts the connections that arrived meanwhile. The end of the listening socket would reset them.
    await nextTurn();
    const givingUp = setTimeout(() => void leaveMints(), LAST_ANSWERS_MS);
    const hangingUp = setTimeout(() => app.server.closeAllConnections(), LAST_REQUESTS_MS);
    await app.close();
    clearTimeout(givingUp);
    clearTimeout(hangingUp);
    // What a mint has not answered by now is asked again after the next start.
    await leaveMints();
    await receiptDispatcher.stop();
    await Promise.all([announcer.stop(), mintsLeft]);
    await listening?.close();
    await Promise.all([settling.stop(), treasury?.purchases.idle()]);
    await Promise.all([updateLog.stop(), pruning.stop()]);
    await Promise.all([metricsServer?.stop(), metrics?.idle()]);
    if (surroundings.database === undefined) {
      await database.close();
    }
    log.info('nutpost has stopped');
  };
  try {
    metricsServer =
      config.metrics && metrics && (await serveMetrics({ ...config.metrics, metrics, log }));
    await startListening();
    const url = await listen(app, config.host, config.port);
    publicHost.listeningOn(Number(new URL(url).port));
    await watcher.start();
    receiptDispatcher.start();
    pruning.start();
    settling.start();
    readiness.serve();
    const { canonical: publicOrigin } = publicHost;
    const metricsUrl = metricsServer?.url ?? null;
    log.info({ url, publicOrigin, metricsUrl }, 'nutpost is listening');
    return { url, publicOrigin, metricsUrl, stop: () => stop(config.stopDelayMs) };
  } catch (error) {
    await stop(0);
    throw error;
  }
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
