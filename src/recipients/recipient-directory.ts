import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import { lockRows } from '../database/sql.ts';
import { type Db, notify, type Tx, transaction } from '../database/transaction.ts';
import { RequestError } from '../errors.ts';
import { type AuditEvent, recordAuditEvent } from './audit-store.ts';
import {
  listLocalParts,
  parseRecipientAddress,
  parseUsername,
  type RecipientAddress,
  splitAddressTag,
} from './lightning-address.ts';
import {
  findUserByName,
  findUserByPubkey,
  type StoredUser,
  saveUserSettings,
} from './user-store.ts';

export interface Recipient {
  readonly pubkey: string;
  readonly name: string | null;
  readonly mintUrl: string;
  readonly lockQuotes: boolean;
  /** Null if everyone can be paid. */
  readonly isMember: boolean | null;
}

export interface ResolvedAddress {
  recipient: Recipient;
  /** The local part in lower case, without the tag. */
  account: string;
  tag: string | null;
}

type RecipientSettings = Pick<Recipient, 'mintUrl' | 'lockQuotes'>;

interface DirectoryContext {
  db: Db;
  defaults: RecipientSettings;
  /** Whether only members can be paid. For everyone else, there is no address. */
  membersOnly?: boolean;
  /** Who changes settings, for the audit trail. Default: the users themselves. */
  audit?: Pick<AuditEvent, 'systemUser' | 'action'>;
  clock: Clock;
  monotonicMs: () => number;
}

/**
 * Finds recipients by key or Lightning address, and saves their settings. Unless only members can be paid, every key is a
 * recipient, even if the database has no row for it.
 */
export class RecipientDirectory {
  readonly #context: DirectoryContext;
  /** By local part, as {@link listLocalParts} returns it. A full cache uses about 5 MB. */
  readonly #cache: LRUCache<string, Recipient>;
  /** If it changes while a recipient is read from the database, that recipient is not cached: it may be outdated. */
  #invalidationCount = 0;

  constructor(context: DirectoryContext) {
    this.#context = context;
    this.#cache = new LRUCache({
      max: 10_000,
      // How long an old setting applies if the notification about its change is lost.
      ttl: 5_000,
      ttlResolution: 0,
      perf: { now: context.monotonicMs },
    });
  }

  /** Reads the recipient with this key (hex) from the database, even if it is blocked. */
  async getByPubkey(pubkey: string): Promise<Recipient> {
    return this.#toRecipient(pubkey, await findUserByPubkey(this.#context.db, pubkey));
  }

  /** Returns the owner of a username in upper or lower case; null if nobody can be paid by this name. */
  async findByName(text: string): Promise<Recipient | null> {
    const name = parseUsername(text);
    return name === null ? null : this.#findPayable({ kind: 'name', name });
  }

  /** Throws the same RequestError if the address names no recipient or one that cannot be paid. */
  async resolveAddress(localPart: string): Promise<ResolvedAddress> {
    const { account, tag } = splitAddressTag(localPart);
    const recipient = this.#cache.get(account) ?? (await this.#readRecipient(account));
    return { recipient, account: account.toLowerCase(), tag };
  }

  async #readRecipient(account: string): Promise<Recipient> {
    const invalidationsBefore = this.#invalidationCount;
    const recipient = await this.#findPayable(parseRecipientAddress(account));
    if (recipient === null) {
      throw new RequestError('invalid', 'Recipient unavailable.');
    }
    // Other spellings, such as upper case, are not cached. The key is not `account` itself, which is a slice of the URL:
    // V8 would keep the whole URL in memory.
    const cacheKey = listLocalParts(recipient).find((part) => part === account);
    if (cacheKey !== undefined && invalidationsBefore === this.#invalidationCount) {
      this.#cache.set(cacheKey, recipient);
    }
    return recipient;
  }

  /** If `assertAllowed` throws for the changed recipient, nothing is saved. Concurrent changes of the same user wait. */
  async saveSettings(
    pubkey: string,
    settings: Partial<RecipientSettings>,
    assertAllowed: (recipient: Recipient) => void,
  ): Promise<Recipient> {
    const { db, clock } = this.#context;
    const saved = await transaction(db, async (tx) => {
      await notifyRecipientChange(tx, pubkey);
      const old = this.#toRecipient(pubkey, await findUserByPubkey(tx, pubkey));
      await saveUserSettings(tx, pubkey, settings);
      const changed = this.#toRecipient(pubkey, await findUserByPubkey(tx, pubkey));
      assertAllowed(changed);
      await recordAuditEvent(tx, {
        action: 'change settings',
        ...this.#context.audit,
        atMs: clock(),
        pubkey,
        before: { mintUrl: old.mintUrl, lockQuotes: old.lockQuotes },
        after: { mintUrl: changed.mintUrl, lockQuotes: changed.lockQuotes },
      });
      return changed;
    });
    // The notification reaches this process, too, but only later.
    for (const localPart of listLocalParts(saved)) {
      this.invalidate(localPart);
    }
    return saved;
  }

  /** Removes an address from the cache. @param localPart or {@link ALL_RECIPIENTS} */
  invalidate(localPart: string): void {
    this.#invalidationCount += 1;
    if (localPart === ALL_RECIPIENTS) {
      this.#cache.clear();
    } else {
      this.#cache.delete(localPart);
    }
  }

  /**
   * Returns null if the address names no recipient, a blocked one, or one that is not a member. Throws RequestError if an
   * npub is malformed.
   */
  async #findPayable(address: RecipientAddress): Promise<Recipient | null> {
    const { db, membersOnly } = this.#context;
    if (address.kind === 'invalid_npub') {
      throw new RequestError('invalid', 'Invalid recipient.');
    }
    if (address.kind === 'invalid_name') {
      return null;
    }
    const isKey = address.kind === 'pubkey';
    const user = isKey
      ? await findUserByPubkey(db, address.pubkey)
      : await findUserByName(db, address.name);
    const isPayable = !user?.block && (!membersOnly || Boolean(user?.member));
    const pubkey = isKey ? address.pubkey : user?.pubkey;
    return isPayable && pubkey !== undefined ? this.#toRecipient(pubkey, user) : null;
  }

  #toRecipient(pubkey: string, user: StoredUser | null): Recipient {
    const { defaults, membersOnly } = this.#context;
    return {
      pubkey,
      name: user?.name ?? null,
      mintUrl: user?.mintUrl ?? defaults.mintUrl,
      lockQuotes: user?.lockQuotes ?? defaults.lockQuotes,
      isMember: membersOnly ? Boolean(user?.member) : null,
    };
  }
}

/**
 * Announces a change of a recipient, so that all processes remove it from their caches. Call it before a change of the
 * name, because caches contain the recipient under the current name, and never under a name that is still free.
 *
 * Locks the recipient's row, so that what is read after it is what the change replaces.
 */
export async function notifyRecipientChange(tx: Tx, pubkey: string): Promise<void> {
  const user = await tx
    .selectFrom('users')
    .select('name')
    .where('pubkey', '=', pubkey)
    .modifyEnd(lockRows(tx, 'for no key update'))
    .executeTakeFirst();
  await notify(tx, RECIPIENT_CHANGES_CHANNEL, listLocalParts({ pubkey, name: user?.name ?? null }));
}

/** The payload is the local part of an address, or {@link ALL_RECIPIENTS}. */
export const RECIPIENT_CHANGES_CHANNEL = 'nutpost_address_changes';

/** The payload after an import, which may change any recipient. */
export const ALL_RECIPIENTS = '';
