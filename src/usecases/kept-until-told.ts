import { dropOldest } from '../domain/drop-oldest.ts';
import { ownCopy } from '../domain/own-copy.ts';
import type { Soon } from '../domain/soon.ts';

/** What {@link KeptUntilTold} needs. */
export interface KeptUntilToldParts<Subject, Value> {
  /** Whom or what a value is about: a change of any of them makes it wrong. */
  subjectsOf: (value: Value) => readonly Subject[];
  /** Whether a value is small enough to be kept. */
  canKeep: (value: Value) => boolean;
  /** How many are kept. */
  max: number;
  /** How old a value may be where nobody tells of its change, milliseconds. */
  lifeMs: number;
  /** Whether all that is told is heard now. */
  isHearing: () => boolean;
  monotonicMs: () => number;
}

/** Reads a value; null where there is none. */
type Read<Value> = (old: Value | undefined) => Promise<Value | null>;

/**
 * What was read of the database, kept until somebody tells that it changed.
 *
 * A value is served only while what is told is heard, and was read while it was. What a change of its
 * subjects was told during is not kept at all: it may have been read before. And none is served for
 * longer than its life, since triggers can be switched off.
 */
export class KeptUntilTold<Subject, Value> {
  readonly #parts: KeptUntilToldParts<Subject, Value>;
  /** Those read the longest ago come first, and make way. */
  readonly #kept = new Map<string, { value: Value; readAtMs: number }>();
  readonly #keys = new Map<Subject, Set<string>>();
  /** How many reads are under way. */
  #reading = 0;
  /** How many changes were told. */
  #told = 0;
  /** Which of them, by its number, was the last that may be of anybody. */
  #lastOfAll = 0;
  /** And which was the last of each subject that was told of while something was being read. */
  readonly #lastOf = new Map<Subject, number>();

  constructor(parts: KeptUntilToldParts<Subject, Value>) {
    this.#parts = parts;
  }

  /**
   * The value of a key: as it is kept, which is there at once, else as it is read now.
   *
   * @param read null: there is none, which is not kept. Given what was kept until its life was over, for what
   *   never changes of it
   */
  get(key: string, read: Read<Value>): Soon<Value | null> {
    const { isHearing, monotonicMs, lifeMs } = this.#parts;
    if (!isHearing()) {
      return read(undefined);
    }
    // A whole number is kept with its entry, any other in a place of its own.
    const nowMs = Math.trunc(monotonicMs());
    const kept = this.#kept.get(key);
    return kept !== undefined && nowMs - kept.readAtMs < lifeMs
      ? kept.value
      : this.#read(key, () => read(kept?.value), nowMs);
  }

  /** A change of this subject was told. */
  forget(subject: Subject): void {
    this.#told += 1;
    if (this.#reading > 0) {
      this.#lastOf.set(subject, this.#told);
      if (this.#lastOf.size > this.#parts.max) {
        // There may always be a read under way. Too many to be known apart count as anybody's.
        this.#lastOf.clear();
        this.#lastOfAll = this.#told;
      }
    }
    for (const key of this.#keys.get(subject) ?? []) {
      this.#drop(key);
    }
  }

  /** Anything may have changed. */
  forgetAll(): void {
    this.#told += 1;
    this.#lastOfAll = this.#told;
    this.#kept.clear();
    this.#keys.clear();
  }

  async #read(
    key: string,
    read: () => Promise<Value | null>,
    readAtMs: number,
  ): Promise<Value | null> {
    const told = this.#told;
    this.#reading += 1;
    try {
      const value = await read();
      if (value !== null && this.#parts.canKeep(value) && !this.#hasChangedSince(told, value)) {
        this.#keep(key, value, readAtMs);
      }
      return value;
    } finally {
      this.#reading -= 1;
      if (this.#reading === 0) {
        this.#lastOf.clear();
      }
    }
  }

  /** @param told how many changes had been told when its reading began */
  #hasChangedSince(told: number, value: Value): boolean {
    return (
      this.#lastOfAll > told ||
      this.#parts.subjectsOf(value).some((subject) => (this.#lastOf.get(subject) ?? 0) > told)
    );
  }

  #keep(key: string, value: Value, readAtMs: number): void {
    this.#drop(key);
    const ownKey = ownCopy(key);
    this.#kept.set(ownKey, { value, readAtMs });
    for (const subject of this.#parts.subjectsOf(value)) {
      const keys = this.#keys.get(subject) ?? new Set();
      keys.add(ownKey);
      this.#keys.set(subject, keys);
    }
    dropOldest(this.#kept, this.#parts.max, (oldest) => this.#drop(oldest));
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) {
      return;
    }
    this.#kept.delete(key);
    for (const subject of this.#parts.subjectsOf(kept.value)) {
      const keys = this.#keys.get(subject);
      keys?.delete(key);
      if (keys?.size === 0) {
        this.#keys.delete(subject);
      }
    }
  }
}
