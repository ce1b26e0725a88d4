import type { Clock } from '../../domain/clock.ts';
import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import { type SendableRange, sendableRange } from '../../domain/lnurl.ts';
import type { MintInfo } from '../../domain/mint-info.ts';
import { reasonOf } from '../../mint/ask-mint.ts';
import type { MintClient } from '../../mint/mint-client.ts';
import { parseKnownLimits } from '../../mint/mint-rate-limiter.ts';
import type { SocketConnector } from '../../net/guarded-socket.ts';
import { probeSocket } from '../../net/socket-probe.ts';
import { adviceOn } from './reasons.ts';
import { socketTrouble } from './socket-trouble.ts';

/** What the mints of the settings are for. */
export interface MintsToCheck {
  /** The mint of users who chose none. */
  defaultMintUrl: string;
  defaultLockQuotes: boolean;
  sendable: SendableRange;
  /** Where the ecash comes from that pays for names; null: they have no price. */
  paidNamesMintUrl: string | null;
  /** What the database knows of the default mint's limits; null: nothing, or it was not reached. */
  rateLimits: unknown;
}

/** Who is asked. */
export interface MintParts {
  client: Pick<MintClient, 'readInfo'>;
  connect: SocketConnector;
  clock: Clock;
}

/** A payer waits for more than one answer of the mint. */
const SLOW_MS = 2_000;

/** Looks at the mints that the settings name. */
export async function checkMints(check: MintsToCheck, parts: MintParts): Promise<Finding[]> {
  const { defaultMintUrl, paidNamesMintUrl } = check;
  const [ofDefault, ofNames] = await Promise.all([
    checkMint(defaultMintUrl, parts, (info) => [
      ...payments(defaultMintUrl, info, check),
      ...selling(defaultMintUrl, info, check),
      ...limits(defaultMintUrl, check),
    ]),
    paidNamesMintUrl === null || paidNamesMintUrl === defaultMintUrl
      ? []
      : checkMint(paidNamesMintUrl, parts, (info) => selling(paidNamesMintUrl, info, check)),
  ]);
  return [...ofDefault, ...ofNames];
}

async function checkMint(
  mintUrl: string,
  parts: MintParts,
  judge: (info: MintInfo) => Finding[],
): Promise<Finding[]> {
  const askedAtMs = performance.now();
  const answer = await parts.client.readInfo(mintUrl);
  const tookMs = performance.now() - askedAtMs;
  switch (answer.outcome) {
    case 'found':
      return [
        tookMs < SLOW_MS ? ok('mint.reached', `${mintUrl} answers`) : slow(mintUrl, tookMs),
        ...judge(answer.info),
        ...(answer.info.subscriptions ? [await socket(mintUrl, parts.connect)] : []),
      ];
    case 'invalid':
      return [
        problem(
          'mint.none',
          `${mintUrl} answers, but not as a mint`,
          'Is the address right, path and all? <address>/v1/info has to answer.',
        ),
      ];
    case 'rate_limited':
    case 'unavailable':
      return [
        problem(
          'mint.unreachable',
          `${mintUrl} does not answer: ${reasonOf(answer)}`,
          adviceOn(reasonOf(answer)),
        ),
      ];
  }
}

function slow(mintUrl: string, tookMs: number): Finding {
  return warning(
    'mint.slow',
    `${mintUrl} took ${(tookMs / 1000).toFixed(1)} s to answer`,
    'Payers wait as long, and longer: ask its operator, or choose a nearer one.',
  );
}

/** What is needed of it to take payments, and what makes that better. */
function payments(mintUrl: string, info: MintInfo, check: MintsToCheck): Finding[] {
  if (!info.mintsBolt11Sat) {
    return [
      problem(
        'mint.no_bolt11',
        `${mintUrl} takes no Lightning payments in sat (NUT-04, NUT-23)`,
        'Choose another DEFAULT_MINT_URL.',
      ),
    ];
  }
  return [
    amounts(mintUrl, info, check.sendable),
    locking(mintUrl, info, check),
    ...news(mintUrl, info),
  ];
}

