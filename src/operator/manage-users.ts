import type { Clock } from '../clock.ts';
import { notifyAddresses } from '../recipients/recipients.ts';
import type { RecipientBlock } from '../recipients/user-store.ts';
import type { Store } from '../store.ts';
import type { StoredUsername } from '../usernames/username-claim.ts';

/** Counting stops here: no operator needs a larger number to be exact. */
const MAX_OPEN_QUOTES_COUNTED = 1_000;

/** The user that a command is about: a key (hex), or a name in lower case. */
export type UserSubject = { kind: 'pubkey'; pubkey: string } | { kind: 'name'; name: string };

/** A key (hex), and the name that it uses. */
interface KnownKey {
  pubkey: string;
  name: string | null;
}

/** What is stored about a user. Times in milliseconds since 1970. */
export interface UserOverview extends KnownKey {
  /** Names that it has, is buying, or can take back. */
  usernames: StoredUsername[];
  /** Null: the operator's default. */
  mintUrl: string | null;
  /** Null: the operator's default. */
  lockQuotes: boolean | null;
  paymentCount: number;
  lastPaidAtMs: number | null;
  /** Unpaid quotes that are still watched. */
  openQuoteCount: number;
  /** Whether there are more than were counted. */
  hasMoreOpenQuotes: boolean;
  /** Purchases of names, by state. */
  purchases: Record<'open' | 'done' | 'undone', number>;
  block: RecipientBlock | null;
}

/** No key uses the name; `stored` is its row, if it has one. */
export interface NameNotInUse {
  outcome: 'name_not_in_use';
  name: string;
  stored: StoredUsername | null;
}

/** The result of looking a user up. */
export type ShownUser =
  | { outcome: 'user'; nowMs: number; user: UserOverview }
  | { outcome: 'unknown_key'; pubkey: string }
  | NameNotInUse;

export type BlockChange =
  | {
      outcome: 'blocked' | 'already_blocked' | 'unblocked';
      nowMs: number;
      key: KnownKey;
      /** The block as it is now; after unblocking, as it was. */
      block: RecipientBlock;
    }
  | { outcome: 'not_blocked'; nowMs: number; key: KnownKey; block: null }
  | NameNotInUse;

interface Parts {
  store: Store;
  clock: Clock;
}

/** Reads what is stored about a user. Sends no request to a mint. */
export async function showUser({ store, clock }: Parts, subject: UserSubject): Promise<ShownUser> {
  const key = await findKey(store, subject);
  if ('outcome' in key) {
    return key;
  }
  const user = await readOverview(store, key);
  return user === null
    ? { outcome: 'unknown_key', pubkey: key.pubkey }
    : { outcome: 'user', nowMs: clock(), user };
}

/**
 * Blocks a key, known or not: it gets no new invoices. Earlier invoices can still be paid and collected.
 *
 * @param reason for the operator only; null keeps that of an earlier block
 */
export async function blockUser(
  { store, clock }: Parts,
  subject: UserSubject,
  reason: string | null,
): Promise<BlockChange> {
  const key = await findKey(store, subject);
  if ('outcome' in key) {
    return key;
  }
  const nowMs = clock();
  const before = await store.users.find(key.pubkey);
  const block = await store.transaction(async (tx) => {
    await notifyAddresses(tx, key.pubkey);
    return tx.users.block(key.pubkey, reason, nowMs);
  });
  return { outcome: before?.block ? 'already_blocked' : 'blocked', nowMs, key, block };
}

/** Removes the block of a key. */
export async function unblockUser(
  { store, clock }: Parts,
  subject: UserSubject,
): Promise<BlockChange> {
  const key = await findKey(store, subject);
  if ('outcome' in key) {
    return key;
  }
  const nowMs = clock();
  const block = (await store.users.find(key.pubkey))?.block ?? null;
  await store.transaction(async (tx) => {
    await notifyAddresses(tx, key.pubkey);
    await tx.users.unblock(key.pubkey);
  });
  return block === null
    ? { outcome: 'not_blocked', nowMs, key, block }
    : { outcome: 'unblocked', nowMs, key, block };
}

async function findKey(
  { users, usernames }: Store,
  subject: UserSubject,
): Promise<KnownKey | NameNotInUse> {
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

/** Null if nothing is stored about the key. */
async function readOverview(store: Store, key: KnownKey): Promise<UserOverview | null> {
  const { pubkey } = key;
  const user = await store.users.find(pubkey);
  const usernames = await store.usernames.ofPubkey(pubkey);
  const payments = await store.traces.listPayments(pubkey, 1);
  const open = await store.traces.listOpen(pubkey, MAX_OPEN_QUOTES_COUNTED + 1);
  const purchases = await store.purchases.count(pubkey);
  const isKnown =
    user !== null ||
    usernames.length + open.length + purchases.open + purchases.done + purchases.undone > 0;
  if (!isKnown) {
    return null;
  }
  return {
    ...key,
    usernames,
    mintUrl: user?.mintUrl ?? null,
    lockQuotes: user?.lockQuotes ?? null,
    paymentCount: payments.total,
    lastPaidAtMs: payments.quotes[0]?.paidAtMs ?? null,
    openQuoteCount: Math.min(open.length, MAX_OPEN_QUOTES_COUNTED),
    hasMoreOpenQuotes: open.length > MAX_OPEN_QUOTES_COUNTED,
    purchases,
    block: user?.block ?? null,
  };
}
