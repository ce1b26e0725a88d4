import { dropOldest } from './drop-oldest.ts';

/** Values by key, of which those that were used the longest ago make way for new ones. */
export class RecentlyUsed<Value> {
  /** The one used the longest ago comes first. */
  readonly #values = new Map<string, Value>();
  readonly #max: number;
  readonly #fresh: () => Value;

  /**
   * @param max how many are kept
   * @param fresh makes the value of a key that is not there
   */
  constructor(max: number, fresh: () => Value) {
    this.#max = max;
    this.#fresh = fresh;
  }

  /** The value of a key where there is one, which is no use of it. */
  look(key: string): Value | undefined {
    return this.#values.get(key);
  }

  /** The value of a key, which is used now. */
  use(key: string): Value {
    const value = this.#values.get(key) ?? this.#fresh();
    this.#values.delete(key);
    this.#values.set(key, value);
    dropOldest(this.#values, this.#max);
    return value;
  }
}
