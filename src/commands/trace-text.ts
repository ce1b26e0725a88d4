import { HISTORY_DAYS } from '../domain/history.ts';
import type { QuoteEvent } from '../domain/quote-event.ts';
import type { TraceSubject } from '../domain/trace-subject.ts';
import type { TracedDelivery, TracedReceipt } from '../store/zap-receipt-store.ts';
import type {
  MintLimit,
  PaymentTrace,
  RecipientTrace,
  ShownQuote,
  Trace,
} from '../usecases/trace-payment.ts';
import { count, iso, keyInWords, lines, when } from './plain-text.ts';

const HIDDEN_QUOTE_ID = '(hidden: whoever has it can take the money; --reveal shows it)';

const HIDDEN_COMMENT = '(hidden: the words of the payer are for the recipient)';

/** What was found, for a person: lines of text, each ended. Times in UTC. */
export function traceToText(trace: Trace): string {
  switch (trace.outcome) {
    case 'payments':
      return trace.payments.map((payment) => paymentToText(payment, trace.nowMs)).join('\n');
    case 'recipient':
      return recipientToText(trace.recipient);
    case 'not_found':
      return `Not found: ${trace.soughtAs.map((kind) => NOBODY[kind]).join(', ')}.\n`;
    case 'invalid_invoice':
      return 'This is no invoice: it may be cut off or mistyped.\n';
    case 'invalid_npub':
      return 'This is no npub: it may be cut off or mistyped.\n';
    case 'invalid_quote_id':
      return 'This is no payment hash, no invoice, no npub, no name and no quote id.\n';
  }
}

const NOBODY: Readonly<Record<TraceSubject['kind'], string>> = {
  payment_hash: 'no payment has this payment hash',
  pubkey: 'no recipient has this key',
  name: 'no recipient has this name',
  quote_id: 'no quote has this id',
};

function paymentToText(payment: PaymentTrace, nowMs: number): string {
  const { quote, recipientName } = payment;
  const facts: Fact[] = [
    ['State', `${quote.state}: ${stateInWords(payment)}`],
    ['Mint', quote.mintUrl],
    ['Quote id', quote.quoteId ?? HIDDEN_QUOTE_ID],
    ['Locked', quote.locked ? 'yes: only the key of the recipient can collect it' : 'no'],
    ['Payment hash', quote.paymentHash ?? '(unknown)'],
    ['Made', when(quote.createdAtMs, nowMs)],
    ['Expires', when(quote.expiresAtMs, nowMs)],
    ...(quote.isZap ? [['Zap', zapInWords(payment)] satisfies Fact] : []),
    ...(quote.hasComment ? [['Comment', HIDDEN_COMMENT] satisfies Fact] : []),
  ];
  return lines(
    `${amount(quote)} for ${keyInWords(quote.pubkey, recipientName)}`,
    ...facts.map(([name, value]) => `  ${name.padEnd(12)}  ${value}`),
    '',
    'What happened',
    ...history(payment).map(([atMs, what]) => `  ${iso(atMs)}  ${what}`),
    '',
    'What happens next',
    ...[...watchInWords(payment, nowMs), ...outlookInWords(payment, nowMs)].map(
      (each) => `  ${each}`,
    ),
    ...(quote.isZap && quote.paidAtMs !== null ? zapReceipt(payment, nowMs) : []),
  );
}

type Fact = [name: string, value: string];

function stateInWords({ quote, outlook }: PaymentTrace): string {
  switch (quote.state) {
    case 'UNPAID':
      return outlook.kind === 'awaiting_payment'
        ? 'the mint has seen no payment yet'
        : 'its invoice has ended, and the mint has seen no payment';
    case 'EXPIRED':
      return 'the mint saw no payment, long after its invoice had ended';
    case 'INFLIGHT':
      return 'it was paid, and is being collected';
    case 'PAID':
      return 'it was paid, and is not collected yet';
    case 'ISSUED':
      return 'it was paid and collected';
  }
}

/** Whether there is a key is not known here: a command may run without the settings of the service. */
function zapInWords({ quote, receipt }: PaymentTrace): string {
  if (quote.paidAtMs === null) {
    return 'yes: a receipt is made once it is paid, where ZAP_SECRET_KEY is set then';
  }
  return receipt === null
    ? 'yes: it was paid, and there is no receipt (see below)'
    : 'yes: it was paid, and its receipt was made (see below)';
}

/** What is known of the past, the oldest first. */
function history({ quote, events }: PaymentTrace): [atMs: number, what: string][] {
  const isPaymentKnown = events.some((event) => event.kind === 'state' && event.to !== 'EXPIRED');
  return [
    [quote.createdAtMs, 'The mint made the quote, and its invoice was handed out.'],
    ...(quote.paidAtMs === null || isPaymentKnown
      ? []
      : [[quote.paidAtMs, RECORDED_LONG_AGO] satisfies [number, string]]),
    ...events.map((event): [number, string] => [event.atMs, eventInWords(event)]),
  ];
}

