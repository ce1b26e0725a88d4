import type { Clock } from '../clock.ts';
import { type Db, notify, type Tx, transaction } from '../database/transaction.ts';
import { type Logger, logMilestone } from '../log.ts';
import { saveIssueAfterExpiry } from '../mints/mint-store.ts';
import {
  lockPaymentCounters,
  type PaymentCounter,
  savePaymentCounters,
} from '../recipients/user-store.ts';
import {
  type Decision,
  decideObservation,
  type RecordedQuote,
  type SourcedObservation,
  toQuoteEvents,
} from './decide-observation.ts';
import { encodePayloads, QUOTE_UPDATES_CHANNEL } from './process-notifications.ts';
import { addQuoteEvents, type ReceiptRefusal } from './quote-event-store.ts';
import { isPaidQuoteState } from './quote-state.ts';
import type { Quote } from './quote-store.ts';
import {
  applyQuoteChanges,
  findQuotesByQuoteId,
  lockQuotesByQuoteId,
} from './watched-quote-store.ts';

export interface RecordingContext {
  db: Db;
  zaps: {
    signReceipts: SignReceipts;
    /** Called after the commit. */
    onReceiptsCreated: (relayUrls: readonly string[]) => void;
  } | null;
  /** Adds what the recipients are notified of to the outbox, in the same transaction. Null: switched off. */
  recordNotifications:
    | ((tx: Tx, changes: readonly NotifiedChange[], nowMs: number) => Promise<void>)
    | null;
  clock: Clock;
  log: Logger;
}

/** What recipients are notified of. Times in milliseconds since 1970. */
export interface NotifiedChange {
  quoteRowId: number;
  pubkey: string;
  amountSat: number;
  isNewPayment: boolean;
  isCollected: boolean;
  /** When the payment is listed. */
  paidAtMs: number;
}

/** Signs and stores the zap receipts of payments at one mint, in the transaction that records the payments. */
export type SignReceipts = (
  tx: Tx,
  mintUrl: string,
  payments: readonly RecordedPayment[],
  nowMs: number,
) => Promise<ReceiptSigningResult>;

export interface RecordedPayment
  extends Pick<Quote, 'pubkey' | 'request' | 'paymentHash' | 'zapRequest'> {
  quoteRowId: number;
  paidAtMs: number;
}

interface ReceiptSigningResult {
  signed: { id: string; relayUrls: readonly string[]; paymentHash: string | null }[];
  refused: { paymentHash: string | null; reason: ReceiptRefusal }[];
}

/**
 * Records what a mint reports about quotes in one transaction. Observations may arrive late and repeatedly. Appends a new
 * payment to the recipient's list, signs its zap receipt if the payment is a zap, and notifies all processes.
 *
 * Throws if the database rejects the batch. The caller then records each observation alone.
 *
 * @param observations at most one per quote
 * @returns the new states of the quotes; leaves out unknown quotes
 */
export async function recordObservations(
  context: RecordingContext,
  mintUrl: string,
  observations: readonly SourcedObservation[],
): Promise<RecordedQuote[]> {
  const { decisions, receipts } = await transaction(context.db, (tx) =>
    recordInTransaction(context, tx, mintUrl, observations),
  );
  // After the commit, so that a transaction that is rolled back logs nothing.
  logDecisions(context, mintUrl, decisions);
  logReceipts(context, receipts);
  if (receipts.signed.length > 0) {
    context.zaps?.onReceiptsCreated(receipts.signed.flatMap(({ relayUrls }) => relayUrls));
  }
  return decisions;
}

