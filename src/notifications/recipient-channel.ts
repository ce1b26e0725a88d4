/**
 * The channel on which the database itself tells that what a recipient's addresses stand for has changed
 * (migration 0007).
 */
export const RECIPIENT_CHANNEL = 'nutpost_recipient_changes';

const KEY = /^[0-9a-f]{64}$/;

/**
 * Reads whose settings, name or block changed.
 *
 * @returns the key, hex; null: anybody's may have, as whoever writes anything else there says
 */
export function decodeRecipientChange(payload: string): string | null {
  return KEY.test(payload) ? payload : null;
}
