import type { QuoteKey } from '../store/quote-store.ts';

/** A quote that was just issued. Times in milliseconds since 1970. */
export interface IssuedQuote extends QuoteKey {
  createdAtMs: number;
  expiresAtMs: number;
}

/** Leave to make one invoice; it counts as open from the beginning. */
export interface OpenPlace {
  /** Tells what came of it: the quote that was kept, or null where there is none. */
  settle(issued: IssuedQuote | null): void;
}

/** The place of somebody for whom there is no bound. */
export const UNCOUNTED_PLACE: OpenPlace = { settle: () => {} };

/**
 * After so long an invoice no longer counts as open, though it may still be paid: what somebody floods
 * shuts nobody out for longer.
 */
export const OPEN_FOR_MS = 60 * 60_000;

/** So long the database's word that there are too many is taken without asking again. */
export const FULL_FOR_MS = 5_000;
