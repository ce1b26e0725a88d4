import { HISTORY_RETENTION_DAYS, HISTORY_RETENTION_MS } from '../../limits.ts';
import { ISSUING_VERSIONS } from '../../mints/issue-after-expiry.ts';
import type { TracedNotification } from '../../notifications/outbox-store.ts';
import type { QuoteEvent, ReceiptRefusal } from '../../quotes/quote-event-store.ts';
import type { TracedDelivery } from '../../zaps/zap-receipt-store.ts';
import { defineCommand } from '../command.ts';
import {
  formatCount,
  formatFields,
  formatSat,
  formatTime,
  formatTimeWithDistance,
  pubkeyToText,
} from '../format.ts';
import { parseAmountSat, parseLimit, parseTime } from '../options.ts';
import {
  type PaymentTrace,
  type RecipientTrace,
  type RedactedQuote,
  runTrace,
  type TraceResult,
} from './trace.ts';

export const traceCommand = defineCommand({
  name: 'trace',
  description:
    'shows the state and history of a payment, or the newest payments of a recipient; --limit <number> lists more of them than 10; --since <time>, --until <time> (such as 2026-08-01 or 2026-08-01T12:00, UTC) and --amount <sat> search, also for expired invoices; --reveal also prints the ids of unlocked quotes, which are as good as money',
  options: {
    reveal: 'flag',
    limit: parseLimit,
    since: parseTime,
    until: parseTime,
    amount: parseAmountSat,
  },
  operands: [['<payment hash | invoice | verify URL | npub | name | address | quote id>', String]],
  run: async (context, { reveal, limit, since, until, amount }, [identifier]) => {
    const filter = { sinceMs: since, untilMs: until, amountSat: amount };
    const isSearch = Object.values(filter).some((value) => value !== null);
    const options = { reveal, limit: limit ?? 10, filter: isSearch ? filter : null };
    const trace = await runTrace({ ...context, ...options }, identifier);
    const isSuccess = trace.outcome === 'payments' || trace.outcome === 'recipient';
    return { isSuccess, json: trace, lines: traceToLines(trace) };
  },
});

function traceToLines(trace: TraceResult): string[] {
  switch (trace.outcome) {
    case 'payments':
      return trace.payments.flatMap((payment, index) => [
        ...(index === 0 ? [] : ['']),
        ...paymentToLines(payment, trace.nowMs),
      ]);
    case 'recipient':
      return recipientToLines(trace);
    case 'not_found':
      return [`Not found: ${trace.triedKinds.map((kind) => NOT_FOUND_TEXTS[kind]).join(', ')}.`];
    default:
      return [REJECTION_TEXTS[trace.outcome]];
  }
}

const REJECTION_TEXTS = {
  invalid_invoice: 'This is not a valid invoice: it may be cut off or mistyped.',
  invalid_npub: 'This is not a valid npub: it may be cut off or mistyped.',
  invalid_quote_id: 'This is not a payment hash, an invoice, a URL, an npub, a name or a quote id.',
  not_a_recipient: '--since, --until and --amount need a recipient: an npub, a name or an address.',
};

const NOT_FOUND_TEXTS = {
  payment_hash: 'no payment has this payment hash',
  pubkey: 'no recipient has this key',
  name: 'no recipient has this name',
  verify_token: 'no invoice has this verify URL',
  quote_id: 'no quote has this id',
};

