/**
 * A Nostr secret key (NIP-19) or an encrypted one (NIP-49), also as a URI (NIP-21), anywhere in a text. Bech32 never
 * mixes upper and lower case; a Cashu token, which does, would otherwise look like a key now and then.
 */
const SECRET_KEY =
  /(?:nostr:)?(?:n(?:sec|cryptsec)1[02-9ac-hj-np-z]{20,}|N(?:SEC|CRYPTSEC)1[02-9AC-HJ-NP-Z]{20,})/g;

export const SECRET_KEY_WARNING =
  'This is a secret key (nsec), and whoever has it controls your identity. Never enter it on a web page. To sign ' +
  'in, use a browser extension or a remote signer; to be paid, give others your npub.';

export function containsSecretKey(text: string): boolean {
  return removeSecretKeys(text) !== text;
}

export function removeSecretKeys(text: string): string {
  return text.replace(SECRET_KEY, '');
}
