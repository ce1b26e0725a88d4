import type { GuardedAnswer, GuardedFetch } from '../../net/guarded-fetch.ts';
import { parseJson, printable } from '../../untrusted-text.ts';
import { adviceOn, type Finding, ok, problem, warning } from './finding.ts';

/** The public key whose secret key is 1. Every key has a Lightning address, and nobody owns this one. */
const PROBE_NPUB = 'npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d';

/** An answer of ours has less than 1 kB; the home page of another server may be long. */
const MAX_BODY_BYTES = 1024 * 1024;

const TOO_MANY_REQUESTS = 429;

/** How a connection to the public address of one's own network fails if the router does not support it. */
const HAIRPIN_REASONS: ReadonlySet<string> = new Set(['timed out', 'connection refused']);

const HAIRPIN_ADVICE =
  'If it can be reached from elsewhere, the router does not support NAT hairpinning: run `nutpost doctor` on another machine.';

/** What to expect at a public origin. */
export interface OriginsToCheck {
  origins: readonly string[];
  /** The public key of `ZAP_SECRET_KEY`, hex; null if there is none. */
  zapPubkey: string | null;
  /** Otherwise no origin can answer, which is not a problem of the origins. */
  isServiceRunning: boolean;
}

/**
 * Sends one request to each public origin, as a payer would: LNURL discovery. Its answer names the origin that
 * the service saw and the zap key that it uses, and so shows whether the origin leads to this service.
 */
export async function checkOrigins(
  { origins, zapPubkey, isServiceRunning }: OriginsToCheck,
  fetch: Pick<GuardedFetch, 'request'>,
): Promise<Finding[]> {
  return Promise.all(
    origins.map(async (origin) => {
      const answer = await fetch.request({
        method: 'GET',
        url: `${origin}/.well-known/lnurlp/${PROBE_NPUB}`,
        maxBodyBytes: MAX_BODY_BYTES,
      });
      const finding = judge(origin, answer, zapPubkey);
      return finding.level === 'problem' && !isServiceRunning
        ? warning(finding.check, finding.what, START_FIRST)
        : finding;
    }),
  );
}

const START_FIRST =
  'No process of the service is running: start it, and run `nutpost doctor` again.';

function judge(origin: string, answer: GuardedAnswer, zapPubkey: string | null): Finding {
  if (answer.outcome === 'unreachable') {
    const { reason } = answer;
    return problem(
      'origin.reachable',
      `${origin} cannot be reached from this machine: ${reason}`,
      HAIRPIN_REASONS.has(reason) ? `${adviceOn(reason)} ${HAIRPIN_ADVICE}` : adviceOn(reason),
    );
  }
  const { status, headers } = answer;
  const body = fieldsOf(answer.text);
  if (status === TOO_MANY_REQUESTS) {
    return warning(
      'origin.rate_limit',
      `${origin} rejects requests from this machine as too many (status ${status})`,
      'Wait a minute, and run `nutpost doctor` again. If payers are rejected too, check TRUST_PROXY, LIMIT_REQUESTS and the limits of the proxy.',
    );
  }
  if (status >= 300 && status < 400) {
    return problem(
      'origin.redirect',
      `${origin} redirects clients to ${printable(headers.get('location') ?? 'another address')}`,
      'Put the address where it leads into PUBLIC_ORIGINS: many wallets do not follow redirects.',
    );
  }
  if (body['tag'] === 'payRequest') {
    return judgeDiscovery(origin, body, zapPubkey);
  }
  return body['status'] === 'ERROR'
    ? problem(
        'origin.discovery',
        `Payers at ${origin} get an error: ${printable(String(body['reason']))}`,
        'The findings about the default mint usually explain it; the log of the service says more.',
      )
    : problem(
        'origin.elsewhere',
        `${origin} does not answer like nutpost (status ${status})`,
        'Check where its name leads. The proxy must pass on everything under /.well-known/, /api/ and /lnurl/ to HOST and PORT of the service (502 to 504 mean that it cannot reach it).',
      );
}

function judgeDiscovery(
  origin: string,
  body: Readonly<Record<string, unknown>>,
  zapPubkey: string | null,
): Finding {
  const callback = String(body['callback']);
  if (!callback.startsWith(`${origin}/`)) {
    const seen = URL.canParse(callback) ? new URL(callback).origin : callback;
    return problem(
      'origin.host',
      `Payers at ${origin} are sent to ${printable(seen)}`,
      'Have the proxy pass on Host as the client sent it, port included. After a change of PUBLIC_ORIGINS, restart the service.',
    );
  }
  return (body['nostrPubkey'] ?? null) === zapPubkey
    ? ok('origin.reachable', `${origin} leads to this service`)
    : problem(
        'origin.zap_key',
        `${origin} leads to a service with another ZAP_SECRET_KEY: another instance, or one that was not restarted`,
        'Check where its name and the proxy lead. Give every process the same ZAP_SECRET_KEY, and restart it after a change.',
      );
}

function fieldsOf(text: string): Record<string, unknown> {
  const body = parseJson(text);
  return typeof body === 'object' && body !== null ? { ...body } : {};
}
