import { generateSecretKey, nip19 } from 'nostr-tools';
import { finalizeEvent, getPublicKey } from 'nostr-tools/wasm';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { PUBLIC_HOST } from './simulated-network.ts';
import { platform, wallClockMs } from './virtual-platform.ts';

/** A Nostr key of a recipient, a buyer or a sender of zaps. */
export interface NostrKey {
  secretKey: Uint8Array;
  pubkey: string;
  npub: string;
}

const keys: NostrKey[] = [];

/** Keys are the same in all seeds, because they take long to compute. */
export function getKey(index: number): NostrKey {
  while (keys.length <= index) {
    const random = platform.random;
    platform.random = new SeededRandom(`key ${keys.length}`);
    const secretKey = generateSecretKey();
    platform.random = random;
    const pubkey = getPublicKey(secretKey);
    keys.push({ secretKey, pubkey, npub: nip19.npubEncode(pubkey) });
  }
  return keys[index] as NostrKey;
}

/** Signs a request (NIP-98). Returns the value of the `Authorization` header. */
export function signRequest(key: NostrKey, method: string, path: string): string {
  const event = finalizeEvent(
    {
      kind: 27_235,
      content: '',
      created_at: Math.floor(wallClockMs() / 1_000),
      tags: [
        ['u', `https://${PUBLIC_HOST}${path.split('?')[0]}`],
        ['method', method],
      ],
    },
    key.secretKey,
  );
  return `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
}
