import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeEach, describe, expect, it } from 'vitest';
import { ALL_RECIPIENTS, RecipientDirectory } from '../../src/recipients/recipient-directory.ts';
import type { StoredUser } from '../../src/recipients/user-store.ts';
import type { Store } from '../../src/store.ts';

const DEFAULTS = { mintUrl: 'https://default.example', lockQuotes: false };
const TTL_MS = 5_000;

const PUBKEY = getPublicKey(generateSecretKey());
const NPUB = nip19.npubEncode(PUBKEY);

let nowMs: number;
/** The only row of the database. */
let row: StoredUser;
/** Reads complete when this resolves. */
let held: Promise<void>;
let recipients: RecipientDirectory;

beforeEach(() => {
  nowMs = 1;
  row = { pubkey: PUBKEY, name: 'alice', mintUrl: null, lockQuotes: null, block: null };
  held = Promise.resolve();
  const findByPubkey = async (): Promise<StoredUser> => {
    const user = { ...row };
    await held;
    return user;
  };
  const users = {
    findByPubkey,
    findByName: async (name: string) => (name === row.name ? findByPubkey() : null),
  };
  const transaction: Store['transaction'] = () => Promise.reject(new Error('unexpected'));
  recipients = new RecipientDirectory({
    store: { users, transaction },
    defaults: DEFAULTS,
    monotonicMs: () => nowMs,
  });
});

describe('RecipientDirectory.resolveAddress', () => {
  it('reads the database again after the TTL', async () => {
    await recipients.resolveAddress(NPUB);
    row = { ...row, mintUrl: 'https://new.example' };
    nowMs += TTL_MS + 1;
    expect((await recipients.resolveAddress(NPUB)).mintUrl).toBe('https://new.example');
  });

  it('reads the database again after a notification for the address, or for all addresses', async () => {
    await recipients.resolveAddress(NPUB);
    await recipients.resolveAddress('alice');
    row = { ...row, mintUrl: 'https://new.example' };
    recipients.invalidate('alice');
    expect((await recipients.resolveAddress('alice')).mintUrl).toBe('https://new.example');
    expect((await recipients.resolveAddress(NPUB)).mintUrl).toBe(DEFAULTS.mintUrl);
    recipients.invalidate(ALL_RECIPIENTS);
    expect((await recipients.resolveAddress(NPUB)).mintUrl).toBe('https://new.example');
  });

  it('does not cache a row that it read before a notification arrived', async () => {
    const release = Promise.withResolvers<void>();
    held = release.promise;
    const early = recipients.resolveAddress(NPUB);
    row = { ...row, mintUrl: 'https://new.example' };
    recipients.invalidate(NPUB);
    release.resolve();
    expect((await early).mintUrl).toBe(DEFAULTS.mintUrl);
    expect((await recipients.resolveAddress(NPUB)).mintUrl).toBe('https://new.example');
  });
});
