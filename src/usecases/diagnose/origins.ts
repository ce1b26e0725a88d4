import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import type { OwnFetch } from '../../net/own-fetch.ts';
import { checkMetrics } from './metrics-port.ts';
import { checkBrowsers } from './origin-browsers.ts';
import { checkForwarding } from './origin-forwarding.ts';
import { checkPayers } from './origin-payers.ts';
import { checkSocket } from './origin-socket.ts';
import {
  type ListeningPlace,
  limited,
  type OriginParts,
  type Reached,
  reach,
  statusOf,
  TOO_MANY_REQUESTS,
} from './reach.ts';
import { adviceOn } from './reasons.ts';

/** The ways to the service. */
export interface OriginsToCheck {
  /** What clients use; the first is canonical. */
  origins: readonly string[];
  /** Where the service listens on this machine; null: at any port. */
  local: ListeningPlace | null;
  /** The same of its metrics; null: nowhere, or at any port. */
  metrics: ListeningPlace | null;
  /** Whether long headers have to come through: names are paid for in `X-Cashu`. */
  sellsNames: boolean;
  /** A process of the service is known to be alive, here or elsewhere. */
  isServiceAlive: boolean;
}

/** What a proxy answers whose service does not. */
const GATEWAY_STATUSES: ReadonlySet<number> = new Set([502, 503, 504]);

/** What a router does to those within who come by its public address. */
const LOST_REASONS: ReadonlySet<string> = new Set(['timed out', 'connection refused']);

const NOT_LED_HOME =
  'Some routers do not lead home what comes from within: then try from elsewhere, or put the name into this machine’s hosts file.';

/** Sooner than certificates are renewed by themselves: by then something is wrong with that. */
const CERTIFICATE_DAYS = 14;

const DAY_MS = 24 * 60 * 60_000;

/** Looks whether every public origin leads to this service, and what a client finds there. */
export async function checkOrigins(check: OriginsToCheck, parts: OriginParts): Promise<Finding[]> {
  const { local, metrics } = check;
  const reached = local === null ? null : reach(local.url, {}, parts);
  const here = Promise.resolve(reached).then((answer) => answer?.outcome === 'reached');
  const alive = here.then((isHere) => check.isServiceAlive || isHere);
  const found = await Promise.all([
    local === null || reached === null ? [] : checkLocal(reached, local, parts),
    metrics === null ? [] : checkMetrics(metrics, here, parts),
    ...check.origins.map((origin) => checkOrigin(origin, alive, check, parts)),
  ]);
  return found.flat();
}

async function checkLocal(
  answer: Promise<Reached>,
  { host, port, url }: ListeningPlace,
  { fetch, tryToListen }: OriginParts,
): Promise<Finding[]> {
  const reached = await answer;
  if (reached.outcome === 'reached') {
    return [await checkReadiness(url, fetch)];
  }
  if (reached.outcome === 'elsewhere' && reached.status === TOO_MANY_REQUESTS) {
    return [limited(url)];
  }
  const code = await tryToListen(host, port);
  switch (code) {
    case 'free':
      return [note('listen.free', `No service listens at ${url}; one could`)];
    case 'EADDRINUSE':
      return [
        problem(
          'listen.taken',
          `Another program listens at ${url}, or a service with another JWT_SECRET`,
          'Give this one another PORT, or stop the other (`ss -ltnp` shows it).',
        ),
      ];
    default:
      return [
        problem(
          'listen.impossible',
          `No service can listen at ${url} (${code})`,
          'HOST has to be an address of this machine, and a PORT below 1024 needs rights that a service should not have.',
        ),
      ];
  }
}

async function checkReadiness(localUrl: string, fetch: OwnFetch): Promise<Finding> {
  const answer = await fetch.request({
    method: 'GET',
    url: `${localUrl}/health/ready`,
    headers: {},
  });
  return answer.outcome === 'answered' && answer.status < 300
    ? ok('listen.here', `The service listens at ${localUrl}, and is ready`)
    : problem(
        'listen.not_ready',
        `The service listens at ${localUrl}, and is not ready (${statusOf(answer)})`,
        `${localUrl}/health/ready says what it waits for, and its log says why.`,
      );
}