function paymentToLines(payment: PaymentTrace, nowMs: number): string[] {
  const { quoteId, isZap, events } = payment;
  const hiddenQuoteId = '(hidden: anyone who has it can take the money; see --reveal)';
  return [
    `${formatSat(payment.amountSat)} for ${pubkeyToText(payment.pubkey, payment.recipientName)}`,
    ...formatFields(
      ['State', `${payment.state}: ${QUOTE_STATE_TEXTS[payment.state]}`],
      ['Mint', payment.mintUrl],
      ['Last answer', payment.watchUntilMs === null ? null : lastAnswerToText(payment, nowMs)],
      ['Quote id', quoteId ?? hiddenQuoteId],
      ['Locked', payment.locked ? "yes: only the recipient's key can collect it" : 'no'],
      ['Payment hash', payment.paymentHash ?? '(unknown)'],
      ['Created', formatTimeWithDistance(payment.createdAtMs, nowMs)],
      ['Expires', formatTimeWithDistance(payment.expiresAtMs, nowMs)],
      ['Tag', payment.tag],
      ['Zap', isZap ? 'yes' : null],
      ['Comment', payment.hasComment ? '(hidden: only the recipient may read it)' : null],
    ),
    ...toSection('What happened', historyToLines(payment)),
    ...toSection('What happens next', [
      ...pollingToLines(payment, nowMs),
      ...paymentStatusToLines(payment, nowMs),
    ]),
    ...(isZap || events.some(({ kind }) => kind === 'receipt_refused')
      ? toSection(...describeReceipt(payment, nowMs))
      : []),
    ...toSection(
      'Notifications',
      payment.notifications.map((each) => notificationToText(each, nowMs)),
    ),
  ];
}

/** Returns nothing if there are no lines. */
function toSection(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines.map((line) => `  ${line}`)];
}

const QUOTE_STATE_TEXTS = {
  UNPAID: 'not reported as paid',
  EXPIRED: 'not reported as paid until long after its expiry',
  INFLIGHT: 'it was paid and is being collected',
  PAID: 'it was paid but not collected yet',
  ISSUED: 'it was paid and collected',
};

function lastAnswerToText({ mintHealth }: PaymentTrace, nowMs: number): string {
  const { answeredAtMs = null, failingSinceMs = null, failure = null } = mintHealth ?? {};
  const lastAnswer = answeredAtMs === null ? 'none' : formatTimeWithDistance(answeredAtMs, nowMs);
  return failingSinceMs === null
    ? lastAnswer
    : `${lastAnswer}; polls fail since ${formatTimeWithDistance(failingSinceMs, nowMs)}${formatReason(failure)}`;
}

function historyToLines({ createdAtMs, paidAtMs, events }: PaymentTrace): string[] {
  const hasPaymentEvent = events.some((event) => event.kind === 'state' && event.to !== 'EXPIRED');
  const format = (atMs: number, text: string) => `${formatTime(atMs)}  ${text}`;
  return [
    format(createdAtMs, 'The mint created the quote, and the payer received its invoice.'),
    ...(paidAtMs === null || hasPaymentEvent
      ? []
      : [format(paidAtMs, `The payment was recorded. (${HISTORY_LIMIT_TEXT})`)]),
    ...events.map((event) => format(event.atMs, eventToText(event))),
  ];
}

const HISTORY_LIMIT_TEXT = `The history goes back ${HISTORY_RETENTION_DAYS} days.`;

function eventToText(event: QuoteEvent): string {
  switch (event.kind) {
    case 'state': {
      if (event.to === 'EXPIRED') {
        return 'The mint still reported UNPAID long after the invoice had expired.';
      }
      const source = event.source === 'socket' ? 'over its WebSocket' : 'in a poll';
      const isPayment = event.from === 'UNPAID' || event.from === 'EXPIRED';
      const effect = isPayment ? ": the payment was added to the recipient's list" : '';
      return `The mint reported ${event.to} ${source}${effect}.`;
    }
    case 'observation_rejected':
      return event.reason === 'state_regression'
        ? `The mint reported ${event.reportedState}, an earlier state: ignored.`
        : `The mint reported ${event.reportedState} for another amount or invoice: ignored.`;
    case 'receipt_refused':
      return 'The zap got no receipt; see below.';
    case 'update_sent':
      return `\`update\` was sent to ${formatCount(event.socketCount, 'socket')} of the recipient.`;
  }
}

function pollingToLines({ watchUntilMs, leaseHolder }: PaymentTrace, nowMs: number): string[] {
  if (watchUntilMs === null) {
    return [];
  }
  let watchText = 'No process watches this mint at the moment: is the service running?';
  if (leaseHolder !== null) {
    watchText = leaseHolder.isAlive
      ? `Process ${leaseHolder.processId} watches this mint.`
      : `Process ${leaseHolder.processId} watched this mint but has stopped responding: is the service running?`;
  }
  return [`The mint is polled until ${formatTimeWithDistance(watchUntilMs, nowMs)}.`, watchText];
}