function amounts(mintUrl: string, info: MintInfo, sendable: SendableRange): Finding {
  const range = sendableRange(sendable, info);
  if (range === null) {
    const from = info.minAmountSat?.toLocaleString('en') ?? '1';
    const to = info.maxAmountSat?.toLocaleString('en') ?? 'any number of';
    return problem(
      'mint.amounts',
      `${mintUrl} takes ${from} to ${to} sat, and nothing of what MIN_SENDABLE_MSAT and MAX_SENDABLE_MSAT allow`,
      'Change the two settings, or choose another mint.',
    );
  }
  const [from, to] = [range.minMsat, range.maxMsat].map((msat) =>
    (msat / 1000).toLocaleString('en'),
  );
  return ok(
    'mint.amounts',
    `${mintUrl} takes Lightning payments in sat: payers can send ${from} to ${to} sat`,
  );
}

function locking(mintUrl: string, info: MintInfo, { defaultLockQuotes }: MintsToCheck): Finding {
  if (info.locking) {
    return ok('mint.locking', `${mintUrl} locks quotes to keys (NUT-20)`);
  }
  return defaultLockQuotes
    ? problem(
        'mint.no_locking',
        `${mintUrl} cannot lock quotes to keys (NUT-20), and DEFAULT_LOCK_QUOTES=true wants that`,
        'Set DEFAULT_LOCK_QUOTES=false, or choose another mint: nobody gets an invoice.',
      )
    : warning(
        'mint.no_locking',
        `${mintUrl} cannot lock quotes to keys (NUT-20): some wallets insist on that`,
        'Tell your users, or choose a mint that can.',
      );
}

/** How soon payments are seen. */
function news(mintUrl: string, info: MintInfo): Finding[] {
  return [
    ...(info.subscriptions
      ? []
      : [
          note(
            'mint.no_socket',
            `${mintUrl} tells no news by itself (NUT-17): payments are seen by polling, within seconds to a minute`,
          ),
        ]),
    info.batchCheck === null
      ? note(
          'mint.no_batch',
          `${mintUrl} is asked about each quote by itself: it offers no batches (NUT-29)`,
          'With many open invoices payments are seen late; a newer version of the mint may offer them.',
        )
      : ok(
          'mint.batch',
          `${mintUrl} is asked about ${info.batchCheck.maxBatchSize} quotes at once (NUT-29)`,
        ),
  ];
}

function selling(mintUrl: string, info: MintInfo, { paidNamesMintUrl }: MintsToCheck): Finding[] {
  if (mintUrl !== paidNamesMintUrl) {
    return [];
  }
  return [
    info.restoresEcash
      ? ok(
          'mint.restores',
          `${mintUrl} can tell what became of ecash (NUT-07, NUT-09): names can be sold for it`,
        )
      : problem(
          'mint.no_restore',
          `${mintUrl} cannot tell what became of ecash (NUT-07, NUT-09): no name is sold`,
          'Set USERNAME_MINT_URL to a mint that can, or take USERNAME_PRICE_SAT away.',
        ),
  ];
}

async function socket(mintUrl: string, connect: SocketConnector): Promise<Finding> {
  const url = `${mintUrl.replace(/^http/, 'ws')}/v1/ws`;
  const probed = await probeSocket(connect, url, { isAnswered: false });
  return probed.outcome === 'open'
    ? ok('mint.socket', `${mintUrl} opens its socket: payments are seen at once (NUT-17)`)
    : warning(
        'mint.socket',
        `${mintUrl} offers a socket (NUT-17) and does not open it: ${socketTrouble(probed)}`,
        'Payments are seen by polling meanwhile. A proxy before the mint may not let WebSockets through: tell its operator.',
      );
}

/** What a running service has found out about the mint's rate limit. */
function limits(mintUrl: string, { rateLimits }: MintsToCheck): Finding[] {
  const invoices = parseKnownLimits(rateLimits).create;
  return invoices === undefined
    ? []
    : [
        note(
          'mint.limit',
          `${mintUrl} allows about ${invoices.count} invoices a minute`,
          'Ask the mint’s operator to lift the limit for your address (MINT_RATE_LIMIT of Nutshell, or a proxy that knows you).',
        ),
      ];
}
