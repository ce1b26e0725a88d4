import type { Event } from 'nostr-tools';
import { normaliseRelayUrl } from './relay-url.ts';

export const RELAY_LIST_KIND = 10_002;

/** NIP-65 recommends two to four. */
const MAX_RELAYS = 10;

export interface RelayList {
  /** Those that the user writes to: normalised, distinct, in the order of the list. */
  relays: string[];
  /** Unix seconds, by the user's clock. */
  createdAt: number;
  /** Of the event, hex. */
  id: string;
}

/**
 * Reads a relay list. Skips what is no relay, and relays that the user only reads from.
 *
 * @param event of {@link RELAY_LIST_KIND}, with a verified signature
 * @param options see {@link normaliseRelayUrl}
 */
export function readRelayList(
  { id, created_at, tags }: Pick<Event, 'id' | 'created_at' | 'tags'>,
  options: { allowPrivate: boolean },
): RelayList {
  return { relays: writtenRelays(tags, options), createdAt: created_at, id };
}

function writtenRelays(tags: string[][], options: { allowPrivate: boolean }): string[] {
  const relays = new Set<string>();
  for (const [name, url = '', marker = ''] of tags) {
    if (relays.size === MAX_RELAYS) {
      break;
    }
    const isWritten = name === 'r' && (marker === '' || marker === 'write');
    const relay = isWritten ? normaliseRelayUrl(url, options) : null;
    if (relay !== null) {
      relays.add(relay);
    }
  }
  return [...relays];
}

/** The newer of two lists of a user; of the same second, the one with the lower id (NIP-01). */
export function newerList(one: RelayList, other: RelayList): RelayList {
  if (one.createdAt !== other.createdAt) {
    return one.createdAt > other.createdAt ? one : other;
  }
  return one.id <= other.id ? one : other;
}
