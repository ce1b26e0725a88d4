import {
  type Config,
  ConfigError,
  type EnvironmentVariables,
  listNonEmptyVariables,
  readConfig,
  SETTING_NAMES,
} from '../../config.ts';
import { MintClient } from '../../mints/mint-client.ts';
import { MintPolicy } from '../../mints/mint-policy.ts';
import { createEgress } from '../../net/egress.ts';
import { GuardedFetch } from '../../net/guarded-fetch.ts';
import { loadEventSigner } from '../../nostr/events.ts';
import { defineCommand } from '../command.ts';
import { formatCount, joinLines } from '../format.ts';
import { withClockCheck } from './check-clock.ts';
import { checkDatabase, type DatabaseReport } from './check-database.ts';
import {
  checkExpiringEcash,
  checkMints,
  checkUserMints,
  checkUsersAtOtherMints,
} from './check-mints.ts';
import { checkAlertTarget, checkOrigins } from './check-origins.ts';
import { checkRelays } from './check-relays.ts';
import { checkFiles, checkPorts, checkSettings, checkUnknownSettings } from './check-settings.ts';
import { type Finding, type FindingArea, problem, warning } from './finding.ts';

export const doctorCommand = defineCommand({
  name: 'doctor',
  description:
    'checks everything that the service needs and says how to fix problems; works before the first start and while the service runs',
  // The settings may be invalid, so it reads them itself.
  run: async (_: unknown, { json }, _operands, io) => {
    const findings = await runDoctor((line) => io.reportProgress(line));
    const count = (level: Finding['level']) =>
      findings.filter((finding) => finding.level === level).length;
    const [problemCount, warningCount] = [count('problem'), count('warning')];
    const counts = `${formatCount(problemCount, 'problem')}, ${formatCount(warningCount, 'warning')}.`;
    return {
      isSuccess: problemCount === 0,
      json: { nowMs: Date.now(), problemCount, warningCount, findings },
      lines: [],
      // Problems, too, go to standard output.
      ...(!json && { output: joinLines([...findingsToLines(findings), counts]) }),
    };
  },
});

/** Checks everything that a service with these settings needs. Changes nothing and creates no file. */
export async function runDoctor(
  onProgress: (line: string) => void,
  env?: EnvironmentVariables,
): Promise<Finding[]> {
  const variableNames = listNonEmptyVariables(env);
  const unknownSettings = [...checkUnknownSettings(variableNames, SETTING_NAMES)];
  let config: Config;
  try {
    config = readConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) {
      throw error;
    }
    const advice = 'The service does not start until this is fixed; nothing else was checked.';
    const invalid = error.problems.map((text) => problem('settings.invalid', text, advice));
    return [...invalid, ...unknownSettings];
  }
  onProgress('Checking; this takes up to 20 s if a host does not respond');
  const { jwtSecret, treasurySecret, zaps, notifySecretKey } = config;
  // The two Nostr keys may be the same.
  const nostrKeys = new Set([zaps.secretKey, notifySecretKey]);
  const secrets = [jwtSecret, treasurySecret, ...nostrKeys];
  return [
    ...checkSettings({
      ...config,
      configuredCount: variableNames.filter((name) => SETTING_NAMES.includes(name)).length,
      secrets: secrets.filter((secret) => secret !== null),
    }),
    ...unknownSettings,
    ...(await checkFiles(config)),
    ...(await checkDatabaseAndNetwork(config)),
  ];
}

