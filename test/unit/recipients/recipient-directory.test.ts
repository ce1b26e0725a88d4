import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeEach, describe, expect, it } from 'vitest';
import { ALL_RECIPIENTS, RecipientDirectory } from '../../../src/recipients/recipient-directory.ts';
import type { StoredUser } from '../../../src/recipients/user-store.ts';
import type { Store } from '../../../src/store.ts';

const DEFAULTS = { mintUrl: 'https://default.example', lockQuotes: false };
const TTL_MS = 5_000;

const PUBKEY = getPublicKey(generateSecretKey());
const NPUB = nip19.npubEncode(PUBKEY);

let nowMs: number;
/** The only user in the database. */
let storedUser: StoredUser;
/** Database reads return after this promise resolves. */
let readHold: Promise<void>;
let directory: RecipientDirectory;

beforeEach(() => {
  nowMs = 1;
  storedUser = {
    pubkey: PUBKEY,
    name: 'alice',
    mintUrl: null,
    lockQuotes: null,
    block: null,
    formerBlock: null,
  };
  readHold = Promise.resolve();
  const findByPubkey = async (): Promise<StoredUser> => {
    const user = { ...storedUser };
    await readHold;
    return user;
  };
  const users = {
    findByPubkey,
    findByName: async (name: string) => (name === storedUser.name ? findByPubkey() : null),
  };
  const transaction: Store['transaction'] = () => Promise.reject(new Error('unexpected'));
  directory = new RecipientDirectory({
    store: { users, transaction },
    defaults: DEFAULTS,
    monotonicMs: () => nowMs,
    log: { info: () => undefined },
  });
});

describe('RecipientDirectory.resolveAddress', () => {
  it('reads the database again after the TTL', async () => {
    await directory.resolveAddress(NPUB);
    storedUser = { ...storedUser, mintUrl: 'https://new.example' };
    nowMs += TTL_MS + 1;
    expect(await resolveMint(NPUB)).toBe('https://new.example');
  });

  it('reads the database again after invalidation of the address or of all recipients', async () => {
    await directory.resolveAddress(NPUB);
    await directory.resolveAddress('alice');
    storedUser = { ...storedUser, mintUrl: 'https://new.example' };
    directory.invalidate('alice');
    expect(await resolveMint('alice')).toBe('https://new.example');
    expect(await resolveMint(NPUB)).toBe(DEFAULTS.mintUrl);
    directory.invalidate(ALL_RECIPIENTS);
    expect(await resolveMint(NPUB)).toBe('https://new.example');
  });

  it('does not cache a user that it read before an invalidation', async () => {
    const hold = Promise.withResolvers<void>();
    readHold = hold.promise;
    const lookupBeforeInvalidation = directory.resolveAddress(NPUB);
    storedUser = { ...storedUser, mintUrl: 'https://new.example' };
    directory.invalidate(NPUB);
    hold.resolve();
    expect((await lookupBeforeInvalidation).recipient.mintUrl).toBe(DEFAULTS.mintUrl);
    expect(await resolveMint(NPUB)).toBe('https://new.example');
  });
});

async function resolveMint(localPart: string): Promise<string> {
  return (await directory.resolveAddress(localPart)).recipient.mintUrl;
}
