import type { InvoiceFacts } from './bolt11.ts';

/** Some mints answer milliseconds; no date in seconds is this large before the year 5000. */
const LARGEST_SECONDS = 100_000_000_000;

/** No invoice waits longer; keeps a mint's wild answer from making a quote that is watched for ever. */
const LONGEST_LIFE_SECONDS = 365 * 24 * 60 * 60;

/**
 * When a fresh quote ends: the mint's `expiry`, or the invoice's own where the mint gives none
 * (cdk sends 0, Nutshell may send null; NUT-23) or one before the invoice was made.
 *
 * @param expiry the mint's field as it came: Unix seconds, or milliseconds by mistake
 * @returns Unix seconds
 */
export function quoteExpiresAt(expiry: number | null, invoice: InvoiceFacts): number {
  const latest = invoice.createdAt + LONGEST_LIFE_SECONDS;
  const seconds = Math.floor(
    Number(expiry) > LARGEST_SECONDS ? Number(expiry) / 1000 : Number(expiry),
  );
  return Math.min(seconds > invoice.createdAt ? seconds : invoice.expiresAt, latest);
}
