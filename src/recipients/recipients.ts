import { LRUCache } from 'lru-cache';
import { Refusal } from '../errors.ts';
import type { Store, TransactionStore } from '../store.ts';
import { addressesOf, parseRecipient, type RecipientAddress } from './address.ts';
import type { StoredUser } from './user-store.ts';

/** Far more addresses than are paid within {@link CACHE_TTL_MS}; about 5 MB. */
const MAX_CACHED = 10_000;

/** The longest that payers see an old setting if its notification is lost. */
const CACHE_TTL_MS = 5_000;

/** A key that can be paid, with the settings that apply to its next payment. */
export interface Recipient {
  /** Hex. */
  readonly pubkey: string;
  /** The purchased name, in lower case; null if there is none. */
  readonly name: string | null;
  /** Normalised. */
  readonly mintUrl: string;
  readonly lockQuotes: boolean;
}

/** What applies to recipients who chose nothing. */
export interface RecipientDefaults {
  mintUrl: string;
  lockQuotes: boolean;
}

interface RecipientsParts {
  store: {
    users: Pick<Store['users'], 'find' | 'findByName'>;
    transaction: Store['transaction'];
  };
  defaults: RecipientDefaults;
  monotonicMs: () => number;
}

/** Finds recipients, by key or by Lightning address. Every key is one, stored or not. */
export class Recipients {
  readonly #store: RecipientsParts['store'];
  readonly #defaults: RecipientDefaults;
  /** Recipients that can be paid, by the address as `addressesOf` writes it. */
  readonly #cache: LRUCache<string, Recipient>;
  /** Counts invalidations: what was read before one and arrives after it may be old. */
  #invalidations = 0;

  constructor({ store, defaults, monotonicMs }: RecipientsParts) {
    this.#store = store;
    this.#defaults = defaults;
    this.#cache = new LRUCache({
      max: MAX_CACHED,
      ttl: CACHE_TTL_MS,
      ttlResolution: 0,
      perf: { now: monotonicMs },
    });
  }

  /** The recipient with this key (hex), for the key itself: blocked or not. Reads the database. */
  async byPubkey(pubkey: string): Promise<Recipient> {
    return this.#toRecipient(pubkey, await this.#store.users.find(pubkey));
  }

  /**
   * The owner of a purchased name, given in any case, for others; null if nobody has it or its owner is
   * blocked. Reads the database.
   */
  async byName(name: string): Promise<Recipient | null> {
    const address = parseRecipient(name);
    return address.kind === 'name' ? this.#find(address) : null;
  }

  /**
   * The recipient that a payer's address names (LUD-16). A blocked recipient is refused with the same
   * message as an unknown one.
   *
   * @param user the part before the `@`: an npub or a purchased name, in any case
   * @throws Refusal if nobody can be paid by it
   */
  async byAddress(user: string): Promise<Recipient> {
    const cached = this.#cache.get(user);
    if (cached !== undefined) {
      return cached;
    }
    const invalidations = this.#invalidations;
    const recipient = await this.#find(parseRecipient(user));
    if (recipient === null) {
      throw new Refusal('invalid', 'Recipient unavailable.');
    }
    // Not by `user`, which may keep the whole request in memory: it is cut out of its URL.
    const address = addressesOf(recipient).find((each) => each === user);
    if (address !== undefined && invalidations === this.#invalidations) {
      this.#cache.set(address, recipient);
    }
    return recipient;
  }

  /** Saves settings of a key, for its future payments. */
  async save(
    pubkey: string,
    settings: Partial<Pick<Recipient, 'mintUrl' | 'lockQuotes'>>,
  ): Promise<Recipient> {
    const saved = await this.#store.transaction(async (tx) => {
      const user = await tx.users.save(pubkey, settings);
      await tx.notify(ADDRESS_CHANNEL, addressesOf(user));
      return user;
    });
    // The process that saved them does not wait for its own notification.
    for (const address of addressesOf(saved)) {
      this.invalidate(address);
    }
    return this.#toRecipient(pubkey, saved);
  }

  /** Removes an address from the cache, or all of them: what a notification says. */
  invalidate(address: string): void {
    this.#invalidations += 1;
    if (address === ALL_ADDRESSES) {
      this.#cache.clear();
    } else {
      this.#cache.delete(address);
    }
  }

  /**
   * Reads whom payers reach by an address.
   *
   * @throws Refusal if the address is not a valid npub
   */
  async #find(address: RecipientAddress): Promise<Recipient | null> {
    const { users } = this.#store;
    switch (address.kind) {
      case 'invalid_npub':
        throw new Refusal('invalid', 'Invalid recipient.');
      case 'unknown':
        return null;
      case 'name': {
        const user = await users.findByName(address.name);
        return user === null || user.block ? null : this.#toRecipient(user.pubkey, user);
      }
      case 'pubkey': {
        const user = await users.find(address.pubkey);
        return user?.block ? null : this.#toRecipient(address.pubkey, user);
      }
    }
  }

  #toRecipient(pubkey: string, user: StoredUser | null): Recipient {
    return {
      pubkey,
      name: user?.name ?? null,
      mintUrl: user?.mintUrl ?? this.#defaults.mintUrl,
      lockQuotes: user?.lockQuotes ?? this.#defaults.lockQuotes,
    };
  }
}

/**
 * Notifies every process that what the addresses of a key (hex) stand for changes with this transaction. Call it before
 * the key leaves a name, which is one of them.
 */
export async function notifyAddresses(tx: TransactionStore, pubkey: string): Promise<void> {
  const user = await tx.users.find(pubkey);
  await tx.notify(ADDRESS_CHANNEL, addressesOf({ pubkey, name: user?.name ?? null }));
}

/**
 * The channel for Lightning addresses whose recipient, settings or block changed. The operation that writes the change
 * notifies in the same transaction. The payload is one address (`addressesOf`), or {@link ALL_ADDRESSES}.
 */
export const ADDRESS_CHANNEL = 'nutpost_address_changes';

/** The payload of an import, which changes many recipients at once. */
export const ALL_ADDRESSES = '';
