import { parseArgs } from 'node:util';
import type { QuoteState } from '../../database/schema.ts';
import type { QuoteEvent } from '../../quotes/quote-event-store.ts';
import { HISTORY_DAYS, HISTORY_MS } from '../../retention.ts';
import type { TracedDelivery } from '../../zaps/zap-receipt-store.ts';
import { answer, type OperatorCommand, onlyOperand } from '../command.ts';
import { count, fields, iso, keyToJson, keyToText, lines, sat, when } from '../format.ts';
import {
  type PaymentTrace,
  type RecipientTrace,
  type ShownQuote,
  type Trace,
  tracePayment,
} from './trace-payment.ts';
import type { TraceSubject } from './trace-subject.ts';

/** `nutpost trace`: where a payment is. */
export const trace: OperatorCommand = {
  name: 'trace',
  usage: `  trace <payment hash | invoice | npub | name | quote id>
           shows where a payment is, or the newest payments of a recipient; --json for programs,
           --reveal also shows the ids of unlocked quotes, which are as good as money
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        reveal: { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
    const subject = onlyOperand(
      positionals,
      'Give one payment hash, invoice, npub, name or quote id.',
    );
    return async (parts) => {
      const found = await tracePayment(parts, subject, values);
      const isFound = found.outcome === 'payments' || found.outcome === 'recipient';
      return answer(isFound, values.json ? traceToJson(found) : traceToText(found));
    };
  },
};

export function traceToJson(trace: Trace): object {
  switch (trace.outcome) {
    case 'payments':
      return { ...trace, payments: trace.payments.map(paymentToJson) };
    case 'recipient': {
      const { outcome, nowMs, recipient } = trace;
      const { pubkey, name, payments, openQuotes, ...counts } = recipient;
      return {
        ...{ outcome, nowMs, recipient: keyToJson(pubkey, name), ...counts },
        payments: payments.map(quoteToJson),
        openQuotes: openQuotes.map(quoteToJson),
      };
    }
    default:
      return trace;
  }
}

function paymentToJson({ quote, recipientName, receipt, ...payment }: PaymentTrace): object {
  return {
    recipient: keyToJson(quote.pubkey, recipientName),
    ...quoteToJson(quote),
    ...payment,
    watchedUntilMs: quote.watchUntilMs,
    receipt: receipt && {
      id: receipt.id,
      createdAtMs: receipt.createdAtMs,
      relays: receipt.deliveries.map((delivery) => ({
        ...delivery,
        giveUpAtMs: delivery.nextTryAtMs === null ? null : delivery.giveUpAtMs,
      })),
    },
  };
}

function quoteToJson({ pubkey: _, watchUntilMs: __, ...quote }: ShownQuote): object {
  return quote;
}

/** The trace for a person. Times in UTC. */
export function traceToText(trace: Trace): string {
  switch (trace.outcome) {
    case 'payments':
      return trace.payments.map((payment) => paymentToText(payment, trace.nowMs)).join('\n');
    case 'recipient':
      return recipientToText(trace.recipient);
    case 'not_found':
      return `Not found: ${trace.soughtAs.map((kind) => NOT_FOUND[kind]).join(', ')}.\n`;
    case 'invalid_invoice':
      return 'This is not a valid invoice: it may be cut off or mistyped.\n';
    case 'invalid_npub':
      return 'This is not a valid npub: it may be cut off or mistyped.\n';
    case 'invalid_quote_id':
      return 'This is not a payment hash, an invoice, an npub, a name or a quote id.\n';
  }
}

const NOT_FOUND: Readonly<Record<TraceSubject['kind'], string>> = {
  payment_hash: 'no payment has this payment hash',
  pubkey: 'no recipient has this key',
  name: 'no recipient has this name',
  quote_id: 'no quote has this id',
};

function paymentToText(payment: PaymentTrace, nowMs: number): string {
  const { quote, recipientName } = payment;
  return lines(
    `${sat(quote.amountSat)} for ${keyToText(quote.pubkey, recipientName)}`,
    ...fields(
      ['State', `${quote.state}: ${STATES[quote.state]}`],
      ['Mint', quote.mintUrl],
      ['Quote id', quote.quoteId ?? '(hidden: anyone who has it can take the money; see --reveal)'],
      ['Locked', quote.locked ? 'yes: only the key of the recipient can collect it' : 'no'],
      ['Payment hash', quote.paymentHash ?? '(unknown)'],
      ['Created', when(quote.createdAtMs, nowMs)],
      ['Expires', when(quote.expiresAtMs, nowMs)],
      ['Zap', quote.isZap ? 'yes' : null],
      ['Comment', quote.hasComment ? '(hidden: it is for the recipient)' : null],
    ),
    '',
    'What happened',
    ...historyOf(payment).map(([atMs, what]) => `  ${iso(atMs)}  ${what}`),
    '',
    'What happens next',
    ...[...watchToText(payment, nowMs), ...outlookToText(payment, nowMs)].map(indent),
    ...(quote.isZap ? receiptToText(payment, nowMs) : []),
  );
}

function indent(line: string): string {
  return `  ${line}`;
}

const STATES: Readonly<Record<QuoteState, string>> = {
  UNPAID: 'the mint has seen no payment yet',
  EXPIRED: 'the mint saw no payment, long after the invoice had expired',
  INFLIGHT: 'it was paid, and is being collected',
  PAID: 'it was paid, and is not collected yet',
  ISSUED: 'it was paid and collected',
};

/** Oldest first. */
function historyOf({ quote, events }: PaymentTrace): [atMs: number, what: string][] {
  const isPaymentKnown = events.some((event) => event.kind === 'state' && event.to !== 'EXPIRED');
  const wasPruned = quote.paidAtMs !== null && !isPaymentKnown;
  return [
    [quote.createdAtMs, 'The mint created the quote, and the payer got its invoice.'],
    ...(wasPruned
      ? [[quote.paidAtMs, `The payment was recorded. (${HISTORY_LIMIT})`] as [number, string]]
      : []),
    ...events.map((event): [number, string] => [event.atMs, eventToText(event)]),
  ];
}

const HISTORY_LIMIT = `The history goes back ${HISTORY_DAYS} days.`;

function eventToText(event: QuoteEvent): string {
  switch (event.kind) {
    case 'state': {
      if (event.to === 'EXPIRED') {
        return 'The mint reported UNPAID in a poll, long after the invoice had expired.';
      }
      const how = event.source === 'socket' ? 'through its socket' : 'in a poll';
      const isPayment = event.from === 'UNPAID' || event.from === 'EXPIRED';
      const effect = isPayment ? ': the payment entered the list of the recipient' : '';
      return `The mint reported ${event.to} ${how}${effect}.`;
    }
    case 'disbelieved':
      return event.reason === 'backwards'
        ? `The mint reported ${event.said}, an earlier state: ignored.`
        : `The mint reported ${event.said} for another amount or invoice: ignored.`;
    case 'told':
      return `\`update\` was sent to ${count(event.sockets, 'socket')} of the recipient.`;
  }
}

