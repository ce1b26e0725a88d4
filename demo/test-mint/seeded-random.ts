/** A random number generator (sfc32) that returns the same sequence for the same seed. Not for secrets. */
export class SeededRandom {
  readonly #seed: string;
  readonly #state = new Uint32Array(4);

  constructor(seed: string) {
    this.#seed = seed;
    let hash = 2_166_136_261;
    for (const character of seed) {
      hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16_777_619);
    }
    this.#state.set([hash, Math.imul(hash, 40_503), hash ^ 0x9e37_79b9, 1]);
    for (let round = 0; round < 12; round += 1) {
      this.#nextUint32();
    }
  }

  /** Returns a generator whose sequence depends only on this seed and the name. */
  fork(name: string): SeededRandom {
    return new SeededRandom(`${this.#seed}/${name}`);
  }

  /** Returns a number from 0 up to, but not including, 1. */
  next(): number {
    return this.#nextUint32() / 2 ** 32;
  }

  /** Returns true with the given probability, from 0 to 1. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Returns a number from `low` up to, but not including, `high`. */
  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** Returns a whole number from `low` up to, but not including, `high`. */
  integer(low: number, high: number): number {
    return Math.floor(this.between(low, high));
  }

  /** Returns a number around `mean`: mostly less, rarely much more, as durations are. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** @throws RangeError if the array is empty */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) {
      throw new RangeError('cannot pick from an empty array');
    }
    return items[this.integer(0, items.length)] as T;
  }

  shuffle<T>(items: readonly T[]): T[] {
    const rest = [...items];
    return items.map(() => rest.splice(this.integer(0, rest.length), 1)[0] as T);
  }

  fill(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i += 1) {
      bytes[i] = this.#nextUint32();
    }
  }

  #nextUint32(): number {
    const [a = 0, b = 0, c = 0, counter = 0] = this.#state;
    const sum = (a + b + counter) >>> 0;
    this.#state[0] = b ^ (b >>> 9);
    this.#state[1] = c + (c << 3);
    this.#state[2] = ((c << 21) | (c >>> 11)) + sum;
    this.#state[3] = counter + 1;
    return sum;
  }
}