const RECORDED_LONG_AGO = `The payment was recorded. (No more is kept of it: history goes back ${HISTORY_DAYS} days.)`;

function eventInWords(event: QuoteEvent): string {
  switch (event.kind) {
    case 'state': {
      const how = event.source === 'socket' ? 'through its socket' : 'when it was asked';
      if (event.to === 'EXPIRED') {
        return 'The mint still said UNPAID when it was asked, long after the invoice had ended.';
      }
      const isFirst = event.from === 'UNPAID' || event.from === 'EXPIRED';
      const sequel = isFirst ? ': the payment entered the list of the recipient' : '';
      return `The mint said ${event.to} ${how}${sequel}.`;
    }
    case 'disbelieved':
      return event.reason === 'backwards'
        ? `The mint said ${event.said}, which takes back what it had said: not believed.`
        : `The mint said ${event.said}, but for another amount or invoice: not believed.`;
    case 'told':
      return `${count(event.sockets, 'socket')} of the recipient ${event.sockets === 1 ? 'was' : 'were'} sent \`update\`.`;
  }
}

/** Who asks the mint, and until when. */
function watchInWords({ quote, watchedBy, mintLimits }: PaymentTrace, nowMs: number): string[] {
  if (quote.watchUntilMs === null) {
    return [];
  }
  return [
    `The mint is asked about it until ${when(quote.watchUntilMs, nowMs)}.`,
    ...mintLimits.map(limitToText),
    watcherInWords(watchedBy),
  ];
}

function limitToText({ route, requestsPerMinute }: MintLimit): string {
  const what = route === 'check' ? 'batches of quotes' : 'single quotes';
  return `The mint limits requests for ${what} to about ${requestsPerMinute} a minute.`;
}

function watcherInWords(watchedBy: PaymentTrace['watchedBy']): string {
  if (watchedBy === null) {
    return 'No process watches this mint at the moment: is the service running?';
  }
  return watchedBy.isAlive
    ? `Process ${watchedBy.processId} watches this mint.`
    : `Process ${watchedBy.processId} watched this mint and has fallen silent: is the service running?`;
}

function outlookInWords({ quote, outlook, events }: PaymentTrace, nowMs: number): string[] {
  switch (outlook.kind) {
    case 'awaiting_payment':
      return [`The payer can pay its invoice until ${when(outlook.untilMs, nowMs)}.`];
    case 'awaiting_late_payment':
      return ['A payment can still settle late.'];
    case 'given_up':
      return [
        'Nothing: the mint is no longer asked about it. A payer who can prove the payment has to contact' +
          ' the operator of the mint, with the payment hash.',
      ];
    case 'being_collected':
      return ['The mint signs; the quote is ISSUED then, or PAID again where that failed.'];
    case 'awaiting_collection':
      return [
        ...(events.some(({ kind }) => kind === 'told')
          ? []
          : [
              'No wallet is known to have been sent `update`: one finds it when it reads its list.',
            ]),
        'The wallet of the recipient has to collect it from the mint.',
        collectableUntil(quote, nowMs),
      ];
    case 'left_uncollected':
      return [
        'The mint is no longer asked about it. It stays in the list of the recipient, whose wallet can' +
          ' still collect it if the mint allows that.',
      ];
    case 'collected':
      return ['Nothing: whoever looks for the money finds it in the wallet of the recipient.'];
  }
}

function collectableUntil({ expiresAtMs }: ShownQuote, nowMs: number): string {
  const at = when(expiresAtMs, nowMs);
  return expiresAtMs > nowMs
    ? `It can until ${at}; some mints refuse it afterwards.`
    : `The quote expired at ${at}: some mints refuse it now.`;
}

/** Where the receipt of a zap that was paid is. */
function zapReceipt({ receipt, quote }: PaymentTrace, nowMs: number): string[] {
  if (receipt === null) {
    const isLongAgo = nowMs - (quote.paidAtMs ?? nowMs) > HISTORY_DAYS * DAY_MS;
    return ['', 'Zap receipt', `  ${isLongAgo ? RECEIPT_FORGOTTEN : RECEIPT_NOT_MADE}`];
  }
  return [
    '',
    `Zap receipt ${receipt.id}`,
    `  Made ${when(receipt.createdAtMs, nowMs)}`,
    ...deliveries(receipt, nowMs).map((each) => `  ${each}`),
  ];
}

const DAY_MS = 24 * 60 * 60_000;

const RECEIPT_FORGOTTEN = `None is kept: history goes back ${HISTORY_DAYS} days.`;

