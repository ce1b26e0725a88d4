import { setTimeoutAfterPendingIo, type WebSocketConnector } from '../../net/guarded-websocket.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { type Finding, getUnreachableAdvice, ok, problem, warning } from './finding.ts';

export async function checkRelays(
  relays: readonly string[],
  connect: WebSocketConnector,
): Promise<Finding[]> {
  const failureReasons = await Promise.all(relays.map((relay) => probeRelay(relay, connect)));
  // One working relay is enough: a zap receipt counts as delivered if one relay accepts it.
  const createFinding = failureReasons.includes(null) ? warning : problem;
  return relays.map((relay, index) => {
    const reason = failureReasons[index] ?? null;
    if (reason === null) {
      return ok('relay.reachable', `${relay} responds`);
    }
    const message = `${relay} cannot be used: ${reason}`;
    return createFinding('relay.reachable', message, getUnreachableAdvice(reason));
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
    // Every relay stores relay lists (NIP-65).
    socket.send(JSON.stringify(['REQ', 'doctor', { kinds: [10_002], limit: 1 }]));
    setTimeoutAfterPendingIo(10_000, () => finish('timed out'));
  });
  return promise;
}
