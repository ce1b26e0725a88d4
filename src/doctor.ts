import path from 'node:path';
import { loadEventSigner } from './auth/event-signer.ts';
import { askService } from './commands/ask-service.ts';
import type { Terminal } from './commands/command.ts';
import { databaseFacts } from './commands/database-facts.ts';
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
import { type Finding, ok, problem } from './domain/finding.ts';
import { unknownSettings } from './domain/unknown-settings.ts';
import { MintClient } from './mint/mint-client.ts';
import { GuardedFetch } from './net/guarded-fetch.ts';
import { guardedSocketConnector } from './net/guarded-socket.ts';
import { DataDirInUseError } from './store/data-dir-lock.ts';
import { dataDirObstacle } from './store/data-dir-obstacle.ts';
import { type DatabaseLocation, openToLook, reasonOf } from './store/database.ts';
import { hasDatabase } from './store/embedded.ts';
import type { DatabaseFacts } from './store/examination-store.ts';
import { Store } from './store/store.ts';
import { checkingClocks } from './usecases/diagnose/clock.ts';
import {
  type DatabaseExamination,
  examineEmbedded,
  examineServer,
} from './usecases/diagnose/database.ts';
import { checkMints } from './usecases/diagnose/mints.ts';
import { checkOrigins } from './usecases/diagnose/origins.ts';
import { checkRelays } from './usecases/diagnose/relays.ts';
import {
  checkSettings,
  invalidSettings,
  unknownSettingFindings,
} from './usecases/diagnose/settings.ts';

/**
 * Checks everything that a service with these settings needs, beside a running one or before the first start.
 * Changes nothing and creates no file.
 *
 * @param onProgress receives lines for a person who waits, without line ends
 * @param env the settings; by default the environment of this process
 */
export async function examineSetup(
  onProgress: (line: string) => void,
  env?: Environment,
): Promise<Finding[]> {
  const names = givenNames(env);
  const unknown = unknownSettingFindings(unknownSettings(names, SETTING_NAMES));
  let config: Config;
  try {
    config = readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) {
      return [...invalidSettings(error.problems), ...unknown];
    }
    throw error;
  }
  const secrets = [config.jwtSecret, config.treasurySecret, config.zaps.secretKey];
  const settings = checkSettings({
    ...config,
    givenCount: names.filter((name) => SETTING_NAMES.includes(name)).length,
    secrets: secrets.filter((secret) => secret !== null),
  });
  onProgress('Checking; a host that does not answer takes up to 20 s');
  return [...settings, ...unknown, ...(await examineConnections(config, Date.now))];
}

/** Checks everything that is outside of this process. */
async function examineConnections(config: Config, clock: Clock): Promise<Finding[]> {
  const { zaps, usernames, allowPrivateNetworks, publicOrigins, port } = config;
  const database = await examineDatabase(config.database, config.defaultMintUrl, clock);
  const signer = zaps.secretKey === null ? null : await loadEventSigner(zaps.secretKey);
  const fetch = new GuardedFetch({ allowPrivateNetworks });
  // The operator chose the origins, and a proxy may have a private address.
  const originsFetch = new GuardedFetch({ allowPrivateNetworks: true });
  const clockFindings: Finding[] = [];
  const mintClient = new MintClient({
    fetch: checkingClocks(fetch, clockFindings, clock),
    clock,
  });
  try {
    const [mints, relays, origins] = await Promise.all([
      checkMints(
        {
          defaultMintUrl: config.defaultMintUrl,
          defaultLockQuotes: config.defaultLockQuotes,
          sendable: { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat },
          usernameMintUrl: (usernames.priceSat ?? 0) > 0 ? usernames.mintUrl : null,
          knownLimits: database.contents?.knownLimits ?? null,
        },
        mintClient,
      ),
      checkRelays(zaps.relays, guardedSocketConnector({ allowPrivateNetworks })),
      checkOrigins(
        {
          // Port 0 is chosen by the system, so nobody knows where the service is.
          origins:
            publicOrigins.length === 0 && port !== 0 ? [`http://localhost:${port}`] : publicOrigins,
          zapPubkey: signer?.pubkey ?? null,
          isServiceRunning: (database.contents?.processes ?? 0) > 0,
        },
        originsFetch,
      ),
    ]);
    return [...database.findings, ...clockFindings, ...mints, ...relays, ...origins];
  } finally {
    await Promise.all([fetch.close(), originsFetch.close()]);
  }
}

/** Examines the database. Whatever is wrong with it, the rest of the setup can be checked. */
async function examineDatabase(
  location: Config['database'],
  mintUrl: string,
  clock: Clock,
): Promise<DatabaseExamination> {
  try {
    if (location.kind === 'postgres') {
      return await examineServer(await openQuietly(location), mintUrl, clock);
    }
    const dataDir = path.resolve(location.dataDir);
    const obstacle = dataDirObstacle(dataDir);
    if (obstacle !== null) {
      return unread(
        problem(
          'database.data_dir',
          `DATA_DIR: ${dataDir} cannot be used (${obstacle})`,
          'Run this command as the user that runs the service, and let the directory belong to that user.',
        ),
      );
    }
    return hasDatabase(dataDir)
      ? examineEmbedded(dataDir, await readEmbedded(dataDir, mintUrl))
      : unread(
          ok('database.reachable', `No database in ${dataDir} yet; the first start creates it`),
        );
  } catch (error) {
    const [reason = ''] = reasonOf(error).split('\n');
    return unread(
      problem(
        'database.reachable',
        reason.replace(/\.$/, ''),
        location.kind === 'postgres'
          ? 'Check that the server is up, and the host, the user, its password and its rights in DATABASE_URL.'
          : 'Try again in a moment. If it persists, keep the files as they are, and restore a backup into another DATA_DIR.',
      ),
    );
  }
}

function unread(finding: Finding): DatabaseExamination {
  return { findings: [finding], contents: null };
}

/** Reads an embedded database, through the service that has it open if one is running. */
async function readEmbedded(dataDir: string, mintUrl: string): Promise<DatabaseFacts> {
  try {
    const database = await openQuietly({ kind: 'embedded', dataDir });
    try {
      return await new Store(database.db).examination.examine(mintUrl);
    } finally {
      await database.close();
    }
  } catch (error) {
    if (error instanceof DataDirInUseError) {
      return askRunningService(dataDir, mintUrl);
    }
    throw error;
  }
}

async function askRunningService(dataDir: string, mintUrl: string): Promise<DatabaseFacts> {
  const terminal: Terminal = {
    write: async () => undefined,
    progress: () => undefined,
    input: null,
    signal: new AbortController().signal,
  };
  const result = await askService(dataDir, [databaseFacts.name, mintUrl], terminal);
  if (result.exitCode !== 0) {
    throw new OperatorError('The service that has the database is of another version');
  }
  return JSON.parse(result.stdout);
}

function openQuietly(location: DatabaseLocation) {
  // A connection that breaks fails the query that uses it.
  return openToLook(location, () => undefined);
}
