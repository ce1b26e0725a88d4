import type { RawData } from 'ws';

export function byteLength(message: RawData): number {
  return Array.isArray(message)
    ? message.reduce((bytes, piece) => bytes + piece.byteLength, 0)
    : message.byteLength;
}

/**
 * Runs a check after a timeout, and after the messages that arrived in time but were not read yet because
 * this process was busy.
 */
export function lookAfter(delayMs: number, look: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(look), delayMs).unref();
}
