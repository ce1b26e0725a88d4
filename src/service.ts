import { loadEventVerifier } from './auth/event-verifier.ts';
import { JwtIssuer } from './auth/jwt.ts';
import type { Config } from './config.ts';
import type { Clock } from './domain/clock.ts';
import { SOCKET_AUTH_DEADLINE_MS } from './domain/limits.ts';
import { QuoteSockets } from './http/api/quote-socket.ts';
import { createApp } from './http/app.ts';
import { Authenticator } from './http/authenticate.ts';
import { PublicHost } from './http/public-host.ts';
import { listen } from './http/server.ts';
import { type Log, openLog } from './log.ts';
import { MintClient } from './mint/mint-client.ts';
import { MintInfoCache } from './mint/mint-info-cache.ts';
import { MintSubscription } from './mint/mint-subscription.ts';
import { PacedMintClient } from './mint/paced-mint-client.ts';
import { POLL_GAP_MS, RequestBudget } from './mint/request-budget.ts';
import { type FetchLimits, GuardedFetch } from './net/guarded-fetch.ts';
import { guardedSocketConnector } from './net/guarded-socket.ts';
import { QuoteListener } from './notifications/quote-listener.ts';
import { QuoteSubscribers } from './notifications/quote-subscribers.ts';
import { type Database, openDatabase } from './store/database.ts';
import { keptSecret } from './store/generated-secret.ts';
import { Store } from './store/store.ts';
import { ChangeSettings } from './usecases/change-settings.ts';
import { IssueInvoice } from './usecases/issue-invoice.ts';
import { PaymentTerms } from './usecases/payment-terms.ts';
import { Recipients } from './usecases/recipients.ts';
import { RecordObservations } from './usecases/record-observations.ts';
import { MintWatcher } from './watcher/mint-watcher.ts';
import { PollRound } from './watcher/poll-round.ts';
import { QuoteWatcher, SCAN_INTERVAL_MS } from './watcher/quote-watcher.ts';

/** At the end, so long do requests under way wait for mints; the command line waits for 10 s in all. */
const LAST_ANSWERS_MS = 3_000;

/** At the end, so long may clients take to send the rest of a request and to read its answer. */
const LAST_REQUESTS_MS = 4_000;

/** What a test may put in the place of the real thing. */
export interface Surroundings {
  clock?: Clock;
  log?: Log;
  /** Opened by the caller, who closes it too. */
  database?: Database;
  socketAuthDeadlineMs?: number;
  pollGapMs?: number;
  fetchLimits?: Partial<FetchLimits>;
  scanIntervalMs?: number;
}

/** The service, listening. */
export interface Service {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  url: string;
  /** The first of its public origins. */
  publicOrigin: string;
  /** Stops in order: says goodbye to sockets, finishes requests, records what was heard. */
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
  const log = surroundings.log ?? openLog(config.logLevel);
  const database =
    surroundings.database ??
    (await openDatabase(config.database, (error) =>
      log.warn({ err: error }, 'a connection to the database broke'),
    ));
  const store = new Store(database.db);

  const guard = { allowPrivateNetworks: config.allowPrivateNetworks };
  const connect = guardedSocketConnector(guard);
  const budget = new RequestBudget({ pollGapMs: surroundings.pollGapMs ?? POLL_GAP_MS });
  const pacedClient = (fetch: GuardedFetch) =>
    new PacedMintClient({ client: new MintClient({ fetch, clock }), budget, clock, log });
  // Two lanes, each with its own bound on requests: a flood of payers must not hold up the polls.
  const limits = surroundings.fetchLimits ?? {};
  const payersFetch = new GuardedFetch({ ...guard, limits });
  const pollsFetch = new GuardedFetch({ ...guard, limits });
  const mints = pacedClient(payersFetch);
  const polls = pacedClient(pollsFetch);
  const infos = new MintInfoCache({
    client: mints,
    recall: (mintUrl) => store.mints.recallInfo(mintUrl),
    remember: (mintUrl, info) => store.mints.rememberInfo(mintUrl, info, clock()),
    clock,
    logger: log,
  });

