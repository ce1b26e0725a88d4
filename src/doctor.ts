import { loadEventSigner } from './auth/event-signer.ts';
import { ReachProof } from './auth/reach-proof.ts';
import { askService } from './commands/ask-service.ts';
import type { Terminal } from './commands/command.ts';
import { databaseFacts, parseDatabaseFacts } from './commands/database-facts.ts';
import {
  type Config,
  ConfigError,
  type Environment,
  givenNames,
  readConfig,
  SETTING_NAMES,
} from './config.ts';
import type { Clock } from './domain/clock.ts';
import { OperatorError } from './domain/errors.ts';
import { unknownSettings } from './domain/unknown-settings.ts';
import { Sealer } from './ecash/seal.ts';
import { openLog } from './log.ts';
import { MintAnomalies } from './mint/mint-anomalies.ts';
import { MintClient } from './mint/mint-client.ts';
import { tryToListen } from './net/free-port.ts';
import { GuardedFetch } from './net/guarded-fetch.ts';
import { guardedSocketConnector } from './net/guarded-socket.ts';
import { lookUpName } from './net/look-up-name.ts';
import { OwnFetch } from './net/own-fetch.ts';
import { type DataDirFacts, examineDataDir } from './store/data-dir-facts.ts';
import { DataDirInUseError } from './store/data-dir-lock.ts';
import { openToLook, reasonOf, sqlStateOf } from './store/database.ts';
import type { ExaminedSubjects } from './store/examination-store.ts';
import { hasKeptSecret, keptSecret } from './store/generated-secret.ts';
import { TimeStyleError } from './store/server.ts';
import { hearingTimes, ToldTimes } from './usecases/diagnose/clock.ts';
import type { DatabaseLook } from './usecases/diagnose/database.ts';
import { type Diagnosis, type DiagnosisPlan, diagnose } from './usecases/diagnose/diagnose.ts';
import { lookInside, type SeenDatabase } from './usecases/diagnose/look-at-database.ts';
import type { ListeningPlace } from './usecases/diagnose/reach.ts';
import { unknown, wrongSettings } from './usecases/diagnose/settings.ts';

/** Beside a service that is well, its answer takes milliseconds. */
const SERVICE_ANSWERS_WITHIN_MS = 10_000;

/**
 * Looks at everything that a service with these settings needs: beside a running one, or before the first
 * start. Changes nothing, and makes no file.
 *
 * @param onProgress told how far it is, in one line without its end: what is silent takes up to 20 s
 * @param env where the settings are read from; absent: the environment of this process
 */
export async function examineSetup(
  onProgress: (line: string) => void,
  env?: Environment,
): Promise<Diagnosis> {
  const names = givenNames(env);
  const unknownNames = unknownSettings(names, SETTING_NAMES);
  let config: Config;
  try {
    config = readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) {
      const findings = [...wrongSettings(error.problems), ...unknownNames.map(unknown)];
      return [{ area: 'settings', findings }];
    }
    throw error;
  }
  const givenCount = names.filter((name) => SETTING_NAMES.includes(name)).length;
  return examineService(config, { givenCount, unknown: unknownNames }, onProgress);
}

async function examineService(
  config: Config,
  names: Pick<DiagnosisPlan['settings'], 'givenCount' | 'unknown'>,
  onProgress: (line: string) => void,
): Promise<Diagnosis> {
  const clock = Date.now;
  const { database } = config;
  const dataDir = database.kind === 'embedded' ? examineDataDir(database.dataDir) : null;
  const jwt = lookAtSecret(dataDir, config.jwtSecret, 'jwt-secret');
  const treasury = lookAtSecret(dataDir, config.treasurySecret, 'treasury-secret');
  const plan = await planOf(config, names, dataDir, { jwt, treasury });
  const { allowPrivateNetworks } = config;
  const fetch = new GuardedFetch({ allowPrivateNetworks });
  const ownFetch = new OwnFetch();
  const times = new ToldTimes();
  const connect = guardedSocketConnector({ allowPrivateNetworks });
  const anomalies = new MintAnomalies(openLog('silent'));
  try {
    return await diagnose(plan, {
      lookAtDatabase: () => lookAtDatabase(config, dataDir, clock),
      lookUpName: (name) => lookUpName(name),
      mints: {
        client: new MintClient({ fetch: hearingTimes(fetch, times, clock), anomalies, clock }),
        connect,
        clock,
      },
      relays: { connect, times, clock },
      origins: {
        fetch: ownFetch,
        // The operator has named where it goes, and a proxy may be near.
        connect: guardedSocketConnector({ allowPrivateNetworks: true }),
        reachProof: jwt.secret === null ? null : new ReachProof(jwt.secret),
        tryToListen,
        clock,
      },
      times,
      onProgress,
    });
  } finally {
    await Promise.all([fetch.close(), ownFetch.close()]);
  }
}

