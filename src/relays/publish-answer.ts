import type { RelayRefusal } from '../domain/relay-word.ts';

/**
 * What came of an event that was to be published at a relay. `word` is what the relay said, printable
 * and short, maybe empty.
 *
 * - `accepted`: the relay has it, now or since before (NIP-01 `duplicate:`).
 * - `refused`: the relay said no.
 * - `unanswered`: it was sent, and no answer came in time, or the connection was lost. The relay may
 *   have it.
 * - `unreachable`: no connection could be had, or it was lost before; nothing was sent. `reason` is of a
 *   fixed set of words: no path, no address, nothing that the relay said.
 */
export type PublishAnswer =
  | { outcome: 'accepted'; word: string }
  | { outcome: 'refused'; refusal: RelayRefusal; word: string }
  | { outcome: 'unanswered' }
  | { outcome: 'unreachable'; reason: string };