async function checkDatabaseAndNetwork(config: Config): Promise<Finding[]> {
  const { zaps, allowPrivateNetworks, publicOrigins, port, defaultMintUrl } = config;
  const database = await checkDatabase(config);
  const { serviceState } = database;
  const isServiceStopped = isEveryProcessStopped(database);
  const ports = await checkPorts(config, isServiceStopped);
  const signer = zaps.secretKey === null ? null : await loadEventSigner(zaps.secretKey);
  const mintPolicy = new MintPolicy(config);
  const operatorUrls = [...mintPolicy.operatorMints, ...zaps.relays];
  const egress = createEgress({ allowPrivateNetworks, operatorUrls });
  const fetch = egress.createFetch();
  // Public origins and ALERT_URL may be on private networks. The operator sets them, so this is safe.
  const originsFetch = new GuardedFetch({ allowPrivateNetworks: true });
  const clockFindings: Finding[] = [];
  const clockCheckingFetch = withClockCheck(fetch, clockFindings);
  const mintClient = new MintClient({ fetch: clockCheckingFetch, clock: Date.now });
  // The doctor does not compare clocks with mints that users choose.
  const userMintClient = new MintClient({ fetch, clock: Date.now });
  // With PORT=0 the system chooses the port.
  const localOrigins = port === 0 ? [] : [`http://localhost:${port}`];
  const usedOrigins = publicOrigins.length === 0 ? localOrigins : publicOrigins;
  const memberPubkey = config.membersOnly ? serviceState?.memberPubkey : undefined;
  const members = memberPubkey === null ? [NO_MEMBERS] : [];
  try {
    const [mints, userMints, relays, alerts, origins] = await Promise.all([
      checkMints(config, mintPolicy, mintClient, serviceState),
      checkUserMints(mintPolicy, serviceState?.watchedMints ?? [], userMintClient),
      checkRelays(zaps.relays, egress.connect),
      checkAlertTarget(config.alertTarget, originsFetch),
      checkOrigins(
        {
          // Without members, there is no address to request.
          origins: memberPubkey === null ? [] : usedOrigins,
          probePubkey: memberPubkey ?? null,
          zapPubkey: (mintPolicy.hasZapReceipts(defaultMintUrl) && signer?.pubkey) || null,
          isServiceStopped,
        },
        originsFetch,
      ),
    ]);
    const otherMints = checkUsersAtOtherMints(serviceState?.usersAtOtherMints ?? []);
    const ecash = checkExpiringEcash(serviceState?.expiringEcash ?? [], Date.now());
    const localFindings = [...alerts, ...ports, ...members, ...database.findings, ...clockFindings];
    const mintFindings = [...mints, ...userMints, ...otherMints, ...ecash];
    return [...localFindings, ...mintFindings, ...relays, ...origins];
  } finally {
    await Promise.all([fetch.close(), originsFetch.close(), egress.close()]);
  }
}

const NO_MEMBERS = warning(
  'settings.members',
  'RECIPIENTS=members, but there are no members who can be paid',
  'Add members with `nutpost member add` or `import`, or invite them. The origins were not checked.',
);

/** Returns false if the database fails, because running processes then cannot renew their leases in it. */
function isEveryProcessStopped({ serviceState, findings }: DatabaseReport): boolean {
  const isDatabaseFailing = findings.some(
    ({ check, level }) => check.startsWith('database.') && level === 'problem',
  );
  return (serviceState?.runningProcessCount ?? 0) === 0 && !isDatabaseFailing;
}

function findingsToLines(findings: readonly Finding[]): string[] {
  const byArea = Map.groupBy(findings, ({ check }) => check.split('.')[0] as FindingArea);
  return [...byArea].flatMap(([area, areaFindings]) => [
    AREA_TITLES[area],
    ...areaFindings.flatMap(findingToLines),
    '',
  ]);
}

function findingToLines({ level, message, advice }: Finding): string[] {
  const label = level === 'ok' ? 'ok     ' : level.toUpperCase();
  return [
    `  ${label}  ${message.replace(/\.$/, '')}.`,
    ...(advice === null ? [] : [`           -> ${advice}`]),
  ];
}

const AREA_TITLES: Readonly<Record<FindingArea, string>> = {
  settings: 'Settings',
  database: 'Database',
  clock: 'Clock',
  mint: 'Mints',
  relay: 'Relays',
  origin: 'Public origins',
};
