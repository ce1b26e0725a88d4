import type { QuoteEvent } from '../domain/quote-event.ts';
import type { RelayStanding } from '../domain/receipt-delivery.ts';
import type { TracedDelivery, TracedReceipt } from '../store/zap-receipt-store.ts';
import type { PaymentTrace, RecipientTrace, ShownQuote, Trace } from '../usecases/trace-payment.ts';
import { keyToJson } from './key-json.ts';
import { iso } from './plain-text.ts';

/** What was found, for programs: times in ISO 8601 (UTC), amounts in sats, absent rather than null. */
export function traceToJson(trace: Trace): object {
  switch (trace.outcome) {
    case 'payments':
      return { ...asOf(trace), payments: trace.payments.map(paymentToJson) };
    case 'recipient':
      return { ...asOf(trace), ...recipientToJson(trace.recipient) };
    case 'not_found':
    case 'invalid_invoice':
    case 'invalid_npub':
    case 'invalid_quote_id':
      return trace;
  }
}

function asOf({ outcome, nowMs }: { outcome: string; nowMs: number }): object {
  return { outcome, asOf: iso(nowMs) };
}

function paymentToJson({ quote, recipientName, ...payment }: PaymentTrace): object {
  const { watchedBy, outlook, receipt } = payment;
  return {
    recipient: keyToJson(quote.pubkey, recipientName),
    ...quoteToJson(quote),
    events: payment.events.map(eventToJson),
    ...(quote.watchUntilMs === null ? {} : { watchedUntil: iso(quote.watchUntilMs) }),
    ...(watchedBy === null ? {} : { watchedBy }),
    mintLimits: payment.mintLimits,
    outlook: {
      kind: outlook.kind,
      ...('untilMs' in outlook ? { until: iso(outlook.untilMs) } : {}),
    },
    ...(receipt === null ? {} : { receipt: receiptToJson(receipt) }),
  };
}

function recipientToJson(recipient: RecipientTrace): object {
  return {
    recipient: keyToJson(recipient.pubkey, recipient.name),
    paymentCount: recipient.paymentCount,
    payments: recipient.payments.map(quoteToJson),
    openQuotes: recipient.openQuotes.map(quoteToJson),
    hasMoreOpenQuotes: recipient.hasMoreOpenQuotes,
  };
}

function quoteToJson(quote: ShownQuote): object {
  return {
    amountSat: quote.amountSat,
    state: quote.state,
    mintUrl: quote.mintUrl,
    locked: quote.locked,
    ...(quote.quoteId === null ? {} : { quoteId: quote.quoteId }),
    ...(quote.paymentHash === null ? {} : { paymentHash: quote.paymentHash }),
    createdAt: iso(quote.createdAtMs),
    expiresAt: iso(quote.expiresAtMs),
    ...(quote.paidAtMs === null ? {} : { paidAt: iso(quote.paidAtMs) }),
    isZap: quote.isZap,
    hasComment: quote.hasComment,
  };
}

function eventToJson({ atMs, ...event }: QuoteEvent): object {
  return { at: iso(atMs), ...event };
}

function receiptToJson({ id, createdAtMs, deliveries }: TracedReceipt): object {
  return { id, createdAt: iso(createdAtMs), relays: deliveries.map(deliveryToJson) };
}

function deliveryToJson(delivery: TracedDelivery): object {
  const { relay, state, tries, lastWord, lastTryAtMs, nextTryAtMs, giveUpAtMs, standing } =
    delivery;
  return {
    relay,
    state,
    tries,
    ...(lastTryAtMs === null ? {} : { lastTryAt: iso(lastTryAtMs) }),
    ...(lastWord === null ? {} : { lastWord }),
    ...(nextTryAtMs === null ? {} : { nextTryAt: iso(nextTryAtMs), giveUpAt: iso(giveUpAtMs) }),
    ...(standing === null ? {} : { standing: standingToJson(standing) }),
  };
}

function standingToJson({ failures, restUntilMs, word }: RelayStanding): object {
  return {
    failures,
    ...(restUntilMs === null ? {} : { restUntil: iso(restUntilMs) }),
    ...(word === null ? {} : { word }),
  };
}