function paymentStatusToLines(payment: PaymentTrace, nowMs: number): string[] {
  const { expiresAtMs, paymentStatus, events, mintHealth } = payment;
  const deadlineLines = deadlineToLines(payment, nowMs);
  const expiresAt = formatTimeWithDistance(expiresAtMs, nowMs);
  const outageLines =
    payment.state === 'UNPAID' && mintHealth?.failure
      ? ['If the payer has paid, the payment is recorded when the mint answers again.']
      : [];
  const updateLines = events.some(({ kind }) => kind === 'update_sent')
    ? []
    : ['No `update` was sent to a socket: the wallet sees the payment when it reads its list.'];
  const linesByKind: Record<typeof paymentStatus.kind, string[]> = {
    awaiting_payment: [`The payer can pay the invoice until ${expiresAt}.`, ...outageLines],
    awaiting_late_payment: ['A late payment can still arrive.', ...outageLines],
    given_up: [
      "Nothing: the mint is no longer polled. A payer who can prove the payment must contact the mint's operator with the payment hash.",
    ],
    being_collected: [
      'The mint is signing: the quote becomes ISSUED, or PAID again if that fails.',
    ],
    awaiting_collection: [
      ...updateLines,
      "The recipient's wallet must collect the payment from the mint.",
      ...deadlineLines,
    ],
    left_uncollected: [
      "The mint is no longer polled. The payment stays in the recipient's list, and the wallet can still collect it if the mint allows that.",
      ...deadlineLines,
    ],
    issued: ["Nothing: the money is in the recipient's wallet."],
  };
  return linesByKind[paymentStatus.kind];
}

function deadlineToLines(payment: PaymentTrace, nowMs: number): string[] {
  const { collectByMs, quoteId, mintVersion } = payment;
  if (collectByMs === null) {
    return ['There is no deadline: the mint also issues quotes that have expired.'];
  }
  const deadline = formatTimeWithDistance(collectByMs, nowMs);
  if (collectByMs > nowMs) {
    return [`The deadline is ${deadline}: the mint may refuse to issue the quote afterwards.`];
  }
  return [
    `The deadline was ${deadline}: the mint may refuse to issue the quote, but the wallet should try.`,
    `If it refuses, ask the mint's operator to issue quote ${quoteId ?? '(see --reveal)'}. ${ISSUING_VERSIONS} issue expired quotes; the mint runs ${mintVersion ?? 'an unknown version'}.`,
  ];
}

function describeReceipt(payment: PaymentTrace, nowMs: number): [title: string, lines: string[]] {
  const { receipt } = payment;
  if (receipt === null) {
    return ['Zap receipt', [missingReceiptToText(payment, nowMs)]];
  }
  const deliveries = receipt.deliveries.flatMap((delivery) => deliveryToLines(delivery, nowMs));
  const noRelays = 'No relays: the zap request names no usable relay, and ZAP_RELAYS is empty.';
  return [
    `Zap receipt ${receipt.id}`,
    [
      `Created ${formatTimeWithDistance(receipt.createdAtMs, nowMs)}`,
      ...(deliveries.length === 0 ? [noRelays] : deliveries),
    ],
  ];
}

const RECEIPT_REFUSAL_TEXTS: Readonly<Record<ReceiptRefusal, string>> = {
  zap_request_for_other_key:
    'the zap request is for another key than the address, so the payment is no zap.',
  mint_not_in_zap_mints: 'ZAP_MINTS does not name the mint.',
  zap_request_too_old: 'the zap request was signed too long before the payment.',
  zap_request_reused: 'the zap request already has a receipt, for another payment.',
  too_many_receipts: 'the recipient had reached LIMIT_ZAP_RECEIPTS in the hour before the payment.',
};

function missingReceiptToText({ paidAtMs, events }: PaymentTrace, nowMs: number): string {
  const refusal = events.find((event) => event.kind === 'receipt_refused');
  if (refusal !== undefined) {
    return `None: ${RECEIPT_REFUSAL_TEXTS[refusal.reason]}`;
  }
  if (paidAtMs === null) {
    return 'The service creates it with the payment if ZAP_SECRET_KEY is set.';
  }
  return nowMs - paidAtMs > HISTORY_RETENTION_MS
    ? HISTORY_LIMIT_TEXT
    : 'None was created: ZAP_SECRET_KEY was not set, or the log has the reason.';
}

