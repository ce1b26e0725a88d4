import { npubEncode } from 'nostr-tools/nip19';
import type { AlertTarget } from '../../net/alert-target.ts';
import type { GuardedFetch } from '../../net/guarded-fetch.ts';
import type { HttpResponse } from '../../net/http-client.ts';
import { toDisplayText } from '../../untrusted-text.ts';
import { type Finding, getUnreachableAdvice, ok, problem, warning } from './finding.ts';

/**
 * Sends one LNURL discovery request to each public origin, as a payer would. The response of nutpost contains the
 * origin of the request and the zap key, which show whether the public origin leads to this service. `zapPubkey` is
 * null if users of the default mint cannot receive zaps. While the service is stopped, problems are only warnings.
 */
export async function checkOrigins(
  options: {
    origins: readonly string[];
    /** A recipient; null: any key. */
    probePubkey: string | null;
    zapPubkey: string | null;
    isServiceStopped: boolean;
  },
  fetch: Pick<GuardedFetch, 'request'>,
): Promise<Finding[]> {
  const { origins, probePubkey, zapPubkey, isServiceStopped } = options;
  const npub = probePubkey === null ? PROBE_NPUB : npubEncode(probePubkey);
  return Promise.all(
    origins.map(async (origin) => {
      const response = await fetch.request({
        url: `${origin}/.well-known/lnurlp/${npub}`,
        // A response of nutpost is below 1 kB, but the origin may lead to another server.
        maxBodyBytes: 1024 * 1024,
      });
      const finding = evaluateResponse(origin, response, zapPubkey);
      return finding.level === 'problem' && isServiceStopped
        ? warning(finding.check, finding.message, START_SERVICE_ADVICE)
        : finding;
    }),
  );
}

/** The public key of the secret key 1. Unless the service is for members, every key has an address. No user has this one. */
const PROBE_NPUB = 'npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d';

const START_SERVICE_ADVICE =
  'No process of the service is running: start the service, then run `nutpost doctor` again.';

function evaluateResponse(
  origin: string,
  response: HttpResponse,
  zapPubkey: string | null,
): Finding {
  if (response.outcome === 'unreachable') {
    const { reason } = response;
    // Behind a router without NAT hairpinning, connections to the machine's own public address fail like this.
    const mayLackHairpinning = reason === 'timed out' || reason === 'connection refused';
    return problem(
      'origin.reachable',
      `${origin} cannot be reached from this machine: ${reason}`,
      `${getUnreachableAdvice(reason)}${mayLackHairpinning ? HAIRPINNING_ADVICE : ''}`,
    );
  }
  const { status, headers, json } = response;
  const body: Record<string, unknown> = typeof json === 'object' ? { ...json } : {};
  if (status === 429) {
    return warning(
      'origin.rate_limit',
      `${origin} rejects requests from this machine as too many (status ${status})`,
      'Wait a minute, then run `nutpost doctor` again. If payers are rejected too, check TRUST_PROXY, LIMIT_REQUESTS and the limits of the proxy.',
    );
  }
  if (status >= 300 && status < 400) {
    return problem(
      'origin.redirect',
      `${origin} redirects clients to ${toDisplayText(headers.get('location') ?? 'another address')}`,
      'Set PUBLIC_ORIGINS to the target of the redirect: many wallets do not follow redirects.',
    );
  }
  if (body['status'] === 'ERROR') {
    return problem(
      'origin.discovery',
      `Payers at ${origin} get an error: ${toDisplayText(String(body['reason']))}`,
      'The findings about the database and the default mint usually explain it; the log of the service has details.',
    );
  }
  if (body['tag'] !== 'payRequest') {
    return problem(
      'origin.elsewhere',
      `${origin} does not respond like nutpost (status ${status})`,
      'Check its DNS name. The proxy must forward /.well-known/, /api/ and /lnurl/ to HOST and PORT of the service (502 to 504: the proxy cannot reach the service).',
    );
  }
  const callback = String(body['callback']);
  if (!callback.startsWith(`${origin}/`)) {
    const callbackOrigin = URL.parse(callback)?.origin ?? callback;
    return problem(
      'origin.host',
      `Payers at ${origin} are sent to ${toDisplayText(callbackOrigin)}`,
      'Configure the proxy to forward the Host header as the client sent it, including the port. Restart the service after a change of PUBLIC_ORIGINS.',
    );
  }
  return (body['nostrPubkey'] ?? null) === zapPubkey
    ? ok('origin.reachable', `${origin} leads to this service`)
    : problem(
        'origin.zap_key',
        `${origin} leads to a service with another ZAP_SECRET_KEY: another instance, or one that was not restarted`,
        'Check its DNS name and the target of the proxy. Give every process the same ZAP_SECRET_KEY, and restart it after a change.',
      );
}

const HAIRPINNING_ADVICE =
  ' If it can be reached from elsewhere, the router does not support NAT hairpinning: run `nutpost doctor` on another machine.';

/** Checks whether the server of ALERT_URL responds, without sending an alert. */
export async function checkAlertTarget(
  target: AlertTarget | null,
  fetch: Pick<GuardedFetch, 'request'>,
): Promise<Finding[]> {
  if (target === null) {
    return [];
  }
  const { origin } = new URL(target.url);
  const response = await fetch.request({ url: `${origin}/`, maxBodyBytes: 1024 * 1024 });
  if (response.outcome === 'responded') {
    const text = `ALERT_URL: ${origin} responds; \`nutpost alert test\` sends a test message`;
    return [ok('settings.alert_url', text)];
  }
  const { reason } = response;
  const text = `ALERT_URL: ${origin} cannot be reached (${reason}), so no alert reaches you`;
  return [warning('settings.alert_url', text, getUnreachableAdvice(reason))];
}
