import { type Finding, ok, problem } from '../../domain/finding.ts';
import { parseJson, printable } from '../../domain/foreign-text.ts';
import type { SocketConnector } from '../../net/guarded-socket.ts';
import { probeSocket } from '../../net/socket-probe.ts';
import { limited, TOO_MANY_REQUESTS } from './reach.ts';
import { socketTrouble } from './socket-trouble.ts';

const PATH = '/api/v2/ws/quote';

/** Looks whether wallets hear of payments at once through an origin (spec.md section 6). */
export async function checkSocket(origin: string, connect: SocketConnector): Promise<Finding[]> {
  const url = `${origin.replace(/^http/, 'ws')}${PATH}`;
  const probed = await probeSocket(connect, url, { isAnswered: true });
  if (probed.outcome === 'refused' && probed.status === TOO_MANY_REQUESTS) {
    return [limited(origin)];
  }
  if (probed.outcome !== 'open') {
    return [
      problem(
        'socket.refused',
        `No WebSocket opens at ${origin}: ${socketTrouble(probed)}`,
        `Have the proxy pass on the Upgrade and Connection headers for ${PATH}.`,
      ),
    ];
  }
  const challenge = parseJson(probed.firstMessage ?? '') as
    | { type?: unknown; payload?: { url?: unknown } }
    | null
    | undefined;
  if (challenge?.type !== 'challenge') {
    return [
      problem(
        'socket.silent',
        `The WebSocket at ${origin} opens, and nothing comes through it`,
        `Have the proxy pass on what the service sends at ${PATH} at once, without buffering.`,
      ),
    ];
  }
  const signedUrl = String(challenge.payload?.url);
  return [
    signedUrl === `${origin}${PATH}`
      ? ok('socket.opened', `Wallets hear of payments at once through ${origin}`)
      : problem(
          'socket.host',
          `The WebSocket at ${origin} wants a signature for ${printable(signedUrl)}: wallets refuse that`,
          'Have the proxy pass on Host as the client sent it, also for WebSockets.',
        ),
  ];
}
