import { type UnreachableReason, unreachableReason } from '../net/unreachable-reason.ts';

/**
 * Why a relay could not be reached, in a fixed set of words.
 *
 * - `handshake refused`: it answered the handshake, by another status than 101.
 * - `not a relay`: what answered does not speak the WebSocket protocol.
 */
export type UnreachableRelay = UnreachableReason | 'handshake refused' | 'not a relay';

/** What `ws` says of a handshake that was given up, as by the deadline of `net/`. */
const GIVEN_UP = /closed before the connection was established/;

/** Puts what a handshake failed with into the words of {@link UnreachableRelay}. */
export function unreachableRelay(error: unknown): UnreachableRelay {
  if (!(error instanceof Error)) {
    return 'connection failed';
  }
  if (GIVEN_UP.test(error.message)) {
    return 'timed out';
  }
  // What `ws` itself finds wrong with an answer has no code; what Node's HTTP parser does has these.
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return code === '' || code.startsWith('HPE_') ? 'not a relay' : unreachableReason(error);
}
