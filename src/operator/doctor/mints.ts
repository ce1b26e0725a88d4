import type { MintClient } from '../../mints/mint-client.ts';
import type { MintInfo } from '../../mints/mint-info.ts';
import { parseKnownLimits } from '../../mints/mint-rate-limiter.ts';
import { type SendableRange, sendableRange } from '../../quotes/lnurl.ts';
import { adviceOn, type Finding, ok, problem, warning } from './finding.ts';

/** The mints that the settings name, and what they are needed for. */
export interface MintsToCheck {
  /** The mint of users who chose none. */
  defaultMintUrl: string;
  defaultLockQuotes: boolean;
  sendable: SendableRange;
  /** The mint whose ecash pays for usernames; null if they have no price. */
  usernameMintUrl: string | null;
  /** The rate limits of the default mint that the service has learned; null if there are none. */
  knownLimits: unknown;
}

type InfoClient = Pick<MintClient, 'readInfo'>;

/** Asks the mints that the settings name what they support. */
export async function checkMints(check: MintsToCheck, client: InfoClient): Promise<Finding[]> {
  const { defaultMintUrl, usernameMintUrl } = check;
  const mintUrls = new Set([defaultMintUrl, usernameMintUrl ?? defaultMintUrl]);
  const findings = [...mintUrls].map((mintUrl) =>
    checkMint(mintUrl, client, (info) => [
      ...(mintUrl === defaultMintUrl ? payments(mintUrl, info, check) : []),
      ...(mintUrl === usernameMintUrl ? [usernames(mintUrl, info)] : []),
    ]),
  );
  return [...(await Promise.all(findings)).flat(), ...knownLimits(check)];
}

async function checkMint(
  mintUrl: string,
  client: InfoClient,
  judge: (info: MintInfo) => Finding[],
): Promise<Finding[]> {
  const answer = await client.readInfo(mintUrl);
  switch (answer.outcome) {
    case 'found':
      return [ok('mint.reachable', `${mintUrl} answers`), ...judge(answer.info)];
    case 'invalid':
      return [
        problem(
          'mint.reachable',
          `${mintUrl} answers, but not like a mint`,
          'Check the address, including its path: <address>/v1/info must answer.',
        ),
      ];
    case 'rate_limited':
      return [
        warning(
          'mint.rate_limit',
          `${mintUrl} rejects requests from this machine as too many (status 429)`,
          LIFT_LIMIT,
        ),
      ];
    case 'unavailable':
      return [
        problem(
          'mint.reachable',
          `${mintUrl} cannot be reached: ${answer.reason}`,
          adviceOn(answer.reason),
        ),
      ];
  }
}

const LIFT_LIMIT =
  'Ask the operator of the mint to lift the limit for your address (MINT_RATE_LIMIT of Nutshell, or its proxy).';

/** What the default mint needs to receive payments. */
function payments(mintUrl: string, info: MintInfo, check: MintsToCheck): Finding[] {
  if (!info.mintsBolt11Sat) {
    return [
      problem(
        'mint.payments',
        `${mintUrl} does not receive Lightning payments in sat (NUT-04, NUT-23)`,
        'Choose another DEFAULT_MINT_URL.',
      ),
    ];
  }
  return [amounts(mintUrl, info, check), locking(mintUrl, info, check), updates(mintUrl, info)];
}

function amounts(mintUrl: string, info: MintInfo, { sendable }: MintsToCheck): Finding {
  const range = sendableRange(sendable, info);
  if (range === null) {
    const from = formatSat(info.minAmountSat ?? 1);
    const to = info.maxAmountSat === null ? 'any number of' : formatSat(info.maxAmountSat);
    return problem(
      'mint.amounts',
      `${mintUrl} accepts ${from} to ${to} sat, which is outside of MIN_SENDABLE_MSAT and MAX_SENDABLE_MSAT`,
      'Change the two settings, or choose another mint.',
    );
  }
  const [from, to] = [formatSat(range.minMsat / 1_000), formatSat(range.maxMsat / 1_000)];
  return ok('mint.amounts', `${mintUrl} accepts payments of ${from} to ${to} sat`);
}

function formatSat(sat: number): string {
  return sat.toLocaleString('en');
}

function locking(mintUrl: string, info: MintInfo, { defaultLockQuotes }: MintsToCheck): Finding {
  if (info.locking) {
    return ok('mint.locking', `${mintUrl} locks quotes to keys (NUT-20)`);
  }
  return defaultLockQuotes
    ? problem(
        'mint.locking',
        `${mintUrl} cannot lock quotes to keys (NUT-20), but DEFAULT_LOCK_QUOTES=true: nobody can be paid`,
        'Set DEFAULT_LOCK_QUOTES=false, or choose another mint.',
      )
    : warning(
        'mint.locking',
        `${mintUrl} cannot lock quotes to keys (NUT-20), which some wallets require`,
        'Tell your users, or choose a mint that supports it.',
      );
}

/** How payments are seen. */
function updates(mintUrl: string, info: MintInfo): Finding {
  const missing = [
    ...(info.subscriptions ? [] : ['a WebSocket (NUT-17)']),
    ...(info.batchCheck === null ? ['checks in batches (NUT-29)'] : []),
  ];
  return missing.length === 0
    ? ok('mint.updates', `${mintUrl} has a WebSocket (NUT-17) and checks in batches (NUT-29)`)
    : warning(
        'mint.updates',
        `${mintUrl} does not offer ${missing.join(' or ')}: payments are seen by polling, and late if many invoices are open`,
        'A newer version of the mint may offer it.',
      );
}

function usernames(mintUrl: string, info: MintInfo): Finding {
  return info.restoresEcash
    ? ok('mint.usernames', `${mintUrl} can check and restore ecash (NUT-07, NUT-09)`)
    : problem(
        'mint.usernames',
        `${mintUrl} cannot check and restore ecash (NUT-07, NUT-09): no username can be sold`,
        'Set USERNAME_MINT_URL to a mint that can, or remove USERNAME_PRICE_SAT.',
      );
}

function knownLimits({ defaultMintUrl, knownLimits: stored }: MintsToCheck): Finding[] {
  const limit = parseKnownLimits(stored).create;
  return limit === undefined
    ? []
    : [
        warning(
          'mint.rate_limit',
          `${defaultMintUrl} limits this service to about ${limit.count} invoices a minute`,
          LIFT_LIMIT,
        ),
      ];
}
