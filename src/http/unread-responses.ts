import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { MAX_UNREAD_LENGTH } from './limits.ts';

/**
 * Limits the memory of long responses that clients do not read. If all of them together are too long, disconnects the
 * client that has been reading for longest. Buffers do not count, because they are shared.
 */
export class UnreadResponses {
  #totalLength = 0;
  /** The length of the unread responses of each connection, the oldest first. */
  readonly #lengths = new Map<Socket, number>();
  readonly #observedSockets = new WeakSet<Socket>();

  /**
   * Counts a long response until the operating system has taken all of it, or the
   * connection closes.
   */
  add({ raw: { socket } }: FastifyRequest, reply: FastifyReply, length: number): void {
    if (socket.closed) {
      return;
    }
    this.#change(socket, length);
    reply.raw.once('finish', () => this.#change(socket, -length));
    if (!this.#observedSockets.has(socket)) {
      this.#observedSockets.add(socket);
      socket.once('close', () => this.#change(socket, Number.NEGATIVE_INFINITY));
    }
    for (const oldest of this.#lengths.keys()) {
      if (this.#totalLength <= MAX_UNREAD_LENGTH) {
        break;
      }
      oldest.destroy();
      this.#change(oldest, Number.NEGATIVE_INFINITY);
    }
  }

  #change(socket: Socket, difference: number): void {
    const before = this.#lengths.get(socket) ?? 0;
    const after = Math.max(0, before + difference);
    this.#totalLength += after - before;
    if (after === 0) {
      this.#lengths.delete(socket);
    } else {
      this.#lengths.set(socket, after);
    }
  }
}
