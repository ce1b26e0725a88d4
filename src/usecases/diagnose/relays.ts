import { type Finding, ok, problem, warning } from '../../domain/finding.ts';
import { parseJson } from '../../domain/foreign-text.ts';
import type { SocketConnector } from '../../net/guarded-socket.ts';
import { probeSocket } from '../../net/socket-probe.ts';
import { adviceOn } from './advice.ts';

/** Asks for one relay list, as NIP-65 lookups do. Every relay has some. */
const REQUEST = JSON.stringify(['REQ', 'doctor', { kinds: [10_002], limit: 1 }]);

/** Sends one request to each relay in `ZAP_RELAYS`. */
export async function checkRelays(
  relays: readonly string[],
  connect: SocketConnector,
): Promise<Finding[]> {
  const failures = await Promise.all(relays.map((relay) => failureOf(relay, connect)));
  // A receipt is delivered if one relay takes it.
  const level = failures.includes(null) ? warning : problem;
  return relays.map((relay, index) => {
    const reason = failures[index] ?? null;
    return reason === null
      ? ok('relay.reachable', `${relay} answers`)
      : level('relay.reachable', `${relay} cannot be used: ${reason}`, adviceOn(reason));
  });
}

/** Why a relay cannot be used; null if it can. */
async function failureOf(relay: string, connect: SocketConnector): Promise<string | null> {
  const probe = await probeSocket(connect, relay, REQUEST);
  if (probe.outcome === 'failed') {
    return probe.reason;
  }
  return Array.isArray(parseJson(probe.message)) ? null : 'it does not answer like a relay';
}
