import { randomBytes } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { toFlag } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';
import { type ErrorCode, RequestError } from '../errors.ts';
import { type Logger, logMilestone } from '../log.ts';
import { createQuoteForPayer } from '../mints/create-quote.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { Mints } from '../mints/mints-module.ts';
import type { CreatedQuote } from '../mints/quote-responses.ts';
import { type AddressPrefixes, toAddressGroup } from '../net/address-prefixes.ts';
import { toQuoteLockPubkey } from '../recipients/lightning-address.ts';
import type { Recipient } from '../recipients/recipient-directory.ts';
import { decodeInvoice, resolveQuoteExpirySeconds } from './bolt11.ts';
import { type InvoiceAdmission, mintUnavailableError } from './invoice-admission.ts';
import {
  chooseInvoiceDescription,
  MSAT_PER_SAT,
  narrowSendableRange,
  type PaymentDetails,
  type SendableRange,
} from './lnurl-pay.ts';
import type { QuoteAnnouncement } from './process-notifications.ts';
import { addQuoteEvents } from './quote-event-store.ts';
import { computeUnpaidWatchUntilMs } from './quote-state.ts';
import type { NewQuote } from './quote-store.ts';

export interface InvoiceContext {
  db: Db;
  mints: Mints;
  admission: InvoiceAdmission;
  /** Resolves after the commit with the row id, or with null if the quote id is already stored for its mint. */
  storeQuote: (quote: NewQuote) => Promise<number | null>;
  operatorRange: SendableRange;
  /** Called after the commit, before the payer receives the invoice. */
  onQuoteCreated: (quote: QuoteAnnouncement) => void;
  onInvoiceFinished: (outcome: InvoiceOutcome) => void;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

export type InvoiceOutcome =
  /** `mintMs` is the time that was spent waiting for the mint's rate limit and responses, `serviceMs` the rest. */
  { outcome: 'issued'; mintMs: number; serviceMs: number } | { outcome: ErrorCode | 'failed' };

export interface Invoice {
  request: string;
  /** Part of the verify URL (LUD-21): 64 lower-case hex characters. */
  verifyToken: string;
}

interface InvoiceOrder {
  recipient: Recipient;
  amountMsat: number;
  /** The prefixes of the payer's address. */
  prefixes: AddressPrefixes;
  details: PaymentDetails;
}

/** Commits the quote before it returns the invoice, so that every payment finds its quote. Throws RequestError. */
export async function issueInvoice(context: InvoiceContext, order: InvoiceOrder): Promise<Invoice> {
  const { admission, mints, onInvoiceFinished, monotonicMs } = context;
  const { pubkey, mintUrl } = order.recipient;
  const startedAtMs = monotonicMs();
  try {
    admission.admitRequest(order.prefixes);
    const mintInfo = await mints.infoCache.get(mintUrl);
    const infoMs = monotonicMs() - startedAtMs;
    if (mintInfo === null) {
      // The mint has never responded, so it would probably not create a quote either.
      throw mintUnavailableError();
    }
    assertSendableAmount(order.amountMsat, resolveSendableRange(context, mintInfo));
    using admitted = await admission.admitInvoice(pubkey, order.prefixes, mintUrl);
    const quoteRequestedAtMs = monotonicMs();
    const createdQuote = await createQuote(context, order, mintInfo);
    const mintMs = infoMs + monotonicMs() - quoteRequestedAtMs;
    const invoice = await commitQuote(context, order, createdQuote, admitted.addressHashes);
    const serviceMs = monotonicMs() - startedAtMs - mintMs;
    onInvoiceFinished({ outcome: 'issued', mintMs, serviceMs });
    return invoice;
  } catch (error) {
    onInvoiceFinished({ outcome: error instanceof RequestError ? error.code : 'failed' });
    throw error;
  }
}

/**
 * Returns the operator's range, narrowed to the limits of the recipient's mint (NUT-06) if that has ever responded.
 * Throws RequestError if the mint does not accept payments.
 */
export async function getSendableRange(context: InvoiceContext, { mintUrl }: Recipient) {
  return resolveSendableRange(context, await context.mints.infoCache.get(mintUrl));
}

function resolveSendableRange({ operatorRange }: InvoiceContext, mintInfo: MintInfo | null) {
  const range =
    mintInfo?.supportsBolt11Sat === false ? null : narrowSendableRange(operatorRange, mintInfo);
  if (range === null) {
    throw new RequestError('unavailable', 'The recipient cannot receive payments right now.');
  }
  return range;
}

async function createQuote(
  { mints, monotonicMs, log }: InvoiceContext,
  { recipient, amountMsat, prefixes, details }: InvoiceOrder,
  mintInfo: MintInfo,
): Promise<CreatedQuote> {
  const { pubkey, mintUrl, lockQuotes } = recipient;
  const params = {
    amountSat: amountMsat / MSAT_PER_SAT,
    ...(lockQuotes ? { pubkey: toQuoteLockPubkey(pubkey) } : {}),
    ...chooseInvoiceDescription(mintInfo, details),
  };
  const addressGroup = toAddressGroup(prefixes);
  const { payerClient } = mints;
  const result = await createQuoteForPayer(payerClient, mintUrl, params, addressGroup, monotonicMs);
  if (result.outcome === 'created') {
    return result.quote;
  }
  if (result.outcome === 'rate_limited') {
    throw mintUnavailableError(result.retryAfterMs);
  }
  // `detail` is the mint's message, which may repeat the comment. Only the recipient may read comments.
  const loggedResult = details.comment === null ? result : { ...result, detail: undefined };
  log.info(
    { event: 'mint_created_no_quote', mintUrl, ...loggedResult },
    'mint did not create a quote; the payer gets an error',
  );
  throw mintUnavailableError();
}

async function commitQuote(
  { db, storeQuote, onQuoteCreated, clock, log }: InvoiceContext,
  order: InvoiceOrder,
  createdQuote: CreatedQuote,
  addressHashes: string,
): Promise<Invoice> {
  const { pubkey, mintUrl } = order.recipient;
  const quote = toVerifiedQuote(order, createdQuote, addressHashes, clock());
  const id = quote === null ? null : await storeQuote(quote);
  if (quote === null || id === null) {
    log.warn(
      { event: 'mint_quote_rejected', mintUrl, state: createdQuote.state },
      'mint returned a quote that does not match the request or is unsafe; no invoice was issued',
    );
    throw mintUnavailableError();
  }
  const { quoteId, amountSat, createdAtMs, expiresAtMs, paymentHash, zapRequest } = quote;
  onQuoteCreated({ id, mintUrl, quoteId, createdAtMs, expiresAtMs });
  const isZap = zapRequest !== null;
  logMilestone(log, 'invoice_created', paymentHash, { pubkey, amountSat, mintUrl, isZap });
  const reason = order.details.receiptRefusal;
  if (reason !== null) {
    const kind = 'receipt_refused';
    await addQuoteEvents(db, [{ quoteRowId: id, atMs: createdAtMs, kind, reason }]);
    logMilestone(log, kind, paymentHash, { reason });
  }
  return { request: quote.request, verifyToken: quote.verifyToken };
}

/** Returns null if the mint's quote does not match the order, or if its ecash would not be safe. */
function toVerifiedQuote(
  { recipient, amountMsat, details: { tag, comment, zapRequest } }: InvoiceOrder,
  createdQuote: CreatedQuote,
  addressHashes: string,
  nowMs: number,
): NewQuote | null {
  const invoice = decodeInvoice(createdQuote.request);
  const amountSat = amountMsat / MSAT_PER_SAT;
  // Anyone who learns the id of an unlocked quote can mint its ecash. If a quote is locked to another key, the owner
  // of that key can (NUT-20).
  const expectedLock = recipient.lockQuotes ? toQuoteLockPubkey(recipient.pubkey) : null;
  const { quoteId, request } = createdQuote;
  if (
    invoice?.amountMsat !== amountMsat ||
    (createdQuote.amountSat ?? amountSat) !== amountSat ||
    createdQuote.pubkey !== expectedLock ||
    createdQuote.state !== 'UNPAID' ||
    // The id must be secret, but every payer knows the invoice and its payment hash.
    [invoice.paymentHash, request.toLowerCase()].includes(quoteId.toLowerCase())
  ) {
    return null;
  }
  const nowSeconds = Math.floor(nowMs / 1000);
  const expiresAtMs = resolveQuoteExpirySeconds(createdQuote.expiry, invoice, nowSeconds) * 1000;
  return {
    mintUrl: recipient.mintUrl,
    quoteId,
    pubkey: recipient.pubkey,
    request,
    amountSat,
    locked: toFlag(recipient.lockQuotes),
    createdAtMs: nowMs,
    expiresAtMs,
    verifyToken: randomBytes(32).toString('hex'),
    paymentHash: invoice.paymentHash,
    watchUntilMs: computeUnpaidWatchUntilMs({ createdAtMs: nowMs, expiresAtMs }),
    addressHashes,
    tag,
    comment,
    zapRequest,
  };
}

/** Throws RequestError. Rejects parts of a sat, because wallets require an invoice for exactly the requested amount. */
function assertSendableAmount(amountMsat: number, { minMsat, maxMsat }: SendableRange): void {
  if (amountMsat < minMsat) {
    throw new RequestError('invalid', `The amount must be at least ${minMsat} millisatoshis.`);
  }
  if (amountMsat > maxMsat) {
    throw new RequestError('invalid', `The amount must be at most ${maxMsat} millisatoshis.`);
  }
  if (amountMsat % MSAT_PER_SAT !== 0) {
    const message = 'The amount must be a whole number of sats (1000 millisatoshis).';
    throw new RequestError('invalid', message);
  }
}
