import { printable } from './foreign-text.ts';

/**
 * Why a relay turned an event away, by the prefix of its words (NIP-01, NIP-42). `other`: they have no
 * prefix, or none that is known.
 */
export type RelayRefusal =
  | 'blocked'
  | 'invalid'
  | 'pow'
  | 'restricted'
  | 'mute'
  | 'auth_required'
  | 'rate_limited'
  | 'error'
  | 'other';

/** `duplicate`: the relay has the event already. */
export type RelayMeaning = RelayRefusal | 'duplicate';

const MEANING_BY_PREFIX: ReadonlyMap<string, RelayMeaning> = new Map([
  ['duplicate', 'duplicate'],
  ['blocked', 'blocked'],
  ['invalid', 'invalid'],
  ['pow', 'pow'],
  ['restricted', 'restricted'],
  ['mute', 'mute'],
  ['auth-required', 'auth_required'],
  ['rate-limited', 'rate_limited'],
  ['error', 'error'],
]);

/**
 * What a relay says where it is in trouble itself: it thinks nothing of whom it says it to, and may say
 * another thing in a moment.
 */
export function isPassing(meaning: RelayMeaning): meaning is 'error' | 'rate_limited' {
  return meaning === 'error' || meaning === 'rate_limited';
}

/** One word, then a colon. Some relays say nothing but the word. */
const PREFIX = /^\s*([a-z]+(?:[-_ ][a-z]+)?)\s*(?::|$)/i;

/**
 * Reads the words of an OK or a CLOSED (NIP-01), as in `rate-limited: slow down there`.
 *
 * @returns what they mean where they say no, and all of them as they may be shown: printable, one line,
 * short, maybe empty
 */
export function readRelayWord(message: string): { meaning: RelayMeaning; word: string } {
  const prefix = PREFIX.exec(message)?.[1]?.toLowerCase().replace(/[_ ]/, '-') ?? '';
  return { meaning: MEANING_BY_PREFIX.get(prefix) ?? 'other', word: printable(message) };
}
