import { createHash } from 'node:crypto';

/** The most bytes that `readUIntBE` can read. */
const RANDOM_BYTES = 6;

/** A random number generator that returns the same sequence for the same seed. */
export class SeededRandom {
  readonly #seed: string;
  #callCount = 0;

  constructor(seed: string) {
    this.#seed = seed;
  }

  /** Returns a generator whose sequence depends only on this seed and the name. */
  fork(name: string): SeededRandom {
    return new SeededRandom(`${this.#seed}/${name}`);
  }

  /** Returns a number from 0 up to, but not including, 1. */
  next(): number {
    this.#callCount += 1;
    const hash = createHash('sha256').update(`${this.#seed}#${this.#callCount}`).digest();
    return hash.readUIntBE(0, RANDOM_BYTES) / 2 ** (8 * RANDOM_BYTES);
  }

  /** Returns true with the given probability, from 0 to 1. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Returns a number from `low` up to, but not including, `high`. */
  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** @throws RangeError if the array is empty */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) {
      throw new RangeError('cannot pick from an empty array');
    }
    return items[Math.floor(this.next() * items.length)] as T;
  }

  shuffle<T>(items: readonly T[]): T[] {
    return items
      .map((item) => ({ item, order: this.next() }))
      .sort((a, b) => a.order - b.order)
      .map(({ item }) => item);
  }
}
