import { isReservedUsername } from './reserved-usernames.ts';
import { type NameStanding, type StoredUsername, standingOf } from './username-claim.ts';

/** A list that a name is reserved by, beside what the operator's command reserved. */
export type ReservedList = 'built_in' | 'setting';

/** All that there is to say of a name. */
export interface NameRecord {
  /** In lower case. */
  name: string;
  standing: NameStanding;
  /** What is kept of it; of a free name, whose it once was. */
  stored: StoredUsername | null;
  /** The list that it is on, whoever has it now; null where it is on none. */
  list: ReservedList | null;
}

/**
 * Puts together how a name stands.
 *
 * @param reservedNames of the operator's setting
 */
export function nameRecord(
  name: string,
  stored: StoredUsername | null,
  reservedNames: readonly string[],
  nowMs: number,
): NameRecord {
  const list = listOf(name, reservedNames);
  const standing = standingOf(stored, nowMs);
  return {
    name,
    standing: standing === 'free' && list !== null ? 'reserved' : standing,
    stored,
    list,
  };
}

function listOf(name: string, reservedNames: readonly string[]): ReservedList | null {
  if (isReservedUsername(name, [])) {
    return 'built_in';
  }
  return isReservedUsername(name, reservedNames) ? 'setting' : null;
}