function watchToText({ quote, watchedBy, mintLimits }: PaymentTrace, nowMs: number): string[] {
  if (quote.watchUntilMs === null) {
    return [];
  }
  return [
    `The mint is polled until ${when(quote.watchUntilMs, nowMs)}.`,
    ...mintLimits.map(
      ({ route, requestsPerMinute }) =>
        `The mint limits requests for ${route === 'check' ? 'batches of quotes' : 'single quotes'}` +
        ` to about ${requestsPerMinute} a minute.`,
    ),
    watcherToText(watchedBy),
  ];
}

function watcherToText(watchedBy: PaymentTrace['watchedBy']): string {
  if (watchedBy === null) {
    return 'No process watches this mint at the moment: is the service running?';
  }
  return watchedBy.isAlive
    ? `Process ${watchedBy.processId} watches this mint.`
    : `Process ${watchedBy.processId} watched this mint and no longer responds: is the service running?`;
}

function outlookToText({ quote, outlook, events }: PaymentTrace, nowMs: number): string[] {
  switch (outlook.kind) {
    case 'awaiting_payment':
      return [`The payer can pay the invoice until ${when(outlook.untilMs, nowMs)}.`];
    case 'awaiting_late_payment':
      return ['A payment can still settle late.'];
    case 'given_up':
      return [
        'Nothing: the mint is no longer polled. A payer who can prove the payment has to contact the' +
          ' operator of the mint, with the payment hash.',
      ];
    case 'being_collected':
      return ['The mint signs: the quote becomes ISSUED, or PAID again if that fails.'];
    case 'awaiting_collection':
      return [
        ...(events.some(({ kind }) => kind === 'told')
          ? []
          : ['No socket is known to have received `update`: the wallet sees it in its list.']),
        'The wallet of the recipient has to collect it from the mint.',
        quote.expiresAtMs > nowMs
          ? `It can until ${when(quote.expiresAtMs, nowMs)}; some mints refuse it afterwards.`
          : `The quote expired at ${when(quote.expiresAtMs, nowMs)}: some mints refuse it now.`,
      ];
    case 'left_uncollected':
      return [
        'The mint is no longer polled. The payment stays in the list of the recipient, whose wallet can' +
          ' still collect it if the mint allows that.',
      ];
    case 'collected':
      return ['Nothing: the money is in the wallet of the recipient.'];
  }
}

