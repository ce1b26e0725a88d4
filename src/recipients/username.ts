import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from '../limits.ts';

const SHAPE = new RegExp(`^[a-z0-9]{${MIN_USERNAME_LENGTH},${MAX_USERNAME_LENGTH}}$`, 'i');

/** Somebody's secret key (NIP-19), pasted into the wrong field: as a name, all the world would read it. */
const SECRET_KEY = /^nsec1[a-z0-9]{58}$/;

/**
 * Why a name is not free.
 *
 * - `in_use`: its owner is paid by it.
 * - `pending`: a purchase holds it, until that has come to its end.
 * - `released`: its owner has another now, and alone can have this one back until a grace is over.
 * - `reserved`: the operator keeps it from everybody.
 */
export type UsernameStatus = 'in_use' | 'pending' | 'released' | 'reserved';

/**
 * Reads a username in any case: letters and digits, not the beginning of an npub, and not a whole nsec
 * (spec.md section 4.6).
 *
 * @returns the name in lower case, as it is stored and answered; null where it can be nobody's name
 */
export function parseUsername(text: string): string | null {
  // Before it is lower case: foreign letters, such as the sign for kelvin, become English ones then.
  if (!SHAPE.test(text)) {
    return null;
  }
  const name = text.toLowerCase();
  return name.startsWith('npub1') || SECRET_KEY.test(name) ? null : name;
}
