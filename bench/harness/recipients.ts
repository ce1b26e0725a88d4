import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import type { BenchDatabase } from './database.ts';

/** Somebody who has chosen a mint. */
interface Recipient {
  /** Hex. */
  secretKey: string;
  npub: string;
  /** The number of the mint. */
  mint: number;
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
): Promise<Recipient[]> {
  const kept = Array.from({ length: count }, (_, i) => {
    const secretKey = generateSecretKey();
    return {
      secretKey: Buffer.from(secretKey).toString('hex'),
      pubkey: getPublicKey(secretKey),
      mint: (i + Math.floor(i / mintUrls.length)) % mintUrls.length,
    };
  });
  const rows = kept.map(({ pubkey, mint }) => ({ pubkey, mint_url: mintUrls[mint] ?? null }));
  await database.prepare(async (db) => {
    await db.insertInto('users').values(rows).execute();
  });
  return kept.map(({ secretKey, pubkey, mint }) => ({
    secretKey,
    npub: nip19.npubEncode(pubkey),
    mint,
  }));
}
