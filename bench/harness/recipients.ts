import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import type { BenchDatabase } from './database.ts';

/** Somebody who can be paid. Keys are in hex. */
export interface Recipient {
  secretKey: string;
  pubkey: string;
  npub: string;
}

/** Somebody who has chosen a mint. */
interface RecipientAtMint extends Recipient {
  /** The number of the mint. */
  mint: number;
}

/** A recipient whom nobody has paid before. */
export function newRecipient(): Recipient {
  const secretKey = generateSecretKey();
  const pubkey = getPublicKey(secretKey);
  return {
    secretKey: Buffer.from(secretKey).toString('hex'),
    pubkey,
    npub: nip19.npubEncode(pubkey),
  };
}

/**
 * Puts recipients into the tables, before any process has the database open. Those who follow one
 * another have different mints; one more is passed over after each round, so that whoever asks for
 * recipients at an even distance meets all mints too.
 */
export async function keepRecipients(
  database: BenchDatabase,
  mintUrls: readonly string[],
  count: number,
): Promise<RecipientAtMint[]> {
  const kept = Array.from({ length: count }, (_, i) => ({
    ...newRecipient(),
    mint: (i + Math.floor(i / mintUrls.length)) % mintUrls.length,
  }));
  const rows = kept.map(({ pubkey, mint }) => ({ pubkey, mint_url: mintUrls[mint] ?? null }));
  await database.prepare(async (db) => {
    await db.insertInto('users').values(rows).execute();
  });
  return kept;
}
