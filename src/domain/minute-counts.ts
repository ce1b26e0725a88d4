import { dropOldest } from './drop-oldest.ts';

/** Each minute begins with the first that is counted in it. */
const MINUTE_MS = 60_000;

/** What is counted of one key. */
interface Minute {
  beganAtMs: number;
  count: number;
}

/**
 * Counts what each key does in a minute, and says who does too much. What is refused counts too, but puts
 * nothing off. Of too many keys, those whose minutes began the longest ago are forgotten, a hundredth of all
 * at once, and so forgiven. Where the clock is set back to before a minute began, another one begins.
 */
export class MinuteCounts {
  /** The one that began the longest ago comes first. */
  readonly #minutes = new Map<string, Minute>();
  readonly #max: number;
  readonly #maxKeys: number;

  /**
   * @param max a minute, at least 1
   * @param maxKeys how many are remembered
   */
  constructor(max: number, maxKeys: number) {
    this.#max = max;
    this.#maxKeys = maxKeys;
  }

  /** Counts one more. @returns how long the key is refused, in milliseconds; null: it is not */
  count(key: string, nowMs: number): number | null {
    const minute = this.#minutes.get(key);
    if (minute === undefined || isOver(minute, nowMs)) {
      this.#begin(key, nowMs);
      return null;
    }
    minute.count += 1;
    return minute.count <= this.#max ? null : minute.beganAtMs + MINUTE_MS - nowMs;
  }

  #begin(key: string, nowMs: number): void {
    this.#minutes.delete(key);
    this.#minutes.set(key, { beganAtMs: nowMs, count: 1 });
    dropOldest(this.#minutes, this.#maxKeys);
  }
}

/** Of a clock that was set back it is not known how long it went on. */
function isOver({ beganAtMs }: Minute, nowMs: number): boolean {
  return nowMs >= beganAtMs + MINUTE_MS || nowMs < beganAtMs;
}
