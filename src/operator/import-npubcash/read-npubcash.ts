import { normaliseMintUrl } from '../../mints/mint-url.ts';
import { isQuoteId } from '../../mints/quote-answer.ts';
import { readInvoice } from '../../quotes/bolt11.ts';
import { latePaymentUntilMs } from '../../quotes/poll-schedule.ts';
import { isPaidState } from '../../quotes/quote.ts';
import type { QuoteState } from '../../database/schema.ts';
import { isOnCurve } from '../../recipients/address.ts';
import type { ImportedQuote } from './npubcash-import-store.ts';
import type { NpubcashQuote } from './npubcash-source.ts';

/** Why a row of an npubcash server is not imported, or not completely. */
export type SkipReason =
  | 'bad_pubkey'
  | 'bad_mint_url'
  | 'bad_quote_id'
  | 'bad_amount'
  | 'bad_name'
  | 'other_unit'
  | 'unknown_state'
  | 'no_invoice'
  | 'mint_out_of_reach'
  | 'same_quote_twice'
  | 'settings_kept'
  | 'has_another_name'
  | 'name_taken';

/** A valid quote of an npubcash server. */
export interface OldQuote extends Omit<ImportedQuote, 'payment' | 'watchUntilMs'> {
  /** When npubcash recorded the payment; null before it, or if npubcash has no time. */
  paidAtMs: number | null;
  /** Whether this service may send requests to the mint. */
  isReachable: boolean;
}

const HEX_KEY = /^[0-9a-f]{64}$/;

const STATES: readonly QuoteState[] = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'];

/** No invoice is valid for longer. A later expiry of an unpaid quote is an error of the row. */
const LONGEST_LIFE_MS = 365 * 24 * 60 * 60_000;

/** Validates keys, each only once: a recipient has many rows, and a check costs 0.1 ms. */
export class KeyReader {
  readonly #checked = new Map<string, boolean>();

  /** @returns the key, or null if it is not a point on the curve, so that nobody can sign for it */
  read(pubkey: string | null): string | null {
    if (pubkey === null || !HEX_KEY.test(pubkey)) {
      return null;
    }
    const isKey = this.#checked.get(pubkey) ?? isOnCurve(pubkey);
    this.#checked.set(pubkey, isKey);
    return isKey ? pubkey : null;
  }
}

/**
 * Normalises a mint URL. Plain http is accepted: the recipient of a payment may reach a mint that this
 * service does not (see {@link isWithinReach}).
 */
export function readMintUrl(text: string | null): string | null {
  return text === null ? null : normaliseMintUrl(text, { allowHttp: true });
}

/** Whether this service sends requests to a mint, by its normalised URL. */
export function isWithinReach(mintUrl: string, allowHttp: boolean): boolean {
  return normaliseMintUrl(mintUrl, { allowHttp }) !== null;
}

/**
 * Validates and normalises a quote.
 *
 * @param context.allowHttp whether this service sends requests to mints over plain http
 * @returns the quote, or why it cannot be imported
 */
export function readNpubcashQuote(
  row: NpubcashQuote,
  { keys, allowHttp, nowMs }: { keys: KeyReader; allowHttp: boolean; nowMs: number },
): OldQuote | SkipReason {
  const pubkey = keys.read(row.pubkey);
  const mintUrl = readMintUrl(row.mintUrl);
  const oldState = STATES.find((each) => each === row.state);
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
  if (oldState === undefined) {
    return 'unknown_state';
  }
  const isPaid = isPaidState(oldState);
  const request = row.request ?? '';
  // A wallet collects a payment by mint and quote id; it does not need the invoice.
  if (request === '' && !isPaid) {
    return 'no_invoice';
  }
  const invoice = readInvoice(request);
  const createdAtMs = row.createdAtMs ?? row.paidAtMs ?? toMs(invoice?.createdAt) ?? nowMs;
  const expiresAtMs = expiryOf(row, createdAtMs, toMs(invoice?.expiresAt), isPaid);
  const state = stateOf(oldState, { createdAtMs, expiresAtMs, paidAtMs: row.paidAtMs }, nowMs);
  const isReachable = isWithinReach(mintUrl, allowHttp);
  if (state === 'UNPAID' && !isReachable) {
    return 'mint_out_of_reach';
  }
  return {
    mintUrl,
    quoteId,
    pubkey,
    request,
    paymentHash: invoice?.paymentHash ?? null,
    amountSat,
    state,
    locked: row.locked ?? false,
    createdAtMs,
    expiresAtMs,
    paidAtMs: isPaid ? row.paidAtMs : null,
    zapRequest: row.zapRequest,
    isReachable,
  };
}

/**
 * Wallets know the expiry that npubcash listed with a payment, so it stays. Otherwise an expiry before the
 * creation is none (cdk sends 0 if it knows none), and the invoice's own counts.
 */
function expiryOf(
  { expiresAtMs }: NpubcashQuote,
  createdAtMs: number,
  invoiceExpiresAtMs: number | undefined,
  isPaid: boolean,
): number {
  if (expiresAtMs !== null && isPaid) {
    return expiresAtMs;
  }
  const isValid = expiresAtMs !== null && expiresAtMs > createdAtMs;
  const ownMs = isValid ? expiresAtMs : (invoiceExpiresAtMs ?? createdAtMs);
  return Math.min(ownMs, createdAtMs + LONGEST_LIFE_MS);
}

/** An expired quote that may have been paid since is unpaid here, so that its mint is asked. */
function stateOf(
  state: QuoteState,
  quote: { createdAtMs: number; expiresAtMs: number; paidAtMs: number | null },
  nowMs: number,
): QuoteState {
  const mayBePaid = quote.paidAtMs !== null || latePaymentUntilMs(quote) > nowMs;
  return state === 'EXPIRED' && mayBePaid ? 'UNPAID' : state;
}

function toMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}
