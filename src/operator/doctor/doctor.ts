import fs from 'node:fs';
import path from 'node:path';
import {
  type Config,
  ConfigError,
  type Environment,
  givenNames,
  readConfig,
  SETTING_NAMES,
} from '../../config.ts';
import { dataDirObstacle, sqliteFile } from '../../database/data-dir.ts';
import { openToLook } from '../../database/database.ts';
import { reasonOf } from '../../errors.ts';
import { MintClient } from '../../mints/mint-client.ts';
import { GuardedFetch } from '../../net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../net/guarded-socket.ts';
import { loadEventSigner } from '../../nostr/events.ts';
import { checkingClocks } from './clock.ts';
import {
  type DatabaseExamination,
  examineServer,
  examineSqlite,
  RESTORE_BACKUP,
} from './database.ts';
import { type Finding, ok, problem } from './finding.ts';
import { checkMints } from './mints.ts';
import { checkOrigins } from './origins.ts';
import { checkRelays } from './relays.ts';
import { checkSettings, checkUnknownSettings } from './settings.ts';

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
  const unknown = checkUnknownSettings(names, SETTING_NAMES);
  let config: Config;
  try {
    config = readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) {
      const advice = 'The service does not start until this is fixed; nothing else was checked.';
      return [
        ...error.problems.map((what) => problem('settings.invalid', what, advice)),
        ...unknown,
      ];
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
  return [...settings, ...unknown, ...(await examineConnections(config))];
}

/** Checks the database, and everything that the service connects to. */
async function examineConnections(config: Config): Promise<Finding[]> {
  const { zaps, usernames, allowPrivateNetworks, publicOrigins, port } = config;
  const database = await examineDatabase(config.database, config.defaultMintUrl);
  const signer = zaps.secretKey === null ? null : await loadEventSigner(zaps.secretKey);
  const fetch = new GuardedFetch({ allowPrivateNetworks });
  // The operator chose the origins, and a proxy may have a private address.
  const originsFetch = new GuardedFetch({ allowPrivateNetworks: true });
  const clockFindings: Finding[] = [];
  const mintClient = new MintClient({
    fetch: checkingClocks(fetch, clockFindings, Date.now),
    clock: Date.now,
  });
  // The system chooses port 0, so the address of the service is unknown.
  const localOrigins = port === 0 ? [] : [`http://localhost:${port}`];
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
          origins: publicOrigins.length === 0 ? localOrigins : publicOrigins,
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

/** Examines the database. The rest of the setup is checked even if it cannot be read. */
async function examineDatabase(
  location: Config['database'],
  mintUrl: string,
): Promise<DatabaseExamination> {
  try {
    if (location.kind === 'postgres') {
      return await examineServer(await openToLook(location, ignore), mintUrl, Date.now);
    }
    const dataDir = path.resolve(location.dataDir);
    const obstacle = dataDirObstacle(dataDir);
    if (obstacle !== null) {
      const what = `DATA_DIR: ${dataDir} cannot be used (${obstacle})`;
      return unread(problem('database.data_dir', what, OWN_DATA_DIR));
    }
    if (!fs.existsSync(sqliteFile(dataDir))) {
      const what = `No database in ${dataDir} yet; the first start creates it`;
      return unread(ok('database.reachable', what));
    }
    return await examineSqlite(await openToLook(location, ignore), dataDir, mintUrl);
  } catch (error) {
    const [reason = ''] = reasonOf(error).split('\n');
    const advice = location.kind === 'postgres' ? CHECK_SERVER : RESTORE_BACKUP;
    return unread(problem('database.reachable', reason.replace(/\.$/, ''), advice));
  }
}

const OWN_DATA_DIR =
  'Run this command as the user that runs the service, and let the directory belong to that user.';

const CHECK_SERVER =
  'Check that the server is up, and the host, the user, its password and its rights in DATABASE_URL.';

function unread(finding: Finding): DatabaseExamination {
  return { findings: [finding], contents: null };
}

/** A broken connection fails the query that uses it, so it is not reported a second time. */
function ignore(): void {}
