import { createHash } from 'node:crypto';

const ROLL_BYTES = 6;

/** Chance that can be repeated: with the same seed, the same questions get the same answers. */
export class Dice {
  readonly #seed: string;
  #rolls = 0;

  constructor(seed: string) {
    this.#seed = seed;
  }

  /** Other dice of the same seed. What they roll depends on their name alone, not on when. */
  fork(name: string): Dice {
    return new Dice(`${this.#seed}/${name}`);
  }

  /** 0 or more, less than 1. */
  roll(): number {
    this.#rolls += 1;
    const hash = createHash('sha256').update(`${this.#seed}#${this.#rolls}`).digest();
    return hash.readUIntBE(0, ROLL_BYTES) / 2 ** (8 * ROLL_BYTES);
  }

  /** @param rate 0 is never, 1 is always */
  happens(rate: number): boolean {
    return this.roll() < rate;
  }

  /** `low` or more, less than `high`. */
  between(low: number, high: number): number {
    return low + this.roll() * (high - low);
  }

  /** @throws RangeError where there is nothing to pick from */
  pick<T>(from: readonly T[]): T {
    if (from.length === 0) {
      throw new RangeError('there is nothing to pick from');
    }
    return from[Math.floor(this.roll() * from.length)] as T;
  }

  /** The same things in another order. */
  shuffled<T>(things: readonly T[]): T[] {
    return things
      .map((thing) => ({ thing, place: this.roll() }))
      .sort((a, b) => a.place - b.place)
      .map(({ thing }) => thing);
  }
}
