import { printable } from './foreign-text.ts';

/** Why a relay rejected an event, by the prefix of its message (NIP-01, NIP-42). `other`: no known prefix. */
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

/** `duplicate`: the relay already has the event. */
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

/** One word, then a colon. Some relays send only the word. */
const PREFIX = /^\s*([a-z]+(?:[-_ ][a-z]+)?)\s*(?::|$)/i;

/**
 * Reads the message of an OK or a CLOSED (NIP-01), such as `rate-limited: slow down there`.
 *
 * @returns the meaning of its prefix, and the message fit to be shown: printable, one line, short, maybe empty
 */
export function readRelayWord(message: string): { meaning: RelayMeaning; word: string } {
  const prefix = PREFIX.exec(message)?.[1]?.toLowerCase().replace(/[_ ]/, '-') ?? '';
  return { meaning: MEANING_BY_PREFIX.get(prefix) ?? 'other', word: printable(message) };
}
