import type { DueRelay } from '../store/receipt-delivery-store.ts';

/**
 * Relays that did what they are for the last time are sent to at a time: each has a socket, and up to
 * half a megabyte of receipts in memory.
 */
const MAX_PROVEN = 128;

/**
 * Relays of which nothing good is known have places of their own: strangers name them, many were never
 * there, and each that takes a connection and says nothing has its place for many seconds.
 */
const MAX_UNPROVEN = 32;

/**
 * What kind of place a relay has. The operator's have one always: there are few of them, and each gets
 * every receipt.
 */
type PlaceKind = 'own' | 'proven' | 'unproven';

/** A turn that is under way, or may begin. */
export interface Place {
  kind: PlaceKind;
  /** Who bears it; of the unproven, each once at a time. */
  party: string;
}

/** A relay whose turn may begin. */
export interface PlacedRelay {
  relay: DueRelay;
  place: Place;
}

/**
 * Gives the free places to those who wait the longest.
 *
 * @param due in any order
 * @param taken the turns that are under way, by url
 * @param parts.own the operator's relays
 * @param parts.partyOf who bears the turn of a relay
 */
export function givePlaces(
  due: readonly DueRelay[],
  taken: ReadonlyMap<string, Place>,
  parts: { own: ReadonlySet<string>; partyOf: (url: string) => string },
): PlacedRelay[] {
  const places = [...taken.values()];
  const unproven = places.filter(({ kind }) => kind === 'unproven');
  const free = {
    own: Number.POSITIVE_INFINITY,
    proven: MAX_PROVEN - places.filter(({ kind }) => kind === 'proven').length,
    unproven: MAX_UNPROVEN - unproven.length,
  };
  const busyParties = new Set(unproven.map(({ party }) => party));
  const given: PlacedRelay[] = [];
  for (const relay of due.toSorted((one, other) => one.waitingSinceMs - other.waitingSinceMs)) {
    const kind = kindOf(relay, parts.own);
    const party = parts.partyOf(relay.url);
    const mustWait = kind === 'unproven' && busyParties.has(party);
    if (taken.has(relay.url) || free[kind] <= 0 || mustWait) {
      continue;
    }
    free[kind] -= 1;
    if (kind === 'unproven') {
      busyParties.add(party);
    }
    given.push({ relay, place: { kind, party } });
  }
  return given;
}

function kindOf(relay: DueRelay, own: ReadonlySet<string>): PlaceKind {
  if (own.has(relay.url)) {
    return 'own';
  }
  return relay.isKnown && relay.failures === 0 ? 'proven' : 'unproven';
}
