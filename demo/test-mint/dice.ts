import { createHash } from 'node:crypto';

const ROLL_BYTES = 6;

/** Repeatable randomness: the same seed and the same calls give the same results. */
export class Dice {
  readonly #seed: string;
  #rolls = 0;

  constructor(seed: string) {
    this.#seed = seed;
  }

  /** Returns dice whose rolls depend only on this seed and the name. */
  fork(name: string): Dice {
    return new Dice(`${this.#seed}/${name}`);
  }

  /** Returns a number from 0 up to, but not including, 1. */
  roll(): number {
    this.#rolls += 1;
    const hash = createHash('sha256').update(`${this.#seed}#${this.#rolls}`).digest();
    return hash.readUIntBE(0, ROLL_BYTES) / 2 ** (8 * ROLL_BYTES);
  }

  /** @param rate 0 is never, 1 is always */
  happens(rate: number): boolean {
    return this.roll() < rate;
  }

  /** Returns a number from `low` up to, but not including, `high`. */
  between(low: number, high: number): number {
    return low + this.roll() * (high - low);
  }

  /** Throws a RangeError if there is nothing to pick from. */
  pick<T>(from: readonly T[]): T {
    if (from.length === 0) {
      throw new RangeError('there is nothing to pick from');
    }
    return from[Math.floor(this.roll() * from.length)] as T;
  }

  shuffled<T>(things: readonly T[]): T[] {
    return things
      .map((thing) => ({ thing, place: this.roll() }))
      .sort((a, b) => a.place - b.place)
      .map(({ thing }) => thing);
  }
}
