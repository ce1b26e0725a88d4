import type { DueRelay } from '../store/receipt-delivery-store.ts';

/**
 * So many relays whose last turn went well are sent to at a time: each has a socket, and
 * up to half a megabyte of receipts in memory.
 */
const MAX_PROVEN = 128;

/**
 * Relays that served once and fail now have places of their own: nobody's receipts wait, as such a relay
 * is back, behind all the hosts that strangers name.
 */
const MAX_LAPSED = 32;

/**
 * Relays of which nothing good is known have places of their own: strangers name them, many were never
 * there, and each that takes a connection and says nothing has its place for many seconds.
 */
const MAX_UNPROVEN = 32;

/** As {@link MAX_UNPROVEN}, once a turn went badly: who is new does not wait behind all those. */
const MAX_FAILING = 16;

/** Relays of one host that served: filtering relays are one for each url, and strangers make urls up. */
const MAX_SERVING_OF_PARTY = 4;

/** A host of which nothing good is known keeps one place from the others. */
const MAX_UNPROVEN_OF_PARTY = 1;

/**
 * What kind of place a relay has. The operator's have one always: there are few of them, and each gets
 * every receipt. The others are `proven` where a turn went well and none has gone badly since, `lapsed`
 * where one has, `unproven` where none ever went well nor badly, and `failing` where one went badly.
 */
type PlaceKind = 'own' | 'proven' | 'lapsed' | 'unproven' | 'failing';

/** A turn that is under way, or may begin. */
export interface Place {
  kind: PlaceKind;
  /** Who bears it; few at a time of each. */
  party: string;
}

/** A relay whose turn may begin. */
export interface PlacedRelay {
  relay: DueRelay;
  place: Place;
}

/**
 * Gives the free places of each kind to those who wait the longest.
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
  const places = new Places(taken.values());
  const given: PlacedRelay[] = [];
  for (const relay of due.toSorted((one, other) => one.waitingSinceMs - other.waitingSinceMs)) {
    const kind = kindOf(relay, parts.own);
    if (taken.has(relay.url) || !places.hasFree(kind)) {
      continue;
    }
    const place = { kind, party: parts.partyOf(relay.url) };
    if (places.isFreeFor(place)) {
      places.take(place);
      given.push({ relay, place });
    }
  }
  return given;
}

function kindOf(relay: DueRelay, own: ReadonlySet<string>): PlaceKind {
  if (own.has(relay.url)) {
    return 'own';
  }
  if (!relay.hasServed) {
    return relay.failures === 0 ? 'unproven' : 'failing';
  }
  return relay.failures === 0 ? 'proven' : 'lapsed';
}

/** How many places are left of each kind, and to whom. */
class Places {
  readonly #free: Record<PlaceKind, number> = {
    own: Number.POSITIVE_INFINITY,
    proven: MAX_PROVEN,
    lapsed: MAX_LAPSED,
    unproven: MAX_UNPROVEN,
    failing: MAX_FAILING,
  };
  /** How many a party has of its relays that served, and of its others. */
  readonly #serving = new Map<string, number>();
  readonly #unproven = new Map<string, number>();

  constructor(taken: Iterable<Place>) {
    for (const place of taken) {
      this.take(place);
    }
  }

  hasFree(kind: PlaceKind): boolean {
    return this.#free[kind] > 0;
  }

  isFreeFor({ kind, party }: Place): boolean {
    switch (kind) {
      case 'own':
        return true;
      case 'proven':
      case 'lapsed':
        return (this.#serving.get(party) ?? 0) < MAX_SERVING_OF_PARTY;
      case 'unproven':
      case 'failing':
        return (this.#unproven.get(party) ?? 0) < MAX_UNPROVEN_OF_PARTY;
    }
  }

  take({ kind, party }: Place): void {
    this.#free[kind] -= 1;
    if (kind !== 'own') {
      const ofParty = kind === 'proven' || kind === 'lapsed' ? this.#serving : this.#unproven;
      ofParty.set(party, (ofParty.get(party) ?? 0) + 1);
    }
  }
}
