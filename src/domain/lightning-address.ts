/** `name@host` or `name@host:port` (LUD-16): whom a Lightning payment is for. */
export interface LightningAddress {
  /** In lower case, as it is shown and written down. */
  text: string;
  user: string;
  /** With its port where it names one. */
  host: string;
}

/** Longer than any address that somebody typed: that of a mail has 254 characters at most. */
const MAX_ADDRESS_LENGTH = 254;

/** LUD-16 has `a-z0-9-_.`, and `+` before a tag. */
const ADDRESS = /^([a-z0-9\-_.+]+)@([a-z0-9\-.]+(?::\d{1,5})?|\[[0-9a-f:.]+\](?::\d{1,5})?)$/;

/**
 * Reads a Lightning address, in any case.
 *
 * @returns null where the text is none
 */
export function parseLightningAddress(text: string): LightningAddress | null {
  const lower = text.trim().toLowerCase();
  const [, user, host] = ADDRESS.exec(lower) ?? [];
  const isAddress =
    user !== undefined &&
    host !== undefined &&
    lower.length <= MAX_ADDRESS_LENGTH &&
    URL.canParse(`https://${host}`);
  return isAddress ? { text: lower, user, host } : null;
}