async function planOf(
  config: Config,
  names: Pick<DiagnosisPlan['settings'], 'givenCount' | 'unknown'>,
  dataDir: DataDirFacts | null,
  kept: { jwt: SecretLook; treasury: SecretLook },
): Promise<DiagnosisPlan> {
  const { zaps, usernames, publicOrigins } = config;
  const { secret: treasurySecret } = kept.treasury;
  const hasZapKey = zaps.secretKey !== null;
  const secrets = [config.jwtSecret, config.treasurySecret, zaps.secretKey];
  const given = secrets.filter((secret) => secret !== null);
  const localOrigins = config.port === 0 ? [] : [`http://localhost:${config.port}`];
  return {
    settings: {
      ...names,
      publicOrigins,
      allowPrivateNetworks: config.allowPrivateNetworks,
      hasZapKey,
      zapRelays: zaps.relays,
      hasPreviousJwtSecret: config.jwtSecretPrevious !== null,
      isSecretShared: new Set(given).size < given.length,
      secretTroubles: [kept.jwt, kept.treasury].flatMap(({ trouble }) => trouble ?? []),
    },
    database: {
      dataDir,
      zapPubkey: zaps.secretKey === null ? null : (await loadEventSigner(zaps.secretKey)).pubkey,
      treasuryKeyId: treasurySecret === null ? null : new Sealer(treasurySecret).keyId,
    },
    mints: {
      defaultMintUrl: config.defaultMintUrl,
      defaultLockQuotes: config.defaultLockQuotes,
      sendable: { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat },
      paidNamesMintUrl: (usernames.priceSat ?? 0) > 0 ? usernames.mintUrl : null,
    },
    relays: { relays: zaps.relays, hasZapKey },
    origins: {
      origins: publicOrigins.length === 0 ? localOrigins : publicOrigins,
      local: listeningPlace(config),
      metrics: config.metrics && listeningPlace(config.metrics),
      sellsNames: (usernames.priceSat ?? 0) > 0,
    },
  };
}

/** A secret, or why there is none that can be used, as a sentence without its full stop. */
interface SecretLook {
  /** Null also where a first start has not made it yet, or where it is not ours to read. */
  secret: string | null;
  trouble: string | null;
}

function lookAtSecret(
  dataDir: DataDirFacts | null,
  given: string | null,
  name: 'jwt-secret' | 'treasury-secret',
): SecretLook {
  if (given !== null || dataDir === null) {
    return { secret: given, trouble: null };
  }
  const isThere = dataDir.trouble === null && hasKeptSecret(dataDir.path, name);
  try {
    return { secret: isThere ? keptSecret(dataDir.path, name) : null, trouble: null };
  } catch (error) {
    return { secret: null, trouble: firstLine(error) };
  }
}

/** Of what was thrown, what fits a finding. */
function firstLine(error: unknown): string {
  const [line = ''] = reasonOf(error).split('\n');
  return line.replace(/\.$/, '');
}

/** Null where the system chooses the port. */
function listeningPlace({ host, port }: { host: string; port: number }): ListeningPlace | null {
  return port === 0 ? null : { host, port, url: `http://${reachableHost(host)}:${port}` };
}

/** Where a service that listens on a host is reached from this machine. */
function reachableHost(host: string): string {
  switch (host) {
    case '0.0.0.0':
      return '127.0.0.1';
    case '::':
      return '[::1]';
    default:
      return host.includes(':') ? `[${host}]` : host;
  }
}

/** Looks by itself, or through the service that has the database. */
async function lookAtDatabase(
  config: Config,
  dataDir: DataDirFacts | null,
  clock: Clock,
): Promise<SeenDatabase> {
  const { database: location, defaultMintUrl: mintUrl, zaps } = config;
  const subjects = { mintUrl, relays: zaps.relays };
  if (dataDir !== null && (dataDir.trouble !== null || dataDir.owner === 'others')) {
    const told = await askAboutDatabase(dataDir.path, subjects, clock);
    return told.look.outcome === 'seen' ? told : unseen({ outcome: 'closed' }, clock);
  }
  if (dataDir?.hasDatabase === false) {
    return unseen({ outcome: 'absent' }, clock);
  }
  try {
    const database = await openToLook(location, () => undefined);
    return await lookInside(database, subjects, { isServer: dataDir === null, clock });
  } catch (error) {
    if (dataDir !== null && error instanceof DataDirInUseError) {
      return askAboutDatabase(dataDir.path, subjects, clock);
    }
    const reason = firstLine(error);
    if (error instanceof OperatorError && !(error instanceof TimeStyleError)) {
      return unseen({ outcome: 'unreachable', reason }, clock);
    }
    // Whatever is wrong with it, the rest is looked at.
    return unseen({ outcome: 'failed', reason, code: sqlStateOf(error) }, clock);
  }
}

async function askAboutDatabase(
  dataDir: string,
  { mintUrl, relays }: ExaminedSubjects,
  clock: Clock,
): Promise<SeenDatabase> {
  const nobody: Terminal = {
    write: async () => undefined,
    progress: () => undefined,
    input: null,
    signal: AbortSignal.timeout(SERVICE_ANSWERS_WITHIN_MS),
  };
  const askedAtMs = clock();
  const argv = [databaseFacts.name, mintUrl, ...relays];
  const { stdout } = await askService(dataDir, argv, nobody).catch((error: unknown) => {
    if (error instanceof OperatorError || nobody.signal.aborted) {
      return { stdout: '' };
    }
    throw error;
  });
  const facts = parseDatabaseFacts(stdout);
  return facts === null
    ? unseen({ outcome: 'unreachable', reason: SILENT_SERVICE }, clock)
    : { look: { outcome: 'seen', facts }, isHeard: null, askedAtMs, heardAtMs: clock() };
}

const SILENT_SERVICE =
  'Another nutpost process has the database, and does not answer through its control socket: it is starting,' +
  ' stopping, or of an older version';

function unseen(look: DatabaseLook, clock: Clock): SeenDatabase {
  return { look, isHeard: null, askedAtMs: clock(), heardAtMs: clock() };
}
