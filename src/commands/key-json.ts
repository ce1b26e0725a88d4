import * as nip19 from 'nostr-tools/nip19';

/** A key for programs; its name is absent where it has none. */
export function keyToJson(pubkey: string, name: string | null): object {
  return { npub: nip19.npubEncode(pubkey), pubkey, ...(name === null ? {} : { name }) };
}
