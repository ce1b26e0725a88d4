import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeEach, describe, expect, it } from 'vitest';
import type { AddressedUser, StoredUser } from '../../src/store/user-store.ts';
import { Recipients } from '../../src/usecases/recipients.ts';

/** What payers are told of recipients while no change is told by the database: what a process knows by itself. */

const DEFAULTS = { mintUrl: 'https://default.example', lockQuotes: false };
const LIFE_MS = 60_000;

const PUBKEY = getPublicKey(generateSecretKey());
const NPUB = nip19.npubEncode(PUBKEY);

let nowMs: number;
let reads: number;
/** The one row of the database. */
let row: StoredUser;
let failure: Error | null;
let recipients: Recipients;

beforeEach(() => {
  nowMs = 0;
  reads = 0;
  row = { pubkey: PUBKEY, name: 'alice', mintUrl: null, lockQuotes: null };
  failure = null;
  const addressed = async (): Promise<AddressedUser> => {
    reads += 1;
    return { ...row, isBlocked: false };
  };
  const users = {
    find: async () => row,
    findAddressed: addressed,
    findByName: async (name: string) => (name === row.name ? addressed() : null),
    save: async (_pubkey: string, settings: Partial<StoredUser>) => {
      row = { ...row, ...settings };
      if (failure !== null) {
        throw failure;
      }
      return row;
    },
  };
  recipients = new Recipients(users, DEFAULTS, { isHearing: () => true, monotonicMs: () => nowMs });
});

describe('payers', () => {
  it('are answered by what was read before, by each address that is in use', async () => {
    for (const address of [NPUB, 'alice', NPUB, 'alice']) {
      expect(await recipients.byAddress(address)).toMatchObject({ pubkey: PUBKEY });
    }
    expect((await recipients.byName('alice'))?.pubkey).toBe(PUBKEY);
    expect(reads).toBe(2);
  });

  it('are told of another mint and lock at once where they were saved here', async () => {
    await recipients.byAddress(NPUB);
    await recipients.byAddress('alice');
    await recipients.save(PUBKEY, { mintUrl: 'https://new.example' });
    for (const address of [NPUB, 'alice']) {
      expect((await recipients.byAddress(address)).mintUrl).toBe('https://new.example');
    }
    await recipients.save(PUBKEY, { lockQuotes: true });
    expect(await recipients.byAddress(NPUB)).toMatchObject({ lockQuotes: true });
  });

  it('are told of them, too, where the answer to the saving was lost', async () => {
    await recipients.byAddress(NPUB);
    failure = new Error('the connection broke');
    await expect(recipients.save(PUBKEY, { mintUrl: 'https://new.example' })).rejects.toThrow();
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe('https://new.example');
  });

  it('are told nothing older than what the recipient was shown', async () => {
    await recipients.byAddress(NPUB);
    row = { ...row, mintUrl: 'https://elsewhere.example', name: 'bob' };
    expect(await recipients.byPubkey(PUBKEY)).toMatchObject({ name: 'bob' });
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe('https://elsewhere.example');
    await expect(recipients.byAddress('alice')).rejects.toThrow('Recipient unavailable.');
  });

  it('are told nobody older than the owner whom this process showed a name that has moved', async () => {
    expect(await recipients.byAddress('alice')).toMatchObject({ pubkey: PUBKEY });
    const other = getPublicKey(generateSecretKey());
    row = { ...row, pubkey: other };
    expect(await recipients.byPubkey(other)).toMatchObject({ name: 'alice' });
    expect(await recipients.byAddress('alice')).toMatchObject({ pubkey: other });
  });

  it('are told of a change that nobody could tell when a minute is over', async () => {
    await recipients.byAddress(NPUB);
    row = { ...row, mintUrl: 'https://elsewhere.example' };
    nowMs += LIFE_MS;
    expect((await recipients.byAddress(NPUB)).mintUrl).toBe('https://elsewhere.example');
  });

  it('are told of a change that was told, of one key and of any', async () => {
    for (const told of [PUBKEY, null]) {
      await recipients.byAddress('alice');
      row = { ...row, mintUrl: `https://${told === null ? 'one' : 'other'}.example` };
      recipients.changed(told);
      expect((await recipients.byAddress('alice')).mintUrl).toBe(row.mintUrl);
    }
  });

  it('find nobody by letters of another alphabet, whatever was asked before', async () => {
    row = { ...row, name: 'kate' };
    expect(await recipients.byAddress('kate')).toMatchObject({ name: 'kate' });
    expect(await recipients.byAddress('KATE')).toMatchObject({ name: 'kate' });
    // The sign for kelvin is a small k in lower case.
    await expect(recipients.byAddress('\u212Aate')).rejects.toThrow('Recipient unavailable.');
    expect(await recipients.byName('\u212Aate')).toBeNull();
    expect(await recipients.byName(NPUB)).toBeNull();
  });
});