const NOTIFICATION_STATUS_TEXTS = {
  open: 'not delivered yet',
  sent: 'delivered',
  skipped: 'not needed',
  given_up: 'given up',
};

function notificationToText(notification: TracedNotification, nowMs: number): string {
  const { kind, site, event, status } = notification;
  const attempts = notification.attempts > 0 ? ` after ${attemptsToText(notification, nowMs)}` : '';
  const dueAtMs = Math.max(notification.dueAtMs ?? 0, notification.notBeforeMs);
  const due = status === 'open' ? `; due ${formatTimeWithDistance(dueAtMs, nowMs)}` : '';
  return `${event}, ${kind}${site === null ? '' : ` to ${site}`}: ${NOTIFICATION_STATUS_TEXTS[status]}${attempts}${due}`;
}

const DELIVERY_STATE_TEXTS = {
  accepted: 'Accepted',
  rejected: 'Rejected',
  given_up: 'Given up',
  open: 'Not delivered yet',
};

function deliveryToLines(delivery: TracedDelivery, nowMs: number): string[] {
  const { relayUrl, state, relayStatus } = delivery;
  const result = `${DELIVERY_STATE_TEXTS[state]} after ${attemptsToText(delivery, nowMs)}`;
  const lines = [relayUrl, `  ${result}`];
  if (relayStatus !== null) {
    const { failures, lastError } = relayStatus;
    lines.push(`  The relay failed ${formatCount(failures, 'time')}${formatReason(lastError)}`);
  }
  if (state === 'open') {
    const dueAtMs = Math.max(delivery.nextAttemptAtMs ?? 0, relayStatus?.backoffUntilMs ?? 0);
    const due = formatTimeWithDistance(dueAtMs, nowMs);
    lines.push(`  Due ${due}, given up after ${formatTime(delivery.giveUpAtMs)}`);
  }
  return lines;
}

function attemptsToText(
  { attempts, lastAttemptAtMs, lastResult }: TracedNotification | TracedDelivery,
  nowMs: number,
): string {
  const last = lastAttemptAtMs && `, the last at ${formatTimeWithDistance(lastAttemptAtMs, nowMs)}`;
  return `${formatCount(attempts, 'attempt')}${last ?? ''}${formatReason(lastResult)}`;
}

function formatReason(reason: string | null): string {
  return reason === null ? '' : `: ${reason}`;
}

function recipientToLines(recipient: RecipientTrace): string[] {
  const { payments, paymentCount, openQuotes, hasMoreOpenQuotes, search } = recipient;
  const quoteNoun = search === null ? 'unpaid quote' : 'matching unpaid quote';
  const moreQuotes = hasMoreOpenQuotes ? 'More than ' : '';
  const morePayments = search?.hasMorePayments ? 'More than ' : '';
  const paymentsTitle =
    search === null
      ? `${formatCount(paymentCount, 'payment')}; the newest ${payments.length}`
      : `${morePayments}${formatCount(payments.length, 'matching payment')}`;
  return [
    pubkeyToText(recipient.pubkey, recipient.name),
    '',
    `${paymentsTitle}, with the time of payment:`,
    ...payments.map((quote) => quoteToText(quote, quote.paidAtMs ?? quote.createdAtMs)),
    '',
    `${moreQuotes}${formatCount(openQuotes.length, quoteNoun)}, with the time of creation:`,
    ...openQuotes.map((quote) => quoteToText(quote, quote.createdAtMs)),
    '',
    '`nutpost trace <payment hash>` shows more about a payment. --limit lists more; --since, --until and --amount search, also for expired invoices.',
  ];
}

function quoteToText(quote: RedactedQuote, atMs: number): string {
  const { amountSat, state, paymentHash, quoteId } = quote;
  const amount = formatSat(amountSat).padStart('1,000,000 sat'.length);
  const hash = paymentHash ?? '(payment hash unknown)';
  const id = quoteId === null ? '' : `  ${quoteId}`;
  return `  ${formatTime(atMs)}  ${amount}  ${state.padEnd('INFLIGHT'.length)}  ${hash}${id}`;
}
