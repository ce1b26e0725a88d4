import type { RawData } from 'ws';

/** How long a message is, whatever pieces it came in. */
export function byteLength(message: RawData): number {
  return Array.isArray(message)
    ? message.reduce((bytes, piece) => bytes + piece.byteLength, 0)
    : message.byteLength;
}

/** Looks once time has passed and what lay unread on sockets in a busy moment is read. */
export function lookAfter(delayMs: number, look: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(look), delayMs).unref();
}
