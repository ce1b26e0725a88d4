import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeEach, describe, expect, it } from 'vitest';
import { ALL_ADDRESSES, Recipients } from '../../src/recipients/recipients.ts';
import type { StoredUser } from '../../src/recipients/user-store.ts';
import type { Store } from '../../src/store.ts';

const DEFAULTS = { mintUrl: 'https://default.example', lockQuotes: false };
const TTL_MS = 5_000;

const PUBKEY = getPublicKey(generateSecretKey());
const NPUB = nip19.npubEncode(PUBKEY);

let nowMs: number;
/** The only row of the database. */
let row: StoredUser;
/** Reads of payers end when it resolves. */
let held: Promise<void>;
let recipients: Recipients;

beforeEach(() => {
  nowMs = 1;
  row = { pubkey: PUBKEY, name: 'alice', mintUrl: null, lockQuotes: null, block: null };
  held = Promise.resolve();
  const find = async (): Promise<StoredUser> => {
    const user = { ...row };
    await held;
    return user;
  };
  const users = {
    find,
    findByName: async (name: string) => (name === row.name ? find() : null),
  };
  const transaction: Store['transaction'] = () => Promise.reject(new Error('unexpected'));
  recipients = new Recipients({
    store: { users, transaction },
    defaults: DEFAULTS,
    monotonicMs: () => nowMs,
  });
});

describe('a payer’s lookup', () => {
  it('reads the database again after the TTL', async () => {
    await recipients.byAddress(NPUB);
    row = { ...row, mintUrl: 'https://new.example' };
    nowMs += TTL_MS + 1;
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe('https://new.example');
  });

  it('reads the database again after a notification for its address, or for all', async () => {
    await recipients.byAddress(NPUB);
    await recipients.byAddress('alice');
    row = { ...row, mintUrl: 'https://new.example' };
    recipients.invalidate('alice');
    expect((await recipients.byAddress('alice')).mintUrl).toBe('https://new.example');
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe(DEFAULTS.mintUrl);
    recipients.invalidate(ALL_ADDRESSES);
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe('https://new.example');
  });

  it('does not cache what it read before a notification that came meanwhile', async () => {
    const release = Promise.withResolvers<void>();
    held = release.promise;
    const early = recipients.byAddress(NPUB);
    row = { ...row, mintUrl: 'https://new.example' };
    recipients.invalidate(NPUB);
    release.resolve();
    expect((await early).mintUrl).toBe(DEFAULTS.mintUrl);
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe('https://new.example');
  });
});
