import { LRUCache } from 'lru-cache';
import { type Db, notify, type Tx, transaction } from '../database/transaction.ts';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import {
  listLocalParts,
  parseRecipientAddress,
  parseUsername,
  type RecipientAddress,
  splitAddressTag,
} from './lightning-address.ts';
import { CACHE_TTL_MS, MAX_CACHED_RECIPIENTS } from './limits.ts';
import {
  findUserByName,
  findUserByPubkey,
  type StoredUser,
  saveUserSettings,
} from './user-store.ts';

/** A key that can be paid, with the settings for its future payments. */
export interface Recipient {
  /** Hex. */
  readonly pubkey: string;
  /** In lower case. */
  readonly name: string | null;
  /** Normalised. */
  readonly mintUrl: string;
  readonly lockQuotes: boolean;
}

/** Whom a Lightning address names. The texts are in lower case. */
export interface ResolvedAddress {
  recipient: Recipient;
  /** What precedes the `@` of the recipient's address: the address without its tag. */
  account: string;
  /** For the recipient to tell payments apart (LUD-16). */
  tag: string | null;
}

type RecipientSettings = Pick<Recipient, 'mintUrl' | 'lockQuotes'>;

interface DirectoryContext {
  db: Db;
  /** For recipients who have not changed the settings. */
  defaults: RecipientSettings;
  monotonicMs: () => number;
  log: Pick<Logger, 'info'>;
}

/** Finds recipients by key or Lightning address. Every key is a recipient, even if the database has no row for it. */
export class RecipientDirectory {
  readonly #context: DirectoryContext;
  /** By local part, as {@link listLocalParts} returns it. */
  readonly #cache: LRUCache<string, Recipient>;
  /** If it changes during a database read, the result of the read may be outdated. */
  #invalidationCount = 0;

  constructor(context: DirectoryContext) {
    this.#context = context;
    this.#cache = new LRUCache({
      max: MAX_CACHED_RECIPIENTS,
      ttl: CACHE_TTL_MS,
      ttlResolution: 0,
      perf: { now: context.monotonicMs },
    });
  }

  /** Reads the recipient with this key (hex) from the database, even if it is blocked. */
  async getByPubkey(pubkey: string): Promise<Recipient> {
    return this.#toRecipient(pubkey, await findUserByPubkey(this.#context.db, pubkey));
  }

  /** Returns the owner of a username in upper or lower case; null if the name is free or its owner is blocked. */
  async findByName(name: string): Promise<Recipient | null> {
    const username = parseUsername(name);
    return username === null ? null : this.#findUnblocked({ kind: 'name', name: username });
  }

  /**
   * Resolves the part of a Lightning address before the `@` (LUD-16): an npub or a username, in upper or lower case,
   * with or without a tag.
   *
   * @throws RequestError if it names no recipient or a blocked recipient; the message is the same
   */
  async resolveAddress(localPart: string): Promise<ResolvedAddress> {
    const { account, tag } = splitAddressTag(localPart);
    const recipient = this.#cache.get(account) ?? (await this.#readRecipient(account));
    return { recipient, account: account.toLowerCase(), tag };
  }

  async #readRecipient(account: string): Promise<Recipient> {
    const invalidationsBefore = this.#invalidationCount;
    const recipient = await this.#findUnblocked(parseRecipientAddress(account));
    if (recipient === null) {
      throw new RequestError('invalid', 'Recipient unavailable.');
    }
    // `account` is a slice of the URL. As a cache key, it would keep the whole URL in memory.
    const cacheKey = listLocalParts(recipient).find((part) => part === account);
    if (cacheKey !== undefined && invalidationsBefore === this.#invalidationCount) {
      this.#cache.set(cacheKey, recipient);
    }
    return recipient;
  }

  /**
   * Saves settings for a key's future payments.
   *
   * @param assertAllowed called with the new settings; if it throws, nothing is saved. Concurrent changes of the same
   *   user's settings wait
   */
  async saveSettings(
    pubkey: string,
    settings: Partial<RecipientSettings>,
    assertAllowed: (recipient: Recipient) => void,
  ): Promise<Recipient> {
    const { before, saved } = await transaction(this.#context.db, async (tx) => {
      const earlier = await findUserByPubkey(tx, pubkey);
      const user = await saveUserSettings(tx, pubkey, settings);
      assertAllowed(this.#toRecipient(pubkey, user));
      await notify(tx, RECIPIENT_CHANGES_CHANNEL, listLocalParts(user));
      return { before: this.#toRecipient(pubkey, earlier), saved: user };
    });
    // The notification reaches this process, too, but only later.
    for (const localPart of listLocalParts(saved)) {
      this.invalidate(localPart);
    }
    const recipient = this.#toRecipient(pubkey, saved);
    this.#logChange(before, recipient);
    return recipient;
  }

  #logChange(before: Recipient, { pubkey, mintUrl, lockQuotes }: Recipient): void {
    // Wallets also send settings that do not change.
    if (mintUrl !== before.mintUrl || lockQuotes !== before.lockQuotes) {
      const old = { oldMintUrl: before.mintUrl, oldLockQuotes: before.lockQuotes };
      this.#context.log.info(
        { event: 'settings_changed', pubkey, mintUrl, lockQuotes, ...old },
        'user changed the mint or the locking of quotes',
      );
    }
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
    if (address.kind === 'invalid_npub') {
      throw new RequestError('invalid', 'Invalid recipient.');
    }
    if (address.kind === 'pubkey') {
      const user = await findUserByPubkey(this.#context.db, address.pubkey);
      return user?.block ? null : this.#toRecipient(address.pubkey, user);
    }
    const user =
      address.kind === 'name' ? await findUserByName(this.#context.db, address.name) : null;
    return user === null || user.block ? null : this.#toRecipient(user.pubkey, user);
  }

  #toRecipient(pubkey: string, user: StoredUser | null): Recipient {
    return {
      pubkey,
      name: user?.name ?? null,
      mintUrl: user?.mintUrl ?? this.#context.defaults.mintUrl,
      lockQuotes: user?.lockQuotes ?? this.#context.defaults.lockQuotes,
    };
  }
}

/** Announces a change of a recipient. Call it before a change of the name, because it announces the current name. */
export async function notifyRecipientChange(tx: Tx, pubkey: string): Promise<void> {
  const user = await findUserByPubkey(tx, pubkey);
  await notify(tx, RECIPIENT_CHANGES_CHANNEL, listLocalParts({ pubkey, name: user?.name ?? null }));
}

/**
 * Announces Lightning addresses whose recipient, settings or block changed. The payload is the part of the address
 * before the `@`, or {@link ALL_RECIPIENTS}.
 */
export const RECIPIENT_CHANGES_CHANNEL = 'nutpost_address_changes';

/** The payload after an import, which may change any recipient. */
export const ALL_RECIPIENTS = '';
