import { z } from 'zod';
import { normaliseRelayUrl } from './relay-url.ts';

/** The kind of relay lists (NIP-65). */
export const RELAY_LIST_KIND = 10_002;

/** NIP-65 recommends two to four. */
const MAX_RELAYS = 10;

/** The relays that a user published (NIP-65). */
export interface RelayList {
  /** Those that the user writes to: normalised, distinct, in the order of the list. */
  relays: string[];
  /** Unix seconds, by the user's clock. */
  createdAt: number;
  /** Of the event, hex. */
  id: string;
}

/** Any JSON can be signed, so a valid signature does not imply a well-formed event (NIP-01). */
const EVENT = z.object({
  kind: z.literal(RELAY_LIST_KIND),
  id: z.string(),
  created_at: z.int(),
  tags: z.array(z.array(z.string())),
});

/**
 * Reads a relay list. Skips what is no relay, and relays that the user only reads from.
 *
 * @param event with a verified signature
 * @param options see {@link normaliseRelayUrl}
 * @returns null if the event is no relay list
 */
export function readRelayList(
  event: unknown,
  options: { allowPrivate: boolean },
): RelayList | null {
  const { data } = EVENT.safeParse(event);
  return data === undefined
    ? null
    : { relays: writtenRelays(data.tags, options), createdAt: data.created_at, id: data.id };
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
