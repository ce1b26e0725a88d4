import type { Config } from '../../config.ts';
import { ISSUING_VERSIONS, isKnownToIssueAfterExpiry } from '../../mints/issue-after-expiry.ts';
import { describeFailure, type MintClient } from '../../mints/mint-client.ts';
import type { MintInfo } from '../../mints/mint-info.ts';
import type { MintPolicy } from '../../mints/mint-policy.ts';
import { MSAT_PER_SAT, narrowSendableRange } from '../../quotes/lnurl-pay.ts';
import type { ExpiringEcash } from '../../usernames/treasury-store.ts';
import { formatCount, formatExpiry, formatNumber, pubkeyToText } from '../format.ts';
import type { ServiceState } from './doctor-store.ts';
import { type Finding, getUnreachableAdvice, ok, problem, warning } from './finding.ts';

export async function checkMints(
  config: Config,
  mintPolicy: MintPolicy,
  client: MintClient,
  serviceState: ServiceState | null,
): Promise<Finding[]> {
  const mintUrls = new Set([...mintPolicy.operatorMints, ...(config.web?.mints ?? [])]);
  const checks = [...mintUrls].map((url) =>
    Array.fromAsync(checkMint(url, config, client, serviceState)),
  );
  return (await Promise.all(checks)).flat();
}

async function* checkMint(
  mintUrl: string,
  config: Config,
  client: MintClient,
  serviceState: ServiceState | null,
): AsyncGenerator<Finding> {
  const response = await client.readInfo(mintUrl);
  switch (response.outcome) {
    case 'found':
      yield ok('mint.reachable', `${mintUrl} responds`);
      if (mintUrl === config.defaultMintUrl) {
        yield* checkDefaultMint(mintUrl, response.info, config, serviceState);
      }
      if ((config.usernames.priceSat ?? 0) > 0 && mintUrl === config.usernames.mintUrl) {
        yield response.info.supportsRestore
          ? ok('mint.usernames', `${mintUrl} can check and restore ecash (NUT-07, NUT-09)`)
          : problem(
              'mint.usernames',
              `${mintUrl} cannot check and restore ecash (NUT-07, NUT-09): usernames cannot be sold`,
              'Set USERNAME_MINT_URL to a mint that can, or remove USERNAME_PRICE_SAT.',
            );
      }
      break;
    case 'invalid':
      yield problem(
        'mint.reachable',
        `${mintUrl} responds, but not like a mint`,
        'Check the address, including its path: <address>/v1/info must return the info of the mint.',
      );
      break;
    case 'rate_limited':
      yield warning(
        'mint.rate_limit',
        `${mintUrl} rejects requests from this machine as too many (status 429)`,
        'Ask its operator to lift the limit for your IP address (MINT_RATE_LIMIT in Nutshell, or the proxy).',
      );
      break;
    case 'unavailable':
      yield problem(
        'mint.reachable',
        `${mintUrl} cannot be reached: ${describeFailure(response)}`,
        getUnreachableAdvice(response.reason),
      );
  }
}

function* checkDefaultMint(
  mintUrl: string,
  info: MintInfo,
  { minSendableMsat, maxSendableMsat, defaultLockQuotes }: Config,
  serviceState: ServiceState | null,
): Generator<Finding> {
  const lockingUserCount = serviceState?.lockingUserCount ?? 0;
  if (!info.supportsBolt11Sat) {
    yield problem(
      'mint.payments',
      `${mintUrl} does not receive Lightning payments in sat (NUT-04, NUT-23)`,
      'Choose another DEFAULT_MINT_URL.',
    );
    return;
  }
  const range = narrowSendableRange({ minMsat: minSendableMsat, maxMsat: maxSendableMsat }, info);
  if (range === null) {
    const minSat = formatNumber(info.minAmountSat ?? 1);
    const maxSat = info.maxAmountSat === null ? 'any number of' : formatNumber(info.maxAmountSat);
    yield problem(
      'mint.amounts',
      `${mintUrl} accepts ${minSat} to ${maxSat} sat, which is outside of MIN_SENDABLE_MSAT to MAX_SENDABLE_MSAT`,
      'Change these settings, or choose another mint.',
    );
  } else {
    const minSat = formatNumber(range.minMsat / MSAT_PER_SAT);
    const maxSat = formatNumber(range.maxMsat / MSAT_PER_SAT);
    yield ok('mint.amounts', `${mintUrl} accepts payments of ${minSat} to ${maxSat} sat`);
  }
  if (info.supportsLocking) {
    yield ok('mint.locking', `${mintUrl} locks quotes to keys (NUT-20)`);
  } else if (defaultLockQuotes) {
    yield problem(
      'mint.locking',
      `${mintUrl} cannot lock quotes to keys (NUT-20), but DEFAULT_LOCK_QUOTES=true: no user can be paid`,
      'Set DEFAULT_LOCK_QUOTES=false, or choose another mint.',
    );
  } else if (lockingUserCount > 0) {
    yield problem(
      'mint.locking',
      `${mintUrl} cannot lock quotes to keys (NUT-20), but ${formatCount(lockingUserCount, 'user')} of the default mint lock their quotes: nobody can pay them`,
      'Choose another DEFAULT_MINT_URL, or ask these users to choose a mint or to turn locking off.',
    );
  } else {
    yield warning(
      'mint.locking',
      `${mintUrl} cannot lock quotes to keys (NUT-20), which some wallets require`,
      'Inform your users, or choose a mint that supports it.',
    );
  }
  const socket = 'a WebSocket (NUT-17)';
  const batches = 'checks in batches (NUT-29)';
  const missingFeatures = [
    ...(info.subscriptionKind === null ? [socket] : []),
    ...(info.batchCheck === null ? [batches] : []),
  ];
  yield missingFeatures.length === 0
    ? ok('mint.updates', `${mintUrl} has ${socket} and ${batches}`)
    : warning(
        'mint.updates',
        `${mintUrl} does not offer ${missingFeatures.join(' or ')}: payments are detected by polling, and late if many invoices are open`,
        'A newer version of the mint may offer it.',
      );
  yield checkCollectDeadline(mintUrl, info, serviceState?.defaultMint);
}

