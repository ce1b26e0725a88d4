import { setTimeoutAfterPendingIo, type WebSocketConnector } from '../../net/guarded-websocket.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { RELAY_RESPONSE_TIMEOUT_MS } from '../limits.ts';
import { type Finding, getUnreachableAdvice, ok, problem, warning } from './finding.ts';

/** Requests one relay list (NIP-65). Every relay stores relay lists. */
const PROBE_REQUEST = JSON.stringify(['REQ', 'doctor', { kinds: [10_002], limit: 1 }]);

export async function checkRelays(
  relays: readonly string[],
  connect: WebSocketConnector,
): Promise<Finding[]> {
  const failureReasons = await Promise.all(relays.map((relay) => probeRelay(relay, connect)));
  // One working relay is enough: a zap receipt counts as delivered if one relay accepts it.
  const report = failureReasons.includes(null) ? warning : problem;
  return relays.map((relay, index) => {
    const reason = failureReasons[index] ?? null;
    return reason === null
      ? ok('relay.reachable', `${relay} responds`)
      : report(
          'relay.reachable',
          `${relay} cannot be used: ${reason}`,
          getUnreachableAdvice(reason),
        );
  });
}

/** Returns the reason why a relay cannot be used, or null if it works. */
function probeRelay(relay: string, connect: WebSocketConnector): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connect(relay);
  const finish = (failureReason: string | null) => {
    resolve(failureReason);
    socket.close();
  };
  socket.once('close', ({ reason }) => finish(reason));
  socket.once('message', (text) =>
    finish(Array.isArray(tryParseJson(text)) ? null : 'it does not respond like a relay'),
  );
  socket.once('open', () => {
    socket.send(PROBE_REQUEST);
    setTimeoutAfterPendingIo(RELAY_RESPONSE_TIMEOUT_MS, () => finish('timed out'));
  });
  return promise;
}
