import { LRUCache } from 'lru-cache';
import { RequestError } from '../errors.ts';
import type { Store, TransactionStore } from '../store.ts';
import {
  listLocalParts,
  parseRecipientAddress,
  type RecipientAddress,
} from './lightning-address.ts';
import type { StoredUser } from './user-store.ts';

/** More addresses than are paid within {@link CACHE_TTL_MS}; about 5 MB. */
const MAX_CACHED_RECIPIENTS = 10_000;

/** How long payers may see an old setting if its notification is lost. */
const CACHE_TTL_MS = 5_000;

/** A key that can be paid, with the settings for its next payment. */
export interface Recipient {
  /** Hex. */
  readonly pubkey: string;
  /** In lower case. */
  readonly name: string | null;
  /** Normalised. */
  readonly mintUrl: string;
  readonly lockQuotes: boolean;
}

type RecipientSettings = Pick<Recipient, 'mintUrl' | 'lockQuotes'>;

interface RecipientDirectoryDeps {
  store: Pick<Store, 'transaction'> & {
    users: Pick<Store['users'], 'findByPubkey' | 'findByName'>;
  };
  /** The settings of recipients who saved none. */
  defaults: RecipientSettings;
  monotonicMs: () => number;
}

/** Finds recipients by key or by Lightning address. Every key is a recipient, stored or not. */
export class RecipientDirectory {
  readonly #store: RecipientDirectoryDeps['store'];
  readonly #defaults: RecipientSettings;
  /** By local part, as {@link listLocalParts} returns it. */
  readonly #cache: LRUCache<string, Recipient>;
  /** Detects reads that an invalidation overtook; their result may be old. */
  #invalidationCount = 0;

  constructor({ store, defaults, monotonicMs }: RecipientDirectoryDeps) {
    this.#store = store;
    this.#defaults = defaults;
    this.#cache = new LRUCache({
      max: MAX_CACHED_RECIPIENTS,
      ttl: CACHE_TTL_MS,
      ttlResolution: 0,
      perf: { now: monotonicMs },
    });
  }

  /** Returns the recipient with this key (hex), even if it is blocked. Does not use the cache. */
  async getByPubkey(pubkey: string): Promise<Recipient> {
    return this.#toRecipient(pubkey, await this.#store.users.findByPubkey(pubkey));
  }

  /** Returns the owner of a name (upper or lower case); null if the name is free or its owner is blocked. */
  async findByName(name: string): Promise<Recipient | null> {
    const address = parseRecipientAddress(name);
    return address.kind === 'name' ? this.#findUnblocked(address) : null;
  }

  /**
   * Resolves the local part of a Lightning address (LUD-16): an npub or a purchased name, in any
   * case.
   *
   * @throws RequestError if it names no recipient, or (with the same message) a blocked one
   */
  async resolveAddress(localPart: string): Promise<Recipient> {
    const cached = this.#cache.get(localPart);
    if (cached !== undefined) {
      return cached;
    }
    const invalidationsBefore = this.#invalidationCount;
    const recipient = await this.#findUnblocked(parseRecipientAddress(localPart));
    if (recipient === null) {
      throw new RequestError('invalid', 'Recipient unavailable.');
    }
    // Not keyed by `localPart` itself, a slice of the URL that would keep the whole URL in memory.
    const cacheKey = listLocalParts(recipient).find((part) => part === localPart);
    if (cacheKey !== undefined && invalidationsBefore === this.#invalidationCount) {
      this.#cache.set(cacheKey, recipient);
    }
    return recipient;
  }

  /** Saves settings for a key's future payments. */
  async saveSettings(pubkey: string, settings: Partial<RecipientSettings>): Promise<Recipient> {
    const saved = await this.#store.transaction(async (tx) => {
      const user = await tx.users.saveSettings(pubkey, settings);
      await tx.notify(RECIPIENT_CHANGES_CHANNEL, listLocalParts(user));
      return user;
    });
    // This process does not wait for its own notification.
    for (const localPart of listLocalParts(saved)) {
      this.invalidate(localPart);
    }
    return this.#toRecipient(pubkey, saved);
  }

  /** @param localPart {@link ALL_RECIPIENTS} clears the cache */
  invalidate(localPart: string): void {
    this.#invalidationCount += 1;
    if (localPart === ALL_RECIPIENTS) {
      this.#cache.clear();
    } else {
      this.#cache.delete(localPart);
    }
  }

  /** @throws RequestError if the address is a malformed npub */
  async #findUnblocked(address: RecipientAddress): Promise<Recipient | null> {
    const { users } = this.#store;
    if (address.kind === 'invalid_npub') {
      throw new RequestError('invalid', 'Invalid recipient.');
    }
    if (address.kind === 'pubkey') {
      const user = await users.findByPubkey(address.pubkey);
      return user?.block ? null : this.#toRecipient(address.pubkey, user);
    }
    const user = address.kind === 'name' ? await users.findByName(address.name) : null;
    return user === null || user.block ? null : this.#toRecipient(user.pubkey, user);
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

/** Call it before the key releases a name, so that the notification includes the name. */
export async function notifyRecipientChange(tx: TransactionStore, pubkey: string): Promise<void> {
  const user = await tx.users.findByPubkey(pubkey);
  await tx.notify(RECIPIENT_CHANGES_CHANNEL, listLocalParts({ pubkey, name: user?.name ?? null }));
}

/**
 * Announces addresses whose recipient, settings or block changed, in the transaction that writes
 * the change. The payload is one local part ({@link listLocalParts}) or {@link ALL_RECIPIENTS}.
 */
export const RECIPIENT_CHANGES_CHANNEL = 'nutpost_address_changes';

/** The payload after an import, which changes many recipients. */
export const ALL_RECIPIENTS = '';
