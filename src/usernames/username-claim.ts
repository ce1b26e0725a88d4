import type { UsernameStatus } from '../database/schema.ts';

/** A name that is not free, and why it is not. */
export interface StoredUsername {
  /** In lower case. */
  name: string;
  /** Hex: who has it, is buying it, or may take it back; null: the operator keeps it from everybody. */
  pubkey: string | null;
  status: UsernameStatus;
  /** When it got its status; of a name in use, when it was asked for. */
  sinceMs: number;
  /** Of a released name: nobody else can have it before. */
  untilMs: number | null;
  /** Of a pending name: the purchase that holds it. */
  purchase: string | null;
}

/** How a name stands for whoever would like to have it. */
export type NameStanding = 'free' | 'in_use' | 'pending' | 'in_grace' | 'reserved';

/** How a name stands, by what is kept of it. */
export function standingOf(stored: StoredUsername | null, nowMs: number): NameStanding {
  if (stored === null) {
    return 'free';
  }
  if (stored.status !== 'released') {
    return stored.status;
  }
  return stored.untilMs !== null && stored.untilMs > nowMs ? 'in_grace' : 'free';
}

/** What stands between a key and a name. */
export type UsernameClaim =
  | 'yours'
  /** Its old name, in the grace: taken back free of charge. */
  | 'yours_again'
  /** Its own purchase of the name is under way. */
  | 'buying'
  | 'taken'
  | 'reserved'
  | 'free';

/** Decides what a key that asks for a name is told. */
export function claimOf(
  stored: StoredUsername | null,
  pubkey: string,
  nowMs: number,
): UsernameClaim {
  const isOwn = stored?.pubkey === pubkey;
  switch (standingOf(stored, nowMs)) {
    case 'free':
      return 'free';
    case 'reserved':
      return 'reserved';
    case 'in_use':
      return isOwn ? 'yours' : 'taken';
    case 'pending':
      return isOwn ? 'buying' : 'taken';
    case 'in_grace':
      return isOwn ? 'yours_again' : 'taken';
  }
}
