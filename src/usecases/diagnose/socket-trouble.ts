import type { ProbedSocket } from '../../net/socket-probe.ts';
import { unreachableRelay } from '../../relays/unreachable-relay.ts';

/** Why a WebSocket did not open, in a few words. */
export function socketTrouble(probed: Exclude<ProbedSocket, { outcome: 'open' }>): string {
  if (probed.outcome === 'refused') {
    return `the handshake was answered by status ${probed.status}`;
  }
  const reason = unreachableRelay(probed.error);
  return reason === 'not a relay' ? 'what answers there is no WebSocket' : reason;
}
