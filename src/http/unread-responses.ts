import type { ServerResponse } from 'node:http';
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

  const setLength = (socket: Socket, length: number) => {
    totalLength += length - (unreadLengths.get(socket) ?? 0);
    if (length > 0) {
      unreadLengths.set(socket, length);
    } else {
      unreadLengths.delete(socket);
    }
  };

  const add = (socket: Socket, response: ServerResponse, length: number) => {
    setLength(socket, (unreadLengths.get(socket) ?? 0) + length);
    response.once('finish', () => {
      // Nothing is left of a socket that was disconnected.
      setLength(socket, Math.max(0, (unreadLengths.get(socket) ?? 0) - length));
    });
    if (!observedSockets.has(socket)) {
      observedSockets.add(socket);
      socket.once('close', () => setLength(socket, 0));
    }
  };

  app.addHook('onSend', (request, reply, payload, done) => {
    const { socket } = request.raw;
    const isCounted = typeof payload === 'string' && payload.length >= MIN_COUNTED_RESPONSE_LENGTH;
    // A closed socket emits no `close` event.
    if (isCounted && !socket.closed) {
      add(socket, reply.raw, payload.length);
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
