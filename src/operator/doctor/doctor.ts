import fs from 'node:fs';
import path from 'node:path';
import {
  type Config,
  ConfigError,
  type EnvironmentVariables,
  listNonEmptyVariables,
  readConfig,
  SETTING_NAMES,
} from '../../config.ts';
import { findDataDirProblem, sqliteFilePath } from '../../database/data-dir.ts';
import {
  type Database,
  type DatabaseLocation,
  openForInspection,
} from '../../database/database.ts';
import { rootCauseMessage } from '../../errors.ts';
import { MintClient } from '../../mints/mint-client.ts';
import { MintPolicy } from '../../mints/mint-policy.ts';
import { createEgress } from '../../net/egress.ts';
import { GuardedFetch } from '../../net/guarded-fetch.ts';
import { loadEventSigner } from '../../nostr/events.ts';
import { Store } from '../../store.ts';
import { withClockCheck } from './check-clock.ts';
import {
  checkPostgres,
  checkSqlite,
  type DatabaseReport,
  RESTORE_BACKUP_ADVICE,
} from './check-database.ts';
import { checkExpiringEcash, checkMints, checkUserMints } from './check-mints.ts';
import { checkOrigins } from './check-origins.ts';
import { checkRelays } from './check-relays.ts';
import { checkSettings, checkUnknownSettings } from './check-settings.ts';
import { checkFiles, checkPorts, checkTreasurySecret } from './check-start.ts';
import type { ServiceState } from './doctor-store.ts';
import { type Finding, FindingList } from './finding.ts';

/**
 * Checks everything that a service with these settings needs, before the first start or while the service runs.
 * Changes nothing and creates no file.
 *
 * @param onProgress receives progress lines, without line breaks
 * @param env default: the environment of this process
 */
export async function runDoctor(
  onProgress: (line: string) => void,
  env?: EnvironmentVariables,
): Promise<Finding[]> {
  const variableNames = listNonEmptyVariables(env);
  const unknownSettings = checkUnknownSettings(variableNames, SETTING_NAMES);
  let config: Config;
  try {
    config = readConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) {
      throw error;
    }
    const advice = 'The service does not start until this is fixed; nothing else was checked.';
    const list = new FindingList();
    for (const problem of error.problems) {
      list.problem('settings.invalid', problem, advice);
    }
    return [...list.findings, ...unknownSettings];
  }
  const secrets = [config.jwtSecret, config.treasurySecret, config.zaps.secretKey];
  const validSettings = checkSettings({
    ...config,
    configuredCount: variableNames.filter((name) => SETTING_NAMES.includes(name)).length,
    secrets: secrets.filter((secret) => secret !== null),
  });
  onProgress('Checking; this takes up to 20 s if a host does not respond');
  return [
    ...validSettings,
    ...unknownSettings,
    ...(await checkFiles(config)),
    ...(await checkConnections(config)),
  ];
}

async function checkConnections(config: Config): Promise<Finding[]> {
  const { zaps, allowPrivateNetworks, publicOrigins, port, defaultMintUrl } = config;
  const database = await checkDatabase(config);
  const { serviceState } = database;
  const isServiceRunning = isAnyProcessRunning(database);
  const ports = await checkPorts(config, isServiceRunning);
  const signer = zaps.secretKey === null ? null : await loadEventSigner(zaps.secretKey);
  const mintPolicy = new MintPolicy({
    defaultMintUrl,
    usernameMintUrl: config.usernames.mintUrl,
    zapMintUrls: zaps.mints,
    allowPrivateNetworks,
  });
  const egress = createEgress({
    allowPrivateNetworks,
    operatorUrls: [...mintPolicy.operatorMints, ...zaps.relays],
  });
  const fetch = egress.createFetch();
  // The proxy of a public origin may have a private address. The operator sets the origins, so this is safe.
  const originsFetch = new GuardedFetch({ allowPrivateNetworks: true });
  const clockFindings: Finding[] = [];
  const clockCheckingFetch = withClockCheck(fetch, clockFindings);
  const mintClient = new MintClient({ fetch: clockCheckingFetch, clock: Date.now });
  // With PORT=0 the system chooses the port, so the address of the service is unknown.
  const localOrigins = port === 0 ? [] : [`http://localhost:${port}`];
  try {
    const [mints, userMints, relays, origins] = await Promise.all([
      checkMints(config, mintPolicy, serviceState?.knownMintLimits ?? null, mintClient),
      // Users choose these mints, so the doctor does not compare clocks with them.
      checkUserMints(
        mintPolicy,
        serviceState?.watchedMints ?? [],
        new MintClient({ fetch, clock: Date.now }),
      ),
      checkRelays(zaps.relays, egress.connect),
      checkOrigins(
        {
          origins: publicOrigins.length === 0 ? localOrigins : publicOrigins,
          zapPubkey: (mintPolicy.hasZapReceipts(defaultMintUrl) && signer?.pubkey) || null,
          isServiceRunning,
        },
        originsFetch,
      ),
    ]);
    return [
      ...ports,
      ...database.findings,
      ...clockFindings,
      ...mints,
      ...userMints,
      ...checkExpiringEcash(serviceState?.expiringEcash ?? [], Date.now()),
      ...relays,
      ...origins,
    ];
  } finally {
    await Promise.all([fetch.close(), originsFetch.close(), egress.close()]);
  }
}

