import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { MAX_UNREAD_LENGTH, MIN_COUNTED_RESPONSE_LENGTH } from './limits.ts';

/**
 * Limits the memory of long responses that clients do not read. If there are too many, disconnects the client that has
 * been reading for longest. Only texts are counted: buffers are static files, whose memory all responses share.
 */
export function limitUnreadResponses(app: FastifyInstance): void {
  let totalLength = 0;
  /** The socket that has been reading for longest comes first. */
  const unreadLengths = new Map<Socket, number>();
  const observedSockets = new WeakSet<Socket>();

  const getLength = (socket: Socket) => unreadLengths.get(socket) ?? 0;
  const setLength = (socket: Socket, length: number) => {
    totalLength += length - getLength(socket);
    if (length === 0) {
      unreadLengths.delete(socket);
    } else {
      unreadLengths.set(socket, length);
    }
  };

  app.addHook('onSend', (request, reply, payload, done) => {
    const { socket } = request.raw;
    const length = typeof payload === 'string' ? payload.length : 0;
    // A closed socket emits no further `close` event, so its responses would count for ever.
    if (length >= MIN_COUNTED_RESPONSE_LENGTH && !socket.closed) {
      setLength(socket, getLength(socket) + length);
      // A socket that was closed meanwhile counts 0 already.
      reply.raw.once('finish', () => setLength(socket, Math.max(0, getLength(socket) - length)));
      if (!observedSockets.has(socket)) {
        observedSockets.add(socket);
        socket.once('close', () => setLength(socket, 0));
      }
      for (const slowestSocket of unreadLengths.keys()) {
        if (totalLength <= MAX_UNREAD_LENGTH) {
          break;
        }
        slowestSocket.destroy();
        setLength(slowestSocket, 0);
      }
    }
    done();
  });
}