const RECEIPT_NOT_MADE =
  'None was made: the process that recorded the payment had no ZAP_SECRET_KEY, or the log says why.';

function deliveries(receipt: TracedReceipt, nowMs: number): string[] {
  return receipt.deliveries.length === 0
    ? ['It goes nowhere: the zap request names no relay that can be used, and ZAP_RELAYS none.']
    : receipt.deliveries.flatMap((each) => [
        each.relay,
        ...deliveryInWords(each, nowMs).map((line) => `  ${line}`),
      ]);
}

function deliveryInWords(delivery: TracedDelivery, nowMs: number): string[] {
  switch (delivery.state) {
    case 'accepted':
      return [`Accepted${lastTry(delivery, nowMs)}`];
    case 'refused':
      return [`Refused${lastTry(delivery, nowMs)}`];
    case 'given_up':
      return [`Given up; ${triesInWords(delivery, nowMs)}`];
    case 'open':
      return [
        `Not delivered yet; ${triesInWords(delivery, nowMs)}`,
        ...standingInWords(delivery),
        nextTryInWords(delivery, nowMs),
      ];
  }
}

function triesInWords(delivery: TracedDelivery, nowMs: number): string {
  return delivery.tries === 0
    ? `never sent${whyInWords(delivery.lastWord)}`
    : `sent ${times(delivery.tries)}, the last time${lastTry(delivery, nowMs)}`;
}

/** When it was, and what came of it. */
function lastTry({ lastTryAtMs, lastWord }: TracedDelivery, nowMs: number): string {
  const at = lastTryAtMs === null ? '' : ` at ${when(lastTryAtMs, nowMs)}`;
  return `${at}${whyInWords(lastWord)}`;
}

function whyInWords(word: string | null): string {
  return word === null ? '' : `: ${word}`;
}

function standingInWords({ standing }: TracedDelivery): string[] {
  if (standing === null) {
    return [];
  }
  const { failures, word } = standing;
  const howOften = failures > 1 ? ` ${times(failures)} in a row` : '';
  return [`The relay failed${howOften}${whyInWords(word)}`];
}

/** A relay that rests gets nothing before the end of its rest. */
function nextTryInWords(
  { nextTryAtMs, giveUpAtMs, standing }: TracedDelivery,
  nowMs: number,
): string {
  const atMs = Math.max(nextTryAtMs ?? 0, standing?.restUntilMs ?? 0);
  const next = atMs > nowMs ? 'Tried next at' : 'Due since';
  return `${next} ${when(atMs, nowMs)}, given up after ${iso(giveUpAtMs)}`;
}

function recipientToText(recipient: RecipientTrace): string {
  const { payments, openQuotes } = recipient;
  return lines(
    keyInWords(recipient.pubkey, recipient.name),
    '',
    paymentsHeading(recipient),
    ...payments.map((quote) => quoteInLine(quote, quote.paidAtMs ?? quote.createdAtMs)),
    '',
    openQuotesHeading(recipient),
    ...openQuotes.map((quote) => quoteInLine(quote, quote.createdAtMs)),
    '',
    'nutpost trace <payment hash> tells more of one. What expired unpaid is found by that alone.',
  );
}

function paymentsHeading({ payments, paymentCount }: RecipientTrace): string {
  if (paymentCount === 0) {
    return 'No payment';
  }
  const which = payments.length < paymentCount ? `; the newest ${payments.length}` : '';
  return `${count(paymentCount, 'payment')}${which}, with the time of payment`;
}

function openQuotesHeading({ openQuotes, hasMoreOpenQuotes }: RecipientTrace): string {
  if (openQuotes.length === 0) {
    return 'No open quote';
  }
  const quotes = `${count(openQuotes.length, 'open quote')} (not paid yet)`;
  return hasMoreOpenQuotes
    ? `More than ${quotes}; the newest ${openQuotes.length}, with the time of making`
    : `${quotes}, with the time of making`;
}

function quoteInLine(quote: ShownQuote, atMs: number): string {
  const parts = [amount(quote).padStart(AMOUNT_WIDTH), quote.state.padEnd(STATE_WIDTH)];
  const names = [quote.paymentHash ?? '(payment hash unknown)', quote.quoteId ?? []].flat();
  return `  ${iso(atMs)}  ${[...parts, ...names].join('  ')}`;
}

const AMOUNT_WIDTH = '1,000,000 sat'.length;
const STATE_WIDTH = 'INFLIGHT'.length;

function amount({ amountSat }: ShownQuote): string {
  return `${amountSat.toLocaleString('en')} sat`;
}

function times(number: number): string {
  return number === 1 ? 'once' : `${number.toLocaleString('en')} times`;
}
