/** What {@link InFlight} bounds, in requests that are running or waiting for a connection. */
export interface InFlightLimits {
  maxInFlight: number;
  maxInFlightPerOrigin: number;
}

/** In the reserve an origin gets so many places: as many as it can have connections. */
const MAX_RESERVED_PLACES = 8;

/** Far more origins than are in use at a time; keeps strangers' origins from piling up. */
const MAX_REMEMBERED_ORIGINS = 10_000;

/**
 * Bounds requests: by origin, and over all. A flood to silent hosts must not keep the others from
 * being asked, so half of all places are a reserve for origins that have been answering: each may
 * have as many of them as it gave answers in a row, up to a few. Who has never answered, or failed
 * the last time, gets none, and one that begins to stall holds few.
 */
export class InFlight {
  readonly #limits: InFlightLimits;
  #total = 0;
  readonly #byOrigin = new Map<string, number>();
  /** Answers in a row, counted up to what they can buy; the origin that answered last is last. */
  readonly #answersInARow = new Map<string, number>();

  constructor(limits: InFlightLimits) {
    this.#limits = limits;
  }

  /** Takes a place for a request; false where there is none for this origin. */
  enter(origin: string): boolean {
    const count = this.#byOrigin.get(origin) ?? 0;
    const isReserve = this.#total >= this.#limits.maxInFlight / 2;
    const max = isReserve
      ? (this.#answersInARow.get(origin) ?? 0)
      : this.#limits.maxInFlightPerOrigin;
    if (this.#total >= this.#limits.maxInFlight || count >= max) {
      return false;
    }
    this.#total += 1;
    this.#byOrigin.set(origin, count + 1);
    return true;
  }

  /** Gives back the place of a request, and tells what came of it. */
  leave(origin: string, isAnswered: boolean): void {
    this.#total -= 1;
    const count = (this.#byOrigin.get(origin) ?? 1) - 1;
    if (count === 0) {
      this.#byOrigin.delete(origin);
    } else {
      this.#byOrigin.set(origin, count);
    }
    const answers = this.#answersInARow.get(origin) ?? 0;
    this.#answersInARow.delete(origin);
    if (isAnswered) {
      this.#answersInARow.set(origin, Math.min(answers + 1, MAX_RESERVED_PLACES));
      this.#forgetOldest();
    }
  }

  #forgetOldest(): void {
    const [oldest] = this.#answersInARow.keys();
    if (this.#answersInARow.size > MAX_REMEMBERED_ORIGINS && oldest !== undefined) {
      this.#answersInARow.delete(oldest);
    }
  }
}