function receiptToText({ receipt, quote: { paidAtMs } }: PaymentTrace, nowMs: number): string[] {
  if (receipt === null) {
    return ['', 'Zap receipt', `  ${missingReceiptToText(paidAtMs, nowMs)}`];
  }
  const { id, createdAtMs, deliveries } = receipt;
  return [
    '',
    `Zap receipt ${id}`,
    `  Created ${when(createdAtMs, nowMs)}`,
    ...(deliveries.length === 0 ? [NO_RELAYS] : []),
    ...deliveries.flatMap((each) => [`  ${each.relay}`, ...deliveryToText(each, nowMs)]),
  ];
}

const NO_RELAYS =
  '  It has no relays: the zap request names none that can be used, and ZAP_RELAYS is empty.';

function missingReceiptToText(paidAtMs: number | null, nowMs: number): string {
  if (paidAtMs === null) {
    return 'It is created with the payment if ZAP_SECRET_KEY is set.';
  }
  return nowMs - paidAtMs > HISTORY_MS
    ? HISTORY_LIMIT
    : 'None was created: ZAP_SECRET_KEY was not set, or the log says why.';
}

const DELIVERY_STATES: Readonly<Record<TracedDelivery['state'], string>> = {
  accepted: 'Accepted',
  refused: 'Rejected',
  given_up: 'Given up',
  open: 'Not delivered yet',
};

function deliveryToText(delivery: TracedDelivery, nowMs: number): string[] {
  const { state, tries, lastWord, lastTryAtMs, standing } = delivery;
  const last =
    lastTryAtMs === null || tries === 0 ? '' : `, the last at ${when(lastTryAtMs, nowMs)}`;
  const attempts = `${DELIVERY_STATES[state]} after ${count(tries, 'attempt')}${last}`;
  const nextTryAtMs = Math.max(delivery.nextTryAtMs ?? 0, standing?.restUntilMs ?? 0);
  return [
    `    ${attempts}${reasonText(lastWord)}`,
    ...(standing === null
      ? []
      : [`    The relay failed ${count(standing.failures, 'time')}${reasonText(standing.word)}`]),
    ...(state === 'open'
      ? [`    Due ${when(nextTryAtMs, nowMs)}, given up after ${iso(delivery.giveUpAtMs)}`]
      : []),
  ];
}

function reasonText(reason: string | null): string {
  return reason === null ? '' : `: ${reason}`;
}

function recipientToText(recipient: RecipientTrace): string {
  const { pubkey, name, payments, paymentCount, openQuotes, hasMoreOpenQuotes } = recipient;
  const more = hasMoreOpenQuotes ? 'More than ' : '';
  return lines(
    keyToText(pubkey, name),
    '',
    `${count(paymentCount, 'payment')}; the newest ${payments.length}, with the time of payment:`,
    ...payments.map((quote) => quoteToText(quote, quote.paidAtMs ?? quote.createdAtMs)),
    '',
    `${more}${count(openQuotes.length, 'unpaid quote')}, with the time of creation:`,
    ...openQuotes.map((quote) => quoteToText(quote, quote.createdAtMs)),
    '',
    '`nutpost trace <payment hash>` shows more about a payment, and finds expired quotes too.',
  );
}

function quoteToText(quote: ShownQuote, atMs: number): string {
  const { amountSat, state, paymentHash, quoteId } = quote;
  const amount = sat(amountSat).padStart('1,000,000 sat'.length);
  const hash = paymentHash ?? '(payment hash unknown)';
  const id = quoteId === null ? '' : `  ${quoteId}`;
  return `  ${iso(atMs)}  ${amount}  ${state.padEnd('INFLIGHT'.length)}  ${hash}${id}`;
}