function checkCollectDeadline(
  mintUrl: string,
  { version }: MintInfo,
  seen: ServiceState['defaultMint'] | undefined,
): Finding {
  if (isKnownToIssueAfterExpiry(version) || seen?.issuesAfterExpiry) {
    return ok('mint.collect_deadline', `${mintUrl} issues payments after their expiry, too`);
  }
  const minutes = Math.round((seen?.quoteLifetimeMs ?? 0) / 60_000);
  const time =
    minutes > 0 ? `within ${formatCount(minutes, 'minute')} of their invoice` : 'before it';
  return warning(
    'mint.collect_deadline',
    `${mintUrl} (${version ?? 'unknown version'}) may refuse to issue payments after their expiry: those that are not collected ${time} may be lost`,
    `${ISSUING_VERSIONS} issue them. Or raise the expiry of the mint's quotes (MINT_QUOTE_TTL in Nutshell). This warning ends when the service sees the mint issue one.`,
  );
}

/**
 * Checks those of `watchedMints` that users chose. Any user can choose a mint that does not respond, so that is only a
 * warning.
 *
 * @param watchedMints the most important first
 */
export async function checkUserMints(
  mintPolicy: MintPolicy,
  watchedMints: readonly string[],
  client: MintClient,
): Promise<Finding[]> {
  const userMints = watchedMints.filter((url) => !mintPolicy.isOperatorMint(url));
  // Not all, because users can choose any number of mints.
  const checkedMints = userMints.slice(0, 20);
  const checks = checkedMints.map((mintUrl) => findUserMintFailure(mintUrl, client));
  const failures = (await Promise.all(checks)).filter((failure) => failure !== null);
  const respondingCount = checkedMints.length - failures.length;
  if (respondingCount === 0) {
    return failures;
  }
  const ofAll = userMints.length > checkedMints.length ? ` (of ${userMints.length})` : '';
  const message = `${formatCount(respondingCount, 'mint')}${ofAll} of users respond`;
  return [...failures, ok('mint.user_mints', message)];
}

async function findUserMintFailure(mintUrl: string, client: MintClient): Promise<Finding | null> {
  const response = await client.readInfo(mintUrl);
  if (response.outcome === 'found' || response.outcome === 'rate_limited') {
    return null;
  }
  const reason = response.outcome === 'invalid' ? 'no mint responds' : describeFailure(response);
  return warning(
    'mint.user_mints',
    `${mintUrl}, where payments to users are open, cannot be used: ${reason}`,
    'Its payments are recorded when it responds again. Inform its operator; its users can choose another mint.',
  );
}

/** Finds the mints that are not in ALLOWED_MINTS any more, and names the users who chose them before. */
export function checkUsersAtOtherMints(users: ServiceState['usersAtOtherMints']): Finding[] {
  return [...Map.groupBy(users, ({ mintUrl }) => mintUrl)].map(([mintUrl, usersOfMint]) =>
    warning(
      'mint.not_allowed',
      `${mintUrl} is not in ALLOWED_MINTS, but is the mint of ${usersOfMint.map(({ pubkey, name }) => pubkeyToText(pubkey, name)).join(', ')}`,
      `Payments to them continue there. \`nutpost user set-mint\` moves them; \`nutpost user list --mint ${mintUrl}\` lists all.`,
    ),
  );
}

export function checkExpiringEcash(expiring: readonly ExpiringEcash[], nowMs: number): Finding[] {
  return expiring.map((ecash) =>
    warning(
      'mint.ecash_expiry',
      `Ecash of the treasury: ${formatExpiry(ecash, nowMs)}`,
      'Withdraw it (`nutpost treasury withdraw`) and redeem the token in a wallet.',
    ),
  );
}
