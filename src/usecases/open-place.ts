import { type Refusal, tooMany } from '../domain/errors.ts';
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

/**
 * So long the database's word that there are too many is taken without asking again. However many ask, that
 * costs it one question a second for each recipient or network that is full, in each process; or one after another, while
 * invoices are under way that may come to nothing. And what is paid
 * makes room within a second, whichever process recorded it: a wallet's server, whose users pay within seconds,
 * must not wait for longer.
 */
export const FULL_FOR_MS = 1_000;

/** Whoever is refused is told to come back after this at the latest: a payment may make room at any time. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** The database's word that there are too many, and how long that is taken without asking again. */
export interface Full {
  sinceMs: number;
  untilMs: number;
}

/** Whether that is still taken; where the clock was set back it is not. */
export function isBelieved({ sinceMs, untilMs }: Full, nowMs: number): boolean {
  return nowMs >= sinceMs && nowMs < untilMs;
}

/**
 * What a client is told where too many invoices are open.
 *
 * @param what is too many, as the beginning of a sentence
 * @param waitMs until the first of them ceases to count, if none is paid
 */
export function tooManyOpen(what: string, waitMs: number): Refusal {
  return tooMany(what, Math.min(waitMs, LONGEST_RETRY_AFTER_MS));
}
