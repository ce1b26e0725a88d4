import type { UsernameStatus } from '../database/schema.ts';

/** A name with a row in `usernames`. */
export interface StoredUsername {
  /** In lower case. */
  name: string;
  /** The owner, the buyer or the previous owner (hex); null if the operator reserved the name. */
  pubkey: string | null;
  status: UsernameStatus;
  /** When the name got its status. If it is in use, when the owner requested it. */
  statusSinceMs: number;
  /** Until then, only the previous owner can get a released name. Null for other names. */
  graceEndsAtMs: number | null;
  /** The purchase that holds a pending name. Null for other names. */
  purchaseId: string | null;
}

/** Whether a name is available, independent of the key that requests it. */
export type UsernameAvailability = 'free' | 'in_use' | 'pending' | 'in_grace' | 'reserved';

export function resolveAvailability(
  stored: StoredUsername | null,
  nowMs: number,
): UsernameAvailability {
  if (stored === null) {
    return 'free';
  }
  if (stored.status !== 'released') {
    return stored.status;
  }
  return stored.graceEndsAtMs !== null && stored.graceEndsAtMs > nowMs ? 'in_grace' : 'free';
}

/** Whether a certain key can have a name. */
export type ClaimDecision =
  | 'owned'
  /** The key released the name, and its grace period has not ended. The key gets it back free of charge. */
  | 'reclaimable'
  /** A purchase of the name by the key is in progress. */
  | 'buying'
  | 'taken'
  | 'reserved'
  | 'free';

export function decideClaim(
  stored: StoredUsername | null,
  pubkey: string,
  nowMs: number,
): ClaimDecision {
  const isSameKey = stored?.pubkey === pubkey;
  const availability = resolveAvailability(stored, nowMs);
  switch (availability) {
    case 'free':
    case 'reserved':
      return availability;
    case 'in_use':
      return isSameKey ? 'owned' : 'taken';
    case 'pending':
      return isSameKey ? 'buying' : 'taken';
    case 'in_grace':
      return isSameKey ? 'reclaimable' : 'taken';
  }
}