/** Locks the rows of recipients before those of quotes, both in a fixed order, to avoid deadlocks. */
async function recordInTransaction(
  { zaps, recordNotifications, clock }: RecordingContext,
  tx: Tx,
  mintUrl: string,
  observations: readonly SourcedObservation[],
): Promise<{ decisions: Decision[]; receipts: ReceiptSigningResult }> {
  const observationsById = new Map(observations.map((item) => [item.quoteId, item]));
  const quoteIds = [...observationsById.keys()];
  const found = await findQuotesByQuoteId(tx, mintUrl, quoteIds);
  const unpaid = found.filter(({ state }) => !isPaidQuoteState(state));
  const recipients = unpaid.map(({ pubkey }) => pubkey);
  const lockedCounters = await lockPaymentCounters(tx, recipients);
  const counters = new Map(lockedCounters.map((counter) => [counter.pubkey, counter]));
  const lockedQuotes = await lockQuotesByQuoteId(tx, mintUrl, quoteIds);

  const nowMs = clock();
  const advancedCounters = new Map<string, PaymentCounter>();
  const decisions: Decision[] = [];
  const payments: RecordedPayment[] = [];
  for (const quote of lockedQuotes) {
    const { id: quoteRowId, quoteId, pubkey, request, paymentHash, zapRequest } = quote;
    const observation = observationsById.get(quoteId) as SourcedObservation;
    // A batch may contain several payments to one recipient.
    const counter = advancedCounters.get(pubkey) ?? counters.get(pubkey);
    const decision = decideObservation(quote, observation, counter, nowMs);
    const payment = decision.change?.payment;
    if (counter !== undefined && payment) {
      const { paidSeq: paidCount, paidAtMs } = payment;
      advancedCounters.set(pubkey, { ...counter, paidCount, lastPaidAtMs: paidAtMs });
      payments.push({ quoteRowId, pubkey, request, paymentHash, zapRequest, paidAtMs });
    }
    decisions.push(decision);
  }

  const changes = decisions.flatMap(({ change }) => change ?? []);
  await applyQuoteChanges(tx, changes);
  await savePaymentCounters(tx, [...advancedCounters.values()]);
  const isIssuedAfterExpiry = ({ quoteId, state, hasStateChanged }: Decision) =>
    hasStateChanged &&
    state === 'ISSUED' &&
    observationsById.get(quoteId)?.wasPaidAfterExpiry === true;
  if (decisions.some(isIssuedAfterExpiry)) {
    await saveIssueAfterExpiry(tx, mintUrl);
  }
  const events = decisions.flatMap((decision) => toQuoteEvents(decision, nowMs));
  await addQuoteEvents(tx, events);
  const receipts =
    zaps === null || payments.length === 0
      ? { signed: [], refused: [] }
      : await zaps.signReceipts(tx, mintUrl, payments, nowMs);
  await recordNotifications?.(tx, decisions.flatMap(toNotifiedChange), nowMs);
  const updates = decisions.flatMap(({ quote, paidAtMs, hasStateChanged }) => {
    const { id, pubkey, quoteId } = quote;
    // If a wallet has already read the current second, the payment is listed when the next one begins (ADR 40).
    const listedAtMs = paidAtMs !== null && paidAtMs > nowMs ? paidAtMs : null;
    return hasStateChanged && paidAtMs !== null ? [{ id, pubkey, quoteId, listedAtMs }] : [];
  });
  await notify(tx, QUOTE_UPDATES_CHANNEL, encodePayloads(updates));
  return { decisions, receipts };
}

function toNotifiedChange(decision: Decision): NotifiedChange[] {
  const { quote, outcome, state, paidAtMs, hasStateChanged } = decision;
  const isNewPayment = outcome === 'payment_received';
  const isCollected = hasStateChanged && state === 'ISSUED';
  const { id: quoteRowId, pubkey, amountSat } = quote;
  return paidAtMs !== null && (isNewPayment || isCollected)
    ? [{ quoteRowId, pubkey, amountSat, isNewPayment, isCollected, paidAtMs }]
    : [];
}

function logDecisions(
  { log }: RecordingContext,
  mintUrl: string,
  decisions: readonly Decision[],
): void {
  for (const { quote, outcome, state, hasStateChanged, source } of decisions) {
    const { paymentHash, pubkey, amountSat } = quote;
    const detail = { pubkey, amountSat, mintUrl, source };
    if (outcome === 'payment_received') {
      logMilestone(log, 'paid', paymentHash, detail);
    }
    // A payment that is first observed as ISSUED reaches two milestones.
    if (hasStateChanged && state === 'ISSUED') {
      logMilestone(log, 'issued', paymentHash, detail);
    }
    if (outcome === 'expired') {
      logMilestone(log, 'expired', paymentHash, detail);
    }
  }
}

function logReceipts({ log }: RecordingContext, { signed, refused }: ReceiptSigningResult): void {
  for (const { paymentHash, id, relayUrls } of signed) {
    logMilestone(log, 'receipt_signed', paymentHash, { receipt: id, relays: relayUrls.length });
  }
  for (const { paymentHash, reason } of refused) {
    logMilestone(log, 'receipt_refused', paymentHash, { reason });
  }
}
