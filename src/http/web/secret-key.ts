/** NIP-19, NIP-49 (encrypted) or NIP-21 (URI). Mixed case does not match, because Cashu tokens may look like that. */
const SECRET_KEY =
  /(?:nostr:)?(?:n(?:sec|cryptsec)1[02-9ac-hj-np-z]{20,}|N(?:SEC|CRYPTSEC)1[02-9AC-HJ-NP-Z]{20,})/g;

export function containsSecretKey(text: string): boolean {
  return removeSecretKeys(text) !== text;
}

export function removeSecretKeys(text: string): string {
  return text.replace(SECRET_KEY, '');
}
