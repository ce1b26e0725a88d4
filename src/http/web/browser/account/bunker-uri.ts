import type { BunkerPointer } from 'nostr-tools/nip46';

/**
 * Parses the address of a remote signer (NIP-46). Refuses NIP-05 names, because looking them up would send a request
 * to another host. Ignores relays to which the page may not connect.
 *
 * @throws Error with a sentence for the user
 */
export function parseBunkerUri(
  text: string,
  { allowInsecure }: { allowInsecure: boolean },
): BunkerPointer {
  const [, key = '', query = ''] =
    /^bunker:\/\/([^?/]*)\/?\??(.*)$/i.exec(text.trim()) ??
    fail('Paste an address that starts with bunker://. Your signer shows it.');
  const pubkey = key.toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(pubkey)) {
    fail('The bunker address is not complete. Copy it again from your signer.');
  }
  const params = new URLSearchParams(query);
  const allowed = allowInsecure ? /^wss?:\/\/[^\s/?#]/i : /^wss:\/\/[^\s/?#]/i;
  const relays = params.getAll('relay').filter((relay) => allowed.test(relay));
  if (relays.length === 0) {
    fail('The bunker address has no relay that starts with wss://.');
  }
  return { pubkey, relays, secret: params.get('secret') };
}

function fail(message: string): never {
  throw new Error(message);
}
