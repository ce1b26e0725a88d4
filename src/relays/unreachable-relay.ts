import { type UnreachableReason, unreachableReason } from '../net/unreachable-reason.ts';

/**
 * Why a relay could not be reached, in a fixed set of words.
 *
 * - `handshake refused`: it answered the handshake with a status other than 101.
 * - `not a relay`: it does not speak the WebSocket protocol.
 */
export type UnreachableRelay = UnreachableReason | 'handshake refused' | 'not a relay';

/** The message of `ws` for a handshake that was abandoned, such as at the deadline of `net/`. */
const GIVEN_UP = /closed before the connection was established/;

/** The message of `ws` for any other status than 101. */
const REFUSED = /^Unexpected server response/;

/** Maps the error of a handshake to {@link UnreachableRelay}. */
export function unreachableRelay(error: unknown): UnreachableRelay {
  if (!(error instanceof Error)) {
    return 'connection failed';
  }
  if (GIVEN_UP.test(error.message)) {
    return 'timed out';
  }
  if (REFUSED.test(error.message)) {
    return 'handshake refused';
  }
  // Errors of `ws` itself have no code; those of Node's HTTP parser have these.
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return code === '' || code.startsWith('HPE_') ? 'not a relay' : unreachableReason(error);
}