/** Returns null if that is unknown: without a working database, a running process cannot renew its lease. */
function isAnyProcessRunning({ serviceState, findings }: DatabaseReport): boolean | null {
  const isDatabaseFailing = findings.some(
    ({ check, level }) => check.startsWith('database.') && level === 'problem',
  );
  const processCount = serviceState?.runningProcessCount ?? 0;
  return processCount > 0 || (isDatabaseFailing ? null : false);
}

/** Reports an unreadable database as a finding, so that the other checks still run. */
async function checkDatabase(config: Config): Promise<DatabaseReport> {
  const { database: location, defaultMintUrl } = config;
  const list = new FindingList();
  let database: Database | null = null;
  // Ignores errors of the connection: the query on a broken connection also fails, and reports the error.
  const open = () => openForInspection(withoutPreparedStatements(location), () => undefined);
  try {
    if (location.kind === 'postgres') {
      database = await open();
      const report = await checkPostgres(database, location, defaultMintUrl, Date.now);
      return await withTreasurySecret(config, database, report);
    }
    const dataDir = path.resolve(location.dataDir);
    const accessProblem = findDataDirProblem(dataDir);
    if (accessProblem === null && fs.existsSync(sqliteFilePath(dataDir))) {
      database = await open();
      const report = await checkSqlite(database, dataDir, defaultMintUrl);
      return await withTreasurySecret(config, database, report);
    }
    if (accessProblem === null) {
      list.ok('database.reachable', `No database in ${dataDir} yet; the first start creates it`);
      const serviceState: ServiceState = {
        runningProcessCount: 0,
        knownMintLimits: null,
        untrustedProxies: [],
        watchedMints: [],
        expiringEcash: [],
      };
      return { findings: list.findings, serviceState };
    }
    list.problem(
      'database.data_dir',
      `DATA_DIR: ${dataDir} cannot be used (${accessProblem})`,
      'Run this command as the user that runs the service, and make that user the owner of the directory.',
    );
  } catch (error) {
    const [reason = ''] = rootCauseMessage(error).split('\n');
    const advice = location.kind === 'postgres' ? CHECK_SERVER_ADVICE : RESTORE_BACKUP_ADVICE;
    list.problem('database.reachable', reason.replace(/\.$/, ''), advice);
  } finally {
    await database?.close();
  }
  return { findings: list.findings, serviceState: null };
}

/** Adds the check of the treasury secret, which needs current tables. */
async function withTreasurySecret(
  config: Config,
  database: Database,
  report: DatabaseReport,
): Promise<DatabaseReport> {
  if (report.serviceState === null) {
    return report;
  }
  const findings = await checkTreasurySecret(config, new Store(database.db));
  return { ...report, findings: [...findings, ...report.findings] };
}

/** Prepared statements would fail if the URL leads to a pooler, which the doctor detects later. */
function withoutPreparedStatements(location: DatabaseLocation): DatabaseLocation {
  return location.kind === 'sqlite'
    ? location
    : { ...location, listenUrl: location.listenUrl ?? location.url };
}

const CHECK_SERVER_ADVICE =
  'Check that the server is up, and check the host, user and password in DATABASE_URL and the rights of the user.';
