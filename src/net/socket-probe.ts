import type { SocketConnector } from './guarded-socket.ts';
import { lookAfter } from './socket-message.ts';

/** From the open socket to the first message. */
const ANSWER_TIMEOUT_MS = 10_000;

/** What came of opening a WebSocket, and of waiting for its first message. */
export type ProbedSocket =
  | {
      outcome: 'open';
      /** Null where none was waited for, or none came in time. */
      firstMessage: string | null;
      /** The `Date` of the handshake's answer; null where it had none. */
      date: string | null;
    }
  /** The handshake was answered by another status than 101. */
  | { outcome: 'refused'; status: number }
  /** With what the socket failed with, if it said. */
  | { outcome: 'failed'; error: unknown };

/**
 * Opens a WebSocket, says something or nothing, and closes it.
 *
 * @param options.say what is sent once it is open; absent: nothing
 * @param options.isAnswered whether a first message is waited for
 */
export function probeSocket(
  connect: SocketConnector,
  url: string,
  options: { say?: string; isAnswered: boolean },
): Promise<ProbedSocket> {
  const probed = Promise.withResolvers<ProbedSocket>();
  const socket = connect(url);
  let date: string | null = null;
  let error: unknown = null;
  const open = (firstMessage: string | null) => {
    probed.resolve({ outcome: 'open', firstMessage, date });
    socket.close();
  };
  socket.once('upgrade', (answer) => {
    date = answer.headers.date ?? null;
  });
  socket.once('unexpected-response', (_request, answer) => {
    probed.resolve({ outcome: 'refused', status: answer.statusCode ?? 0 });
    socket.terminate();
  });
  socket.on('error', (reason) => {
    error ??= reason;
  });
  socket.once('close', () => probed.resolve({ outcome: 'failed', error }));
  socket.once('open', () => {
    if (options.say !== undefined) {
      socket.send(options.say);
    }
    if (!options.isAnswered) {
      open(null);
      return;
    }
    const silence = lookAfter(ANSWER_TIMEOUT_MS, () => open(null));
    socket.once('close', () => clearTimeout(silence));
    socket.once('message', (data) => open(String(data)));
  });
  return probed.promise;
}
