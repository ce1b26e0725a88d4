import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from './limits.ts';

const SHAPE = new RegExp(`^[a-z0-9]{${MIN_USERNAME_LENGTH},${MAX_USERNAME_LENGTH}}$`, 'i');

/**
 * Reads a username in any case: letters and digits, and not the beginning of an npub
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
  return name.startsWith('npub1') ? null : name;
}
