import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { MAX_UNREAD_LENGTH, MIN_COUNTED_LENGTH } from './limits.ts';

/**
 * Limits the memory of long responses that clients do not read. If all of them together are too long, disconnects the
 * client that has been reading for longest. Buffers do not count, because they are shared.
 */
export function limitUnreadResponses(app: FastifyInstance): void {
  let totalLength = 0;
  /** The oldest first. */
  const lengths = new Map<Socket, number>();
  const observedSockets = new WeakSet<Socket>();

  const change = (socket: Socket, difference: number) => {
    const before = lengths.get(socket) ?? 0;
    const after = Math.max(0, before + difference);
    totalLength += after - before;
    if (after === 0) {
      lengths.delete(socket);
    } else {
      lengths.set(socket, after);
    }
  };

  app.addHook('onSend', (request, reply, payload, done) => {
    const { socket } = request.raw;
    if (typeof payload === 'string' && payload.length >= MIN_COUNTED_LENGTH && !socket.closed) {
      change(socket, payload.length);
      reply.raw.once('finish', () => change(socket, -payload.length));
      if (!observedSockets.has(socket)) {
        observedSockets.add(socket);
        socket.once('close', () => change(socket, Number.NEGATIVE_INFINITY));
      }
      for (const oldest of lengths.keys()) {
        if (totalLength <= MAX_UNREAD_LENGTH) {
          break;
        }
        oldest.destroy();
        change(oldest, Number.NEGATIVE_INFINITY);
      }
    }
    done();
  });
}
