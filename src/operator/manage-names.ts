import type { Clock } from '../clock.ts';
import { ADDRESS_CHANNEL } from '../recipients/recipients.ts';
import type { Store, TransactionStore } from '../store.ts';
import { isReservedUsername } from '../usernames/reserved-usernames.ts';
import { type NameStanding, type StoredUsername, standingOf } from '../usernames/username-claim.ts';

/** A list of reserved names: the one in the program, or `USERNAME_RESERVED`. */
export type ReservedList = 'built_in' | 'setting';

/** A name as the operator sees it. */
export interface NameRecord {
  /** In lower case. */
  name: string;
  standing: NameStanding;
  /** Its row; a free name may still have that of its former owner. */
  stored: StoredUsername | null;
  /** The list that reserves the name, even if a key has it; null if there is none. */
  list: ReservedList | null;
}

/** The result of reserving or releasing a name. The last four outcomes change nothing. */
export interface NameChange {
  outcome:
    | 'reserved'
    | 'released'
    | 'already_reserved'
    | 'already_free'
    /** A key uses the name, and the operator did not allow to take it away. */
    | 'in_use'
    /** A purchase holds the name; only the mint can decide how it ends. */
    | 'pending'
    /** A list reserves the name, not a command. */
    | 'on_list'
    /** A concurrent change was first. */
    | 'overtaken';
  nowMs: number;
  before: NameRecord;
}

interface Parts {
  store: Store;
  /** The names of `USERNAME_RESERVED`. */
  reservedNames: readonly string[];
  clock: Clock;
}

/** Reads a name in lower case. */
export async function showName(
  { store, reservedNames, clock }: Parts,
  name: string,
): Promise<{ nowMs: number; record: NameRecord }> {
  const nowMs = clock();
  const stored = await store.usernames.find(name);
  return { nowMs, record: toRecord(name, stored, reservedNames, nowMs) };
}

/**
 * Reserves a name, so that no user can have it, or releases it.
 *
 * @param name in lower case
 * @param options.inUse whether a name in use may be taken away from its owner
 */
export function changeName(
  { store, reservedNames, clock }: Parts,
  action: 'reserve' | 'release',
  name: string,
  { inUse }: { inUse: boolean },
): Promise<NameChange> {
  return store.transaction(async (tx) => {
    const nowMs = clock();
    const before = toRecord(name, await tx.usernames.find(name), reservedNames, nowMs);
    const obstacle = obstacleTo(action, before, inUse);
    const outcome = obstacle ?? (await carryOut(tx, action, before, nowMs));
    return { outcome, nowMs, before };
  });
}

function toRecord(
  name: string,
  stored: StoredUsername | null,
  reservedNames: readonly string[],
  nowMs: number,
): NameRecord {
  const list = listOf(name, reservedNames);
  const standing = standingOf(stored, nowMs);
  const isListed = standing === 'free' && list !== null;
  return { name, standing: isListed ? 'reserved' : standing, stored, list };
}

function listOf(name: string, reservedNames: readonly string[]): ReservedList | null {
  if (isReservedUsername(name, [])) {
    return 'built_in';
  }
  return isReservedUsername(name, reservedNames) ? 'setting' : null;
}

function obstacleTo(
  action: 'reserve' | 'release',
  { standing, stored, list }: NameRecord,
  inUse: boolean,
): NameChange['outcome'] | null {
  switch (standing) {
    case 'pending':
      return 'pending';
    case 'in_use':
      return inUse ? null : 'in_use';
    case 'free':
      return action === 'release' ? 'already_free' : null;
    case 'reserved':
      if (action === 'reserve') {
        return 'already_reserved';
      }
      return list !== null && stored?.status !== 'reserved' ? 'on_list' : null;
    case 'in_grace':
      return null;
  }
}

/** Each statement changes the name only if its state is still that of `before`. */
async function carryOut(
  tx: TransactionStore,
  action: 'reserve' | 'release',
  { name, standing }: NameRecord,
  nowMs: number,
): Promise<NameChange['outcome']> {
  if (standing === 'in_use') {
    await tx.notify(ADDRESS_CHANNEL, [name]);
    if (!(await tx.usernames.takeAway(name))) {
      return 'overtaken';
    }
  } else if (standing !== 'free' && !(await tx.usernames.release(name))) {
    return 'overtaken';
  }
  if (action === 'release') {
    return 'released';
  }
  return (await tx.usernames.reserve(name, nowMs)) ? 'reserved' : 'overtaken';
}
