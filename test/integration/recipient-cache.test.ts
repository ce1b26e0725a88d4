import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeEach, describe, expect, it } from 'vitest';
import { transaction } from '../../src/database/transaction.ts';
import { ALL_RECIPIENTS, RecipientDirectory } from '../../src/recipients/recipient-directory.ts';
import { saveUserSettings } from '../../src/recipients/user-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';

const DEFAULT_MINT_URL = 'https://default.example';
const NEW_MINT_URL = 'https://new.example';
const CACHE_TTL_MS = 5_000;

const database = useTestDatabase();

let pubkey: string;
let npub: string;
let nowMs: number;
/** Called when a result of the database has arrived. The directory gets it when the promise resolves. */
let holdResult: () => Promise<void>;
let directory: RecipientDirectory;

beforeEach(() => {
  pubkey = getPublicKey(generateSecretKey());
  npub = nip19.npubEncode(pubkey);
  nowMs = 1;
  holdResult = async () => undefined;
  const slowDatabase = database.db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      await holdResult();
      return result;
    },
  });
  directory = new RecipientDirectory({
    db: slowDatabase,
    defaults: { mintUrl: DEFAULT_MINT_URL, lockQuotes: false },
    monotonicMs: () => nowMs,
    log: { info: () => undefined },
  });
});

describe('RecipientDirectory.resolveAddress', () => {
  it('reads the database again after the TTL', async () => {
    await directory.resolveAddress(npub);
    await saveNewMint();
    nowMs += CACHE_TTL_MS + 1;
    expect(await resolveMint()).toBe(NEW_MINT_URL);
  });

  it('reads the database again after invalidation of the address or of all recipients', async () => {
    await directory.resolveAddress(npub);
    await saveNewMint();
    expect(await resolveMint()).toBe(DEFAULT_MINT_URL);
    directory.invalidate(npub);
    expect(await resolveMint()).toBe(NEW_MINT_URL);
    await saveMint(DEFAULT_MINT_URL);
    directory.invalidate(ALL_RECIPIENTS);
    expect(await resolveMint()).toBe(DEFAULT_MINT_URL);
  });

  it('does not cache a user that it read before an invalidation', async () => {
    const hasRead = Promise.withResolvers<void>();
    const hold = Promise.withResolvers<void>();
    holdResult = () => {
      hasRead.resolve();
      return hold.promise;
    };
    const lookupBeforeInvalidation = directory.resolveAddress(npub);
    await hasRead.promise;
    await saveNewMint();
    directory.invalidate(npub);
    hold.resolve();
    expect((await lookupBeforeInvalidation).recipient.mintUrl).toBe(DEFAULT_MINT_URL);
    expect(await resolveMint()).toBe(NEW_MINT_URL);
  });
});

async function resolveMint(): Promise<string> {
  return (await directory.resolveAddress(npub)).recipient.mintUrl;
}

function saveNewMint(): Promise<void> {
  return saveMint(NEW_MINT_URL);
}

async function saveMint(mintUrl: string): Promise<void> {
  await transaction(database.db, (tx) => saveUserSettings(tx, pubkey, { mintUrl }));
}
