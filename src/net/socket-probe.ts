import type { SocketConnector } from './guarded-socket.ts';
import { lookAfter } from './socket-message.ts';
import { handshakeFailure } from './unreachable-reason.ts';

/** From the request to the first message of the answer. */
const ANSWER_TIMEOUT_MS = 10_000;

/** The first message that came back, or why there was none. */
export type SocketProbe =
  | { outcome: 'answered'; message: string }
  | { outcome: 'failed'; reason: string };

/** Opens a WebSocket, sends one message, waits for the first message that comes back, and closes it. */
export function probeSocket(
  connect: SocketConnector,
  url: string,
  message: string,
): Promise<SocketProbe> {
  const probe = Promise.withResolvers<SocketProbe>();
  const socket = connect(url);
  const end = (result: SocketProbe) => {
    probe.resolve(result);
    socket.close();
  };
  socket.on('error', (error) => end({ outcome: 'failed', reason: handshakeFailure(error) }));
  socket.once('close', () => end({ outcome: 'failed', reason: 'connection lost' }));
  socket.once('message', (data) => end({ outcome: 'answered', message: String(data) }));
  socket.once('open', () => {
    socket.send(message);
    lookAfter(ANSWER_TIMEOUT_MS, () => end({ outcome: 'failed', reason: 'timed out' }));
  });
  return probe.promise;
}
