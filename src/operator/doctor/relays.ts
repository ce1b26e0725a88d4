import type { SocketConnector } from '../../net/guarded-socket.ts';
import { lookAfter } from '../../net/guarded-socket.ts';
import { handshakeFailure } from '../../net/unreachable-reason.ts';
import { parseJson } from '../../untrusted-text.ts';
import { adviceOn, type Finding, ok, problem, warning } from './finding.ts';

/** Asks for one relay list, as NIP-65 lookups do. Every relay has some. */
const REQUEST = JSON.stringify(['REQ', 'doctor', { kinds: [10_002], limit: 1 }]);

/** From the request to the first message of the answer. */
const ANSWER_TIMEOUT_MS = 10_000;

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
function failureOf(relay: string, connect: SocketConnector): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connect(relay);
  const end = (failure: string | null) => {
    resolve(failure);
    socket.close();
  };
  socket.on('error', (error) => end(handshakeFailure(error)));
  socket.once('close', () => end('connection lost'));
  socket.once('message', (data) =>
    end(Array.isArray(parseJson(String(data))) ? null : 'it does not answer like a relay'),
  );
  socket.once('open', () => {
    socket.send(REQUEST);
    lookAfter(ANSWER_TIMEOUT_MS, () => end('timed out'));
  });
  return promise;
}
