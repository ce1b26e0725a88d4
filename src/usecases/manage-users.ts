import type { Clock } from '../domain/clock.ts';
import type { RecipientAddress } from '../domain/recipient.ts';
import type { StoredUsername } from '../domain/username-claim.ts';
import type { RecipientBlock } from '../store/block-store.ts';
import type { Store } from '../store/store.ts';
import { notifyAddresses } from './recipients.ts';

/** More open quotes than these are not counted: nobody needs to know it exactly. */
const MAX_OPEN_QUOTES_COUNTED = 1_000;

/** Whom a command is about. */
export type UserSubject = Extract<RecipientAddress, { kind: 'pubkey' | 'name' }>;

/** A key, and the name that it is known by. */
export interface KnownKey {
  /** Hex. */
  pubkey: string;
  /** The name in use; null where there is none. */
  name: string | null;
}

/** What is kept of a user. Times in milliseconds since 1970. */
export interface UserOverview extends KnownKey {
  /** Names that it has, is buying or can take back. */
  usernames: StoredUsername[];
  /** Null: the operator's default. */
  mintUrl: string | null;
  /** Null: the operator's default. */
  lockQuotes: boolean | null;
  paymentCount: number;
  lastPaidAtMs: number | null;
  /** Quotes that are not paid yet and still watched. */
  openQuoteCount: number;
  /** Whether there are more than were counted. */
  hasMoreOpenQuotes: boolean;
  /** Of names, by how they ended. */
  purchases: Record<'open' | 'done' | 'undone', number>;
  block: RecipientBlock | null;
}

/** Nobody uses the name; `stored` says whose it is to be or was, where that is known. */
export interface NameNotInUse {
  outcome: 'name_not_in_use';
  name: string;
  stored: StoredUsername | null;
}

/** A user as the operator sees one. */
export type ShownUser =
  | { outcome: 'user'; nowMs: number; user: UserOverview }
  | { outcome: 'unknown_key'; pubkey: string }
  | NameNotInUse;

/** What became of blocking or unblocking. */
export type BlockChange =
  | {
      outcome: 'blocked' | 'already_blocked' | 'unblocked';
      nowMs: number;
      key: KnownKey;
      /** As it is now, or was until now. */
      block: RecipientBlock;
    }
  | { outcome: 'not_blocked'; nowMs: number; key: KnownKey }
  | NameNotInUse;

/** Lets the operator see users, and keep payers from them. */
export class ManageUsers {
  readonly #store: Store;
  readonly #clock: Clock;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Answers what is kept of a user. Changes nothing, and asks no mint. */
  async show(subject: UserSubject): Promise<ShownUser> {
    const key = await this.#find(subject);
    if ('outcome' in key) {
      return key;
    }
    const user = await this.#overview(key.pubkey);
    return user === null
      ? { outcome: 'unknown_key', pubkey: key.pubkey }
      : { outcome: 'user', nowMs: this.#clock(), user };
  }

  /**
   * Keeps payers from a key, known or not: it gets no new invoices. What is there already stays open to
   * it, and to whoever paid.
   *
   * @param reason for the operator alone; null leaves the one that is there
   */
  async block(subject: UserSubject, reason: string | null): Promise<BlockChange> {
    const key = await this.#find(subject);
    if ('outcome' in key) {
      return key;
    }
    const nowMs = this.#clock();
    const before = await this.#store.blocks.find(key.pubkey);
    const block = await this.#store.transaction(async (tx) => {
      await notifyAddresses(tx, key.pubkey);
      return tx.blocks.add(key.pubkey, reason, nowMs);
    });
    return { outcome: before === null ? 'blocked' : 'already_blocked', nowMs, key, block };
  }

  /** Lets payers find a key again. */
  async unblock(subject: UserSubject): Promise<BlockChange> {
    const key = await this.#find(subject);
    if ('outcome' in key) {
      return key;
    }
    const nowMs = this.#clock();
    const block = await this.#store.transaction(async (tx) => {
      await notifyAddresses(tx, key.pubkey);
      return tx.blocks.remove(key.pubkey);
    });
    return block === null
      ? { outcome: 'not_blocked', nowMs, key }
      : { outcome: 'unblocked', nowMs, key, block };
  }

  async #find(subject: UserSubject): Promise<KnownKey | NameNotInUse> {
    const { users, usernames } = this.#store;
    if (subject.kind === 'pubkey') {
      const { pubkey } = subject;
      return { pubkey, name: (await users.find(pubkey))?.name ?? null };
    }
    const { name } = subject;
    const user = await users.findByName(name);
    return user === null
      ? { outcome: 'name_not_in_use', name, stored: await usernames.find(name) }
      : { pubkey: user.pubkey, name };
  }

  /** Null where nothing is kept of the key. */
  async #overview(pubkey: string): Promise<UserOverview | null> {
    const { users, usernames, purchases, traces, blocks } = this.#store;
    const user = await users.find(pubkey);
    const names = await usernames.ofPubkey(pubkey);
    const payments = await traces.listPayments(pubkey, 1);
    const open = await traces.listOpen(pubkey, MAX_OPEN_QUOTES_COUNTED + 1);
    const bought = await purchases.count(pubkey);
    const block = await blocks.find(pubkey);
    const isKnown =
      user !== null ||
      block !== null ||
      names.length + open.length + bought.open + bought.done + bought.undone > 0;
    if (!isKnown) {
      return null;
    }
    return {
      pubkey,
      name: user?.name ?? null,
      usernames: names,
      mintUrl: user?.mintUrl ?? null,
      lockQuotes: user?.lockQuotes ?? null,
      paymentCount: payments.total,
      lastPaidAtMs: payments.quotes[0]?.paidAtMs ?? null,
      openQuoteCount: Math.min(open.length, MAX_OPEN_QUOTES_COUNTED),
      hasMoreOpenQuotes: open.length > MAX_OPEN_QUOTES_COUNTED,
      purchases: bought,
      block,
    };
  }
}
