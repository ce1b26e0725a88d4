import type { Clock } from '../domain/clock.ts';
import { type NameRecord, nameRecord } from '../domain/name-standing.ts';
import { ADDRESS_CHANNEL } from '../notifications/address-channel.ts';
import type { Store, TransactionStore } from '../store/store.ts';

/** A name as the operator sees it. */
export interface ShownName {
  outcome: 'name';
  nowMs: number;
  record: NameRecord;
}

/** What became of a change. */
export interface NameChange {
  outcome:
    | 'reserved'
    | 'released'
    /** It was so before. */
    | 'already_reserved'
    | 'already_free'
    // Nothing was changed:
    /** Somebody uses the name, and it was not said that it is to be taken away. */
    | 'in_use'
    /** A purchase holds the name; what becomes of it is for the mint to say. */
    | 'pending'
    /** No command reserved the name: a list does. */
    | 'on_list'
    /** Somebody else changed it at the same moment. */
    | 'overtaken';
  nowMs: number;
  /** The name as it was before. */
  before: NameRecord;
}

/** Which change is meant. */
export interface NameChangeOptions {
  /** Whether a name may be taken away from whoever uses it. */
  inUse: boolean;
}

/** Lets the operator see names, keep them from everybody, and free them. */
export class ManageNames {
  readonly #store: Pick<Store, 'usernames' | 'transaction'>;
  readonly #reservedNames: readonly string[];
  readonly #clock: Clock;

  /** @param parts.reservedNames of the operator's setting */
  constructor(parts: {
    store: Pick<Store, 'usernames' | 'transaction'>;
    reservedNames: readonly string[];
    clock: Clock;
  }) {
    this.#store = parts.store;
    this.#reservedNames = parts.reservedNames;
    this.#clock = parts.clock;
  }

  /** @param name in lower case */
  async show(name: string): Promise<ShownName> {
    const nowMs = this.#clock();
    return { outcome: 'name', nowMs, record: await this.#look(this.#store, name, nowMs) };
  }

  /**
   * Keeps a name from everybody: a free one, one in its grace, or one in use where that was said.
   *
   * @param name in lower case
   */
  reserve(name: string, options: NameChangeOptions): Promise<NameChange> {
    return this.#change(name, async (tx, before, nowMs) => {
      switch (before.standing) {
        case 'reserved':
          return 'already_reserved';
        case 'free':
          return (await tx.usernames.reserve(name, nowMs)) ? 'reserved' : 'overtaken';
        case 'in_use':
        case 'pending':
        case 'in_grace': {
          const outcome = await free(tx, before, options);
          return outcome === 'released' && (await tx.usernames.reserve(name, nowMs))
            ? 'reserved'
            : outcome;
        }
      }
    });
  }

  /**
   * Frees a name that a command reserved, that is in its grace, or that is in use where that was said.
   *
   * @param name in lower case
   */
  release(name: string, options: NameChangeOptions): Promise<NameChange> {
    return this.#change(name, (tx, before) => free(tx, before, options));
  }

  #change(
    name: string,
    decide: (
      tx: TransactionStore,
      before: NameRecord,
      nowMs: number,
    ) => Promise<NameChange['outcome']>,
  ): Promise<NameChange> {
    return this.#store.transaction(async (tx) => {
      const nowMs = this.#clock();
      const before = await this.#look(tx, name, nowMs);
      return { outcome: await decide(tx, before, nowMs), nowMs, before };
    });
  }

  async #look(store: Pick<Store, 'usernames'>, name: string, nowMs: number): Promise<NameRecord> {
    return nameRecord(name, await store.usernames.find(name), this.#reservedNames, nowMs);
  }
}

/** Each step changes the name only where it still stands as it did. */
async function free(
  tx: TransactionStore,
  { name, standing, stored, list }: NameRecord,
  { inUse }: NameChangeOptions,
): Promise<Exclude<NameChange['outcome'], 'reserved' | 'already_reserved'>> {
  switch (standing) {
    case 'free':
      return 'already_free';
    case 'pending':
      return 'pending';
    case 'in_use':
      if (!inUse) {
        return 'in_use';
      }
      await tx.notify(ADDRESS_CHANNEL, [name]);
      return (await tx.usernames.takeAway(name)) ? 'released' : 'overtaken';
    case 'reserved':
      if (list !== null && stored?.status !== 'reserved') {
        return 'on_list';
      }
      return (await tx.usernames.release(name)) ? 'released' : 'overtaken';
    case 'in_grace':
      return (await tx.usernames.release(name)) ? 'released' : 'overtaken';
  }
}