async function checkOrigin(
  origin: string,
  alive: Promise<boolean>,
  check: OriginsToCheck,
  parts: OriginParts,
): Promise<Finding[]> {
  const reached = await reach(origin, {}, parts);
  if (reached.outcome !== 'reached') {
    return [missed(origin, reached, await alive), ...certificate(origin, parts)];
  }
  const isHere = ok('origin.reached', `${origin} leads here`);
  const { origins } = reached.seen;
  if (!origins.includes(origin)) {
    return [isHere, unlisted(origin, origins), ...certificate(origin, parts)];
  }
  const found = await Promise.all([
    checkForwarding(origin, reached.seen, check.sellsNames, parts),
    checkPayers(origin, parts.fetch),
    checkBrowsers(origin, parts.fetch),
    checkSocket(origin, parts.connect),
  ]);
  return [isHere, ...saidOnce(found.flat()), ...certificate(origin, parts)];
}

/** The rest follows: where its clients go, payers and signatures too. */
function unlisted(origin: string, origins: readonly string[]): Finding {
  return problem(
    'origin.unlisted',
    `The service that runs does not know ${origin}: its PUBLIC_ORIGINS are ${origins.join(', ')}`,
    'Restart it with these settings.',
  );
}

/** One limit refuses several questions. */
function saidOnce(findings: readonly Finding[]): Finding[] {
  return [...new Map(findings.map((finding) => [finding.what, finding])).values()];
}

/** Without a service nobody can answer: that is said, and does not count as wrong. */
function missed(
  origin: string,
  reached: Exclude<Reached, { outcome: 'reached' }>,
  isAlive: boolean,
): Finding {
  if (reached.outcome === 'unreachable') {
    return reached.reason === 'connection refused' && !isAlive
      ? unchecked(origin, 'nothing listens there')
      : problem(
          'origin.unreachable',
          `${origin} cannot be reached from this machine: ${reached.reason}`,
          LOST_REASONS.has(reached.reason)
            ? `${adviceOn(reached.reason)} ${NOT_LED_HOME}`
            : adviceOn(reached.reason),
        );
  }
  const { status, location } = reached;
  if (location !== null && status >= 300 && status < 400) {
    return problem(
      'origin.redirected',
      `${origin} sends clients elsewhere (status ${status}, to ${originOf(location, origin)})`,
      'Name in PUBLIC_ORIGINS where it leads: signatures and callbacks are for one address, and many clients follow nothing.',
    );
  }
  if (status === TOO_MANY_REQUESTS) {
    return limited(origin);
  }
  if (GATEWAY_STATUSES.has(status)) {
    return isAlive
      ? problem(
          'origin.gateway',
          `${origin} is answered by a proxy that does not reach the service (status ${status})`,
          'Look where the proxy sends requests, and whether HOST and PORT are that place.',
        )
      : unchecked(origin, `a proxy answers, with status ${status}`);
  }
  return isAlive
    ? problem(
        'origin.elsewhere',
        `${origin} is answered by somebody else (status ${status})`,
        'Look where its name and the proxy lead. A service of an older version, with another JWT_SECRET, or whose clock is four minutes away from this machine’s, looks the same.',
      )
    : unchecked(origin, `somebody answers, with status ${status}`);
}

function unchecked(origin: string, what: string): Finding {
  return warning(
    'origin.unchecked',
    `${origin} could not be looked at: no service is running (${what})`,
    'Start the service, and run `nutpost doctor` again.',
  );
}

function originOf(location: string, base: string): string {
  return URL.canParse(location, base) ? new URL(location, base).origin : 'nowhere';
}

function certificate(origin: string, { fetch, clock }: OriginParts): Finding[] {
  const endsAtMs = fetch.certificateEndsAtMs(new URL(origin).hostname);
  return endsAtMs === null || endsAtMs - clock() >= CERTIFICATE_DAYS * DAY_MS
    ? []
    : [
        warning(
          'origin.certificate',
          `The certificate of ${origin} ends on ${new Date(endsAtMs).toISOString().slice(0, 10)}`,
          'Look why it was not renewed.',
        ),
      ];
}
