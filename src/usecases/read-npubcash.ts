import { readInvoice } from '../domain/bolt11.ts';
import { normaliseMintUrl } from '../domain/mint-url.ts';
import { latePaymentUntilMs, watchUntilMs } from '../domain/poll-schedule.ts';
import { isPaidState, type QuoteState } from '../domain/quote.ts';
import { isOnCurve } from '../domain/recipient.ts';
import { isQuoteId } from '../mint/quote-answer.ts';
import type { NpubcashQuote } from '../store/npubcash-source.ts';
import type { LeftOutReason } from './npubcash-report.ts';

/** A quote of an npubcash server in this service's words. Times in milliseconds since 1970. */
export interface BroughtQuote {
  /** `NpubcashQuote.id`. */
  row: number;
  mintUrl: string;
  quoteId: string;
  /** Hex, in lower case. */
  pubkey: string;
  request: string;
  amountSat: number;
  state: QuoteState;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  /** When npubcash listed its payment; null before it, and where npubcash does not say. */
  paidAtMs: number | null;
  zapRequest: string | null;
  /** Whether this service may ask the mint. */
  isReachable: boolean;
}

const HEX_KEY = /^[0-9a-f]{64}$/;

const STATES: readonly QuoteState[] = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'];

/** No invoice can be paid for longer; where a row says more, somebody took milliseconds for seconds. */
const LONGEST_LIFE_MS = 365 * 24 * 60 * 60_000;

/** Keys whose point was looked for: so many are remembered, since a recipient has many rows. */
const MAX_REMEMBERED_KEYS = 50_000;

/** Reads Nostr keys in hex; the point of each is looked for once, which takes a tenth of a millisecond. */
export class KeyReader {
  readonly #known = new Map<string, boolean>();

  /** @returns the key in lower case; null where it can be nobody's */
  read(text: string | null): string | null {
    const pubkey = text?.toLowerCase() ?? '';
    if (!HEX_KEY.test(pubkey)) {
      return null;
    }
    let isKey = this.#known.get(pubkey);
    if (isKey === undefined) {
      isKey = isOnCurve(pubkey);
      if (this.#known.size >= MAX_REMEMBERED_KEYS) {
        this.#known.clear();
      }
      this.#known.set(pubkey, isKey);
    }
    return isKey ? pubkey : null;
  }
}

/**
 * The one url that a mint's spelling means. Plain http is read whatever the settings are: a payment that
 * waits there is to be seen by its owner, who may reach it.
 */
export function readMintUrl(spelling: string | null): string | null {
  return spelling === null ? null : normaliseMintUrl(spelling, { allowHttp: true });
}

/** Whether a service asks a mint, by its normalised url. */
export function isWithinReach(mintUrl: string, allowHttp: boolean): boolean {
  return normaliseMintUrl(mintUrl, { allowHttp }) !== null;
}

/**
 * Reads a quote.
 *
 * One that npubcash took for unpaid is unpaid here as well, whatever its age, and so is one that it gave
 * up while a late payment may still arrive: its mint has the last word.
 *
 * @param how.allowHttp whether this service asks mints over plain http
 * @returns why it cannot be brought over, where it cannot
 */
export function readNpubcashQuote(
  row: NpubcashQuote,
  { keys, allowHttp, nowMs }: { keys: KeyReader; allowHttp: boolean; nowMs: number },
): BroughtQuote | LeftOutReason {
  const pubkey = keys.read(row.pubkey);
  const mintUrl = readMintUrl(row.mintUrl);
  const said = STATES.find((each) => each === row.state?.toUpperCase());
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
  if (amountSat === null || !Number.isSafeInteger(amountSat) || amountSat <= 0) {
    return 'bad_amount';
  }
  if (said === undefined) {
    return 'unknown_state';
  }
  const request = row.request ?? '';
  // A payment is collected by its mint and id.
  if (request === '' && !isPaidState(said)) {
    return 'no_invoice';
  }
  const isReachable = isWithinReach(mintUrl, allowHttp);
  const { createdAtMs, expiresAtMs } = timesOf(row, request, isPaidState(said), nowMs);
  const state = stateOf(said, { createdAtMs, expiresAtMs, paidAtMs: row.paidAtMs }, nowMs);
  if (state === 'UNPAID' && !isReachable) {
    return 'mint_out_of_reach';
  }
  return {
    row: row.id,
    mintUrl,
    quoteId,
    pubkey,
    request,
    amountSat,
    state,
    locked: row.locked ?? false,
    createdAtMs,
    expiresAtMs,
    paidAtMs: isPaidState(state) ? row.paidAtMs : null,
    zapRequest: row.zapRequest,
    isReachable,
  };
}

/**
 * Decides until when a quote is watched. One whose time is over is still watched until its mint has been asked, unless
 * it is PAID and was left uncollected.
 *
 * @param paidAtMs as it is listed here
 * @returns null if the quote is not watched
 */
export function watchUntilHere(
  quote: BroughtQuote,
  paidAtMs: number | null,
  nowMs: number,
): number | null {
  const untilMs = quote.isReachable ? watchUntilMs({ ...quote, paidAtMs }) : null;
  const isLeftUncollected = quote.state === 'PAID' && untilMs !== null && untilMs <= nowMs;
  return isLeftUncollected ? null : untilMs;
}

/**
 * From when to when an invoice is good. What npubcash does not say, the invoice does; an expiry that is not
 * after the making is none, as of cdk, which says 0 where it knows no better. Of a payment wallets know the
 * one that npubcash listed.
 */
function timesOf(
  row: NpubcashQuote,
  request: string,
  isPaid: boolean,
  nowMs: number,
): { createdAtMs: number; expiresAtMs: number } {
  const isSaid = row.createdAtMs !== null && (row.expiresAtMs ?? 0) > row.createdAtMs;
  // That takes longer than all else here.
  const invoice = isSaid ? null : readInvoice(request);
  const createdAtMs = row.createdAtMs ?? row.paidAtMs ?? toMs(invoice?.createdAt) ?? nowMs;
  if (isPaid && row.expiresAtMs !== null) {
    return { createdAtMs, expiresAtMs: row.expiresAtMs };
  }
  const isAfterMaking = row.expiresAtMs !== null && row.expiresAtMs > createdAtMs;
  const endsAtMs = (isAfterMaking ? row.expiresAtMs : toMs(invoice?.expiresAt)) ?? createdAtMs;
  return { createdAtMs, expiresAtMs: Math.min(endsAtMs, createdAtMs + LONGEST_LIFE_MS) };
}

/** What npubcash calls expired, but may be paid, or says when it was paid, is to be asked about. */
function stateOf(
  said: QuoteState,
  quote: { createdAtMs: number; expiresAtMs: number; paidAtMs: number | null },
  nowMs: number,
): QuoteState {
  const isOpen = quote.paidAtMs !== null || latePaymentUntilMs(quote) > nowMs;
  return said === 'EXPIRED' && isOpen ? 'UNPAID' : said;
}

function toMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}