  const recordObservations = new RecordObservations(store, clock, log);
  const watcher = new QuoteWatcher({
    quotes: store.quotes,
    watchMint: (mintUrl) =>
      new MintWatcher({
        mintUrl,
        quotes: store.quotes,
        infos,
        pollRound: new PollRound(mintUrl, polls, clock),
        recordObservations,
        openSubscription: (onObservations) =>
          new MintSubscription({ mintUrl, connect, onObservations, clock, logger: log }),
        clock,
        log,
      }),
    scanIntervalMs: surroundings.scanIntervalMs ?? SCAN_INTERVAL_MS,
    clock,
    log,
  });

  const recipients = new Recipients(store.users, {
    mintUrl: config.defaultMintUrl,
    lockQuotes: config.defaultLockQuotes,
  });
  const paymentTerms = new PaymentTerms(infos, {
    minMsat: config.minSendableMsat,
    maxMsat: config.maxSendableMsat,
  });
  const issueInvoice = new IssueInvoice({
    terms: paymentTerms,
    mints,
    quotes: store.quotes,
    onIssued: (mintUrl, quoteId) => watcher.notice(mintUrl, quoteId),
    clock,
    log,
  });
  const changeSettings = new ChangeSettings(recipients, infos, config.allowPrivateNetworks);

  const publicHost = new PublicHost(config.publicOrigins);
  const jwt = new JwtIssuer(jwtSecret(config), config.jwtSecretPrevious);
  const verifyEvent = await loadEventVerifier();
  const authenticator = new Authenticator({ verifyEvent, jwt, publicHost, clock });
  const subscribers = new QuoteSubscribers();
  const quoteListener = new QuoteListener(database.listen, subscribers);
  const quoteSockets = new QuoteSockets({
    authenticator,
    subscribers,
    publicHost,
    authDeadlineMs: surroundings.socketAuthDeadlineMs ?? SOCKET_AUTH_DEADLINE_MS,
    log,
  });
  const app = await createApp({
    log,
    clock,
    trustProxy: config.trustProxy,
    lnurlText: config.lnurlText,
    publicHost,
    authenticator,
    jwt,
    store,
    recipients,
    changeSettings,
    paymentTerms,
    issueInvoice,
    quoteSockets,
  });

  const leaveMints = () => Promise.all([payersFetch.close(), pollsFetch.close()]);
  const stop = async () => {
    quoteSockets.close();
    const givingUp = setTimeout(() => void leaveMints(), LAST_ANSWERS_MS);
    const hangingUp = setTimeout(() => app.server.closeAllConnections(), LAST_REQUESTS_MS);
    await app.close();
    clearTimeout(givingUp);
    clearTimeout(hangingUp);
    // What a mint has not answered by now is asked again after the next start.
    await leaveMints();
    await watcher.stop();
    await quoteListener.stop();
    if (surroundings.database === undefined) {
      await database.close();
    }
    log.info('nutpost has stopped');
  };
  try {
    await quoteListener.start();
    const url = await listen(app, config.host, config.port);
    publicHost.listeningOn(Number(new URL(url).port));
    watcher.start();
    log.info({ url, publicOrigin: publicHost.canonical }, 'nutpost is listening');
    return { url, publicOrigin: publicHost.canonical, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Brings the database up to date without starting the service. */
export async function migrateDatabase(config: Config): Promise<void> {
  const database = await openDatabase(config.database, () => undefined);
  await database.close();
}

function jwtSecret(config: Config): string {
  if (config.jwtSecret !== null) {
    return config.jwtSecret;
  }
  if (config.database.kind !== 'embedded') {
    throw new Error('JWT_SECRET is required with DATABASE_URL');
  }
  return keptSecret(config.database.dataDir);
}
