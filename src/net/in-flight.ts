import { Counts } from '../domain/counts.ts';

/** What {@link InFlight} bounds, in requests that are running or waiting for their turn. */
export interface InFlightLimits {
  maxInFlight: number;
  maxInFlightPerParty: number;
}

/** In the reserve a party gets so many places, so that it takes 64 parties to fill it. */
const MAX_RESERVED_PLACES = 8;

/** Far more parties than are in use at a time; keeps strangers' hosts from piling up. */
const MAX_REMEMBERED_PARTIES = 10_000;

/**
 * Bounds requests: by party (see `remoteParty`), and over all. A flood to silent hosts must not keep
 * the others from being asked, so half of all places are a reserve for parties that have been
 * answering: each may have as many of them as it gave answers in a row, up to a few. A failure
 * halves that: one that begins to stall soon holds few, and one bad answer takes no mint away.
 *
 * Hosts that answer first and stall then can fill the reserve, too. What the operator has named is
 * therefore counted by itself: strangers cannot take its places. Any other mint that has not answered
 * since this process began, or whose few places are taken, is not asked while a flood lasts.
 */
export class InFlight {
  readonly #limits: InFlightLimits;
  readonly #trusted: ReadonlySet<string>;
  /** Without those of trusted parties. */
  #total = 0;
  readonly #byParty = new Counts();
  /** Answers in a row, counted up to what they can buy; the party that answered last is last. */
  readonly #answersInARow = new Map<string, number>();

  /** @param trusted parties with places of their own, beyond the bound over all */
  constructor(limits: InFlightLimits, trusted: ReadonlySet<string>) {
    this.#limits = limits;
    this.#trusted = trusted;
  }

  /** Takes a place for a request; false where there is none for this party. */
  enter(party: string): boolean {
    const isTrusted = this.#trusted.has(party);
    const max = isTrusted ? this.#limits.maxInFlightPerParty : this.#maxFor(party);
    if (this.#byParty.of(party) >= max) {
      return false;
    }
    this.#total += isTrusted ? 0 : 1;
    this.#byParty.add(party);
    return true;
  }

  /** Gives back the place of a request, and tells what came of it. */
  leave(party: string, isAnswered: boolean): void {
    this.#total -= this.#trusted.has(party) ? 0 : 1;
    this.#byParty.remove(party);
    const before = this.#answersInARow.get(party) ?? 0;
    const answers = isAnswered ? Math.min(before + 1, MAX_RESERVED_PLACES) : Math.floor(before / 2);
    this.#answersInARow.delete(party);
    if (answers > 0) {
      this.#answersInARow.set(party, answers);
      this.#forgetOldest();
    }
  }

  #maxFor(party: string): number {
    const { maxInFlight, maxInFlightPerParty } = this.#limits;
    if (this.#total >= maxInFlight) {
      return 0;
    }
    const isReserve = this.#total >= maxInFlight / 2;
    return isReserve ? (this.#answersInARow.get(party) ?? 0) : maxInFlightPerParty;
  }

  #forgetOldest(): void {
    const [oldest] = this.#answersInARow.keys();
    if (this.#answersInARow.size > MAX_REMEMBERED_PARTIES && oldest !== undefined) {
      this.#answersInARow.delete(oldest);
    }
  }
}
