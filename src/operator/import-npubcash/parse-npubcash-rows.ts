import type { QuoteState } from '../../database/schema.ts';
import { isQuoteId } from '../../mints/quote-responses.ts';
import { normaliseMintUrl } from '../../net/server-url.ts';
import { decodeInvoice } from '../../quotes/bolt11.ts';
import { computeUnpaidWatchUntilMs, isPaidQuoteState } from '../../quotes/quote-state.ts';
import { isOnCurve } from '../../recipients/lightning-address.ts';
import type { NpubcashQuote } from './npubcash-source.ts';

/** Why a row of an npubcash server is not imported, or imported only in part. */
export const SKIP_REASON_TEXTS = {
  bad_pubkey: 'the pubkey is not a Nostr key',
  bad_mint_url: 'the mint URL is not valid; the rest of a user is imported',
  bad_quote_id: 'the quote id is not valid',
  bad_amount: 'the amount is not a positive number of sats',
  bad_name: 'the name is not valid here; the rest of the user is imported',
  other_unit: 'the unit is not sat',
  unknown_state: 'the state is unknown',
  no_invoice: 'the quote is unpaid and has no invoice',
  mint_url_not_allowed:
    'this service sends no requests to such a mint URL; the rest of a user is imported',
  same_quote_twice: 'an earlier row has the same quote, and was imported',
  settings_kept: 'the user already has other settings here; they were not changed',
  has_another_name: 'the user already has another name here; it was not changed',
  name_released: 'the name was released here; the rest of the user is imported',
  name_taken: 'the name belongs to another key here; the rest of the user is imported',
} as const;

export type SkipReason = keyof typeof SKIP_REASON_TEXTS;

export type ParsedNpubcashQuote = Exclude<ReturnType<typeof parseNpubcashQuote>, SkipReason>;

const QUOTE_STATES: readonly QuoteState[] = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'];

/** Returns null for an invalid key, or one that is not on the curve: no secret key belongs to it. */
export function parseNpubcashPubkey(pubkey: string | null): string | null {
  return pubkey !== null && /^[0-9a-f]{64}$/.test(pubkey) && isOnCurve(pubkey) ? pubkey : null;
}

/** Accepts plain http, because a recipient may use a mint that this service cannot use. */
export function parseNpubcashMintUrl(text: string | null): string | null {
  return text === null ? null : normaliseMintUrl(text, { allowHttp: true });
}

export function isMintUrlAllowed(mintUrl: string, allowHttpMints: boolean): boolean {
  return normaliseMintUrl(mintUrl, { allowHttp: allowHttpMints }) !== null;
}

/** Returns the quote to import, or the reason why it cannot be imported. */
export function parseNpubcashQuote(
  row: NpubcashQuote,
  { allowHttpMints, nowMs }: { allowHttpMints: boolean; nowMs: number },
) {
  const pubkey = parseNpubcashPubkey(row.pubkey);
  const mintUrl = parseNpubcashMintUrl(row.mintUrl);
  const sourceState = QUOTE_STATES.find((state) => state === row.state);
  const { quoteId, amountSat } = row;
  if (pubkey === null) {
    return 'bad_pubkey';
  }
  if (mintUrl === null) {
    return 'bad_mint_url';
  }
  if (quoteId === null || !isQuoteId(quoteId)) {
    return 'bad_quote_id';
  }
  if (row.unit?.toLowerCase() !== 'sat') {
    return 'other_unit';
  }
  if (amountSat === null || amountSat <= 0) {
    return 'bad_amount';
  }
  if (sourceState === undefined) {
    return 'unknown_state';
  }
  const isPaid = isPaidQuoteState(sourceState);
  const request = row.request ?? '';
  // A wallet does not need the invoice to collect a payment.
  if (request === '' && !isPaid) {
    return 'no_invoice';
  }
  const invoice = decodeInvoice(request);
  const createdAtMs =
    row.createdAtMs ?? row.paidAtMs ?? (invoice === null ? nowMs : invoice.createdAtSeconds * 1000);
  let { expiresAtMs } = row;
  // The stored expiry of a paid quote is kept even if it is wrong, because wallets already know it.
  if (expiresAtMs === null || !isPaid) {
    // Mints that run cdk send 0 for a quote without expiry.
    if (expiresAtMs === null || expiresAtMs <= createdAtMs) {
      expiresAtMs = invoice === null ? createdAtMs : invoice.expiresAtSeconds * 1000;
    }
    // No invoice is valid for longer than a year. A later expiry is an error in the row.
    expiresAtMs = Math.min(expiresAtMs, createdAtMs + 365 * 24 * 60 * 60_000);
  }
  // A quote that npubcash stored as expired may have been paid. Imported as unpaid, it is checked at its mint.
  const mayBePaid =
    row.paidAtMs !== null || computeUnpaidWatchUntilMs({ createdAtMs, expiresAtMs }) > nowMs;
  const state = sourceState === 'EXPIRED' && mayBePaid ? 'UNPAID' : sourceState;
  const isMintAllowed = isMintUrlAllowed(mintUrl, allowHttpMints);
  if (state === 'UNPAID' && !isMintAllowed) {
    return 'mint_url_not_allowed';
  }
  return {
    mintUrl,
    quoteId,
    pubkey,
    request,
    paymentHash: invoice?.paymentHash ?? null,
    amountSat,
    state,
    isLocked: row.locked ?? false,
    createdAtMs,
    expiresAtMs,
    /** When npubcash recorded the payment; null if the quote is unpaid or the time is unknown. */
    paidAtMs: isPaid ? row.paidAtMs : null,
    zapRequest: row.zapRequest,
    isMintAllowed,
  };
}
