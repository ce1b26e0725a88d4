import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { traceToJson } from '../../src/commands/trace-json.ts';
import { traceToText } from '../../src/commands/trace-text.ts';
import type { QuoteState } from '../../src/domain/quote.ts';
import type { QuoteEvent } from '../../src/domain/quote-event.ts';
import { quoteOutlook } from '../../src/domain/quote-outlook.ts';
import type { TracedDelivery } from '../../src/store/zap-receipt-store.ts';
import type {
  PaymentTrace,
  RecipientTrace,
  ShownQuote,
  Trace,
} from '../../src/usecases/trace-payment.ts';

const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const NPUB = nip19.npubEncode(PUBKEY);
const PAYMENT_HASH = 'ab'.repeat(32);
const RECEIPT_ID = 'ef'.repeat(32);

const CREATED_AT_MS = Date.parse('2026-08-01T12:00:00.000Z');
const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;
const DAY_MS = 24 * HOUR_MS;
const PAID_AT_MS = CREATED_AT_MS + 9 * SECOND_MS;
const NOW_MS = CREATED_AT_MS + 12 * SECOND_MS;

const OPEN: TracedDelivery = {
  relay: 'wss://a.example',
  state: 'open',
  tries: 0,
  lastWord: null,
  lastTryAtMs: null,
  nextTryAtMs: PAID_AT_MS,
  giveUpAtMs: CREATED_AT_MS + 2 * DAY_MS,
  standing: null,
};
const TRIED = { tries: 3, lastTryAtMs: CREATED_AT_MS + 10 * SECOND_MS, lastWord: 'disk full' };
const ENDED = { ...TRIED, nextTryAtMs: null };

describe('traceToText of a payment', () => {
  it('prints the facts, the history and the next steps', () => {
    const events: QuoteEvent[] = [
      { atMs: PAID_AT_MS, kind: 'state', from: 'UNPAID', to: 'PAID', source: 'socket' },
      { atMs: PAID_AT_MS + 12, kind: 'told', sockets: 2 },
    ];
    expect(textOf(payment('PAID', { recipientName: 'alice', events }))).toBe(
      `2,100 sat for alice (${NPUB})
  State         PAID: it was paid, and is not collected yet
  Mint          https://mint.example
  Quote id      (hidden: whoever has it can take the money; --reveal shows it)
  Locked        no
  Payment hash  ${PAYMENT_HASH}
  Made          2026-08-01T12:00:00.000Z (12 s ago)
  Expires       2026-08-01T13:00:00.000Z (in 60 min)

What happened
  2026-08-01T12:00:00.000Z  The mint made the quote, and its invoice was handed out.
  2026-08-01T12:00:09.000Z  The mint said PAID through its socket: the payment entered the list of the recipient.
  2026-08-01T12:00:09.012Z  2 sockets of the recipient were sent \`update\`.

What happens next
  The mint is asked about it until 2026-08-08T12:00:09.000Z (in 7 days).
  Process p1 watches this mint.
  The wallet of the recipient has to collect it from the mint.
  It can until 2026-08-01T13:00:00.000Z (in 60 min); some mints refuse it afterwards.
`,
    );
  });

  it.each<[QuoteEvent, string]>([
    [
      { atMs: 3, kind: 'state', from: 'EXPIRED', to: 'INFLIGHT', source: 'poll' },
      'The mint said INFLIGHT when it was asked: the payment entered the list of the recipient.',
    ],
    [
      { atMs: 5, kind: 'disbelieved', reason: 'backwards', said: 'UNPAID' },
      'The mint said UNPAID, which takes back what it had said: not believed.',
    ],
  ])('describes the event %j', (event, sentence) => {
    expect(textOf(payment('ISSUED', { events: [event] }))).toContain(sentence);
  });

  const UNWATCHED = payment('PAID', {}, { watchUntilMs: null });
  const DEAD = { watchedBy: { processId: 'p1', isAlive: false } };
  const LIMITS: Pick<PaymentTrace, 'mintLimits'> = {
    mintLimits: [{ route: 'check', requestsPerMinute: 20 }],
  };

  it.each<[string, PaymentTrace, number, string]>([
    ['no notified wallet', payment('PAID'), 0, 'No wallet is known to have been sent `update`'],
    ['an expired quote', payment('PAID'), 3 * HOUR_MS, '(2 h ago): some mints refuse it now.'],
    ['pruned history', payment('ISSUED'), 60 * DAY_MS, 'history goes back 30 days.'],
    ['a late payment', payment('UNPAID'), 2 * HOUR_MS, 'A payment can still settle late.'],
    ['an expired invoice', payment('EXPIRED'), 3 * DAY_MS, 'Nothing: the mint is no longer asked'],
    ['a payment in flight', payment('INFLIGHT'), 0, 'The mint signs; the quote is ISSUED then'],
    ['a payment left alone', UNWATCHED, 30 * DAY_MS, 'It stays in the list of the recipient'],
    ['the limits', payment('UNPAID', LIMITS), 0, 'batches of quotes to about 20 a minute.'],
    ['a dead process', payment('UNPAID', DEAD), 0, 'Process p1 watched this mint and has fallen'],
    ['a receipt not made', zap('PAID', null), 0, 'Zap receipt\n  None was made: the process'],
    ['a pruned receipt', zap('ISSUED', null), 31 * DAY_MS, 'Zap receipt\n  None is kept: history'],
    ['a receipt without relays', zap('PAID', []), 0, 'It goes nowhere: the zap request names no'],
  ])('explains %s', (_case, given, ageMs, sentence) => {
    expect(textOf(given, CREATED_AT_MS + ageMs)).toContain(sentence);
  });
});

describe('the trace of a zap receipt', () => {
  const TRIED_AT = 'at 2026-08-01T12:00:10.000Z (2 s ago): disk full';
  const GIVE_UP_AT = 'given up after 2026-08-03T12:00:00.000Z';

  it.each<[string, Partial<TracedDelivery>, string[]]>([
    [
      'given up',
      { ...ENDED, state: 'given_up' },
      [`Given up; sent 3 times, the last time ${TRIED_AT}`],
    ],
    [
      'given up before it was sent',
      { state: 'given_up', nextTryAtMs: null, lastWord: 'timed out' },
      ['Given up; never sent: timed out'],
    ],
    [
      'due',
      {},
      [
        'Not delivered yet; never sent',
        `Due since 2026-08-01T12:00:09.000Z (3 s ago), ${GIVE_UP_AT}`,
      ],
    ],
    [
      'due again later',
      { ...TRIED, nextTryAtMs: NOW_MS + 60 * SECOND_MS },
      [
        `Not delivered yet; sent 3 times, the last time ${TRIED_AT}`,
        `Tried next at 2026-08-01T12:01:12.000Z (in 60 s), ${GIVE_UP_AT}`,
      ],
    ],
    [
      'waiting for a relay that failed once',
      { standing: { failures: 1, restUntilMs: NOW_MS + 60 * SECOND_MS, word: null } },
      [
        'Not delivered yet; never sent',
        'The relay failed',
        `Tried next at 2026-08-01T12:01:12.000Z (in 60 s), ${GIVE_UP_AT}`,
      ],
    ],
  ])('prints a delivery that is %s', (_case, given, lines) => {
    const text = textOf(zap('PAID', [{ ...OPEN, ...given }]));
    expect(text).toContain(
      '  Zap           yes: it was paid, and its receipt was made (see below)',
    );
    expect(text.slice(text.indexOf('\nZap receipt'))).toBe(
      [
        `\nZap receipt ${RECEIPT_ID}`,
        '  Made 2026-08-01T12:00:09.000Z (3 s ago)',
        '  wss://a.example',
        ...lines.map((line) => `    ${line}`),
        '',
      ].join('\n'),
    );
  });
});

describe('the trace of a recipient', () => {
  const open = { ...payment('UNPAID').quote, amountSat: 7, paymentHash: null };
  const recipient: RecipientTrace = {
    pubkey: PUBKEY,
    name: 'alice',
    payments: [payment('PAID').quote, { ...payment('ISSUED').quote, quoteId: 'revealed' }],
    paymentCount: 1_234,
    openQuotes: [open],
    hasMoreOpenQuotes: true,
  };
  const traceOf = (given: Partial<RecipientTrace> = {}): Trace => ({
    outcome: 'recipient',
    nowMs: CREATED_AT_MS,
    recipient: { ...recipient, ...given },
  });

  it('lists the newest quotes and their total', () => {
    expect(traceToText(traceOf())).toBe(`alice (${NPUB})

1,234 payments; the newest 2, with the time of payment
  2026-08-01T12:00:09.000Z      2,100 sat  PAID      ${PAYMENT_HASH}
  2026-08-01T12:00:09.000Z      2,100 sat  ISSUED    ${PAYMENT_HASH}  revealed

More than 1 open quote (not paid yet); the newest 1, with the time of making
  2026-08-01T12:00:00.000Z          7 sat  UNPAID    (payment hash unknown)

nutpost trace <payment hash> tells more of one. What expired unpaid is found by that alone.
`);
    expect(traceToJson(traceOf())).toMatchObject({
      outcome: 'recipient',
      recipient: { npub: NPUB, pubkey: PUBKEY, name: 'alice' },
      paymentCount: 1_234,
      payments: [{ state: 'PAID' }, { quoteId: 'revealed', state: 'ISSUED' }],
      openQuotes: [{ state: 'UNPAID' }],
      hasMoreOpenQuotes: true,
    });
  });

  it.each([
    [
      'no total when everything is listed',
      { paymentCount: 2, hasMoreOpenQuotes: false },
      '\n2 payments, with the time of payment\n',
    ],
    [
      'that there are no quotes',
      { payments: [], paymentCount: 0, openQuotes: [], hasMoreOpenQuotes: false, name: null },
      `${NPUB}\n\nNo payment\n\nNo open quote\n`,
    ],
  ])('prints %s', (_case, given, text) => {
    expect(traceToText(traceOf(given))).toContain(text);
  });
});

it.each<[Trace, string]>([
  [{ outcome: 'not_found', soughtAs: ['payment_hash'] }, 'no payment has this payment hash'],
  [{ outcome: 'not_found', soughtAs: ['name', 'quote_id'] }, 'this name, no quote has this id'],
  [{ outcome: 'invalid_invoice' }, 'This is no invoice'],
  [
    { outcome: 'invalid_quote_id' },
    'no payment hash, no invoice, no npub, no name and no quote id',
  ],
])('explains %j in one sentence', (trace, sentence) => {
  expect(traceToText(trace)).toMatch(new RegExp(`${sentence}.*\\.\n$`));
  expect(traceToJson(trace)).toEqual(trace);
});

it('traceToJson returns the facts of a payment with UTC times and without null', () => {
  const given: Partial<PaymentTrace> = {
    mintLimits: [{ route: 'check', requestsPerMinute: 20 }],
    events: [{ atMs: PAID_AT_MS + 12, kind: 'told', sockets: 2 }],
    receipt: {
      id: RECEIPT_ID,
      createdAtMs: PAID_AT_MS,
      deliveries: [
        { ...OPEN, standing: { failures: 1, restUntilMs: PAID_AT_MS, word: 'no answer' } },
        { ...OPEN, ...ENDED, state: 'accepted' },
      ],
    },
  };
  expect(jsonOf(payment('PAID', given, { hasComment: true }))).toEqual({
    outcome: 'payments',
    asOf: '2026-08-01T12:00:12.000Z',
    payments: [
      {
        recipient: { npub: NPUB, pubkey: PUBKEY },
        amountSat: 2_100,
        state: 'PAID',
        mintUrl: 'https://mint.example',
        locked: false,
        paymentHash: PAYMENT_HASH,
        createdAt: '2026-08-01T12:00:00.000Z',
        expiresAt: '2026-08-01T13:00:00.000Z',
        paidAt: '2026-08-01T12:00:09.000Z',
        isZap: false,
        hasComment: true,
        events: [{ at: '2026-08-01T12:00:09.012Z', kind: 'told', sockets: 2 }],
        watchedUntil: '2026-08-08T12:00:09.000Z',
        watchedBy: { processId: 'p1', isAlive: true },
        mintLimits: [{ route: 'check', requestsPerMinute: 20 }],
        outlook: { kind: 'awaiting_collection', until: '2026-08-08T12:00:09.000Z' },
        receipt: {
          id: RECEIPT_ID,
          createdAt: '2026-08-01T12:00:09.000Z',
          relays: [
            {
              relay: 'wss://a.example',
              state: 'open',
              tries: 0,
              nextTryAt: '2026-08-01T12:00:09.000Z',
              giveUpAt: '2026-08-03T12:00:00.000Z',
              standing: { failures: 1, restUntil: '2026-08-01T12:00:09.000Z', word: 'no answer' },
            },
            {
              relay: 'wss://a.example',
              state: 'accepted',
              tries: 3,
              lastTryAt: '2026-08-01T12:00:10.000Z',
              lastWord: 'disk full',
            },
          ],
        },
      },
    ],
  });
});

function textOf(payment: PaymentTrace, nowMs = NOW_MS): string {
  const outlook = quoteOutlook(payment.quote, nowMs);
  return traceToText({ outcome: 'payments', nowMs, payments: [{ ...payment, outlook }] });
}

function jsonOf(payment: PaymentTrace): object {
  return traceToJson({ outcome: 'payments', nowMs: NOW_MS, payments: [payment] });
}

function zap(state: QuoteState, deliveries: TracedDelivery[] | null): PaymentTrace {
  const receipt = deliveries && { id: RECEIPT_ID, createdAtMs: PAID_AT_MS, deliveries };
  return payment(state, { receipt }, { isZap: true });
}

/** A quote of 2,100 sat, paid after 9 s unless its state says otherwise. */
function payment(
  state: QuoteState,
  given: Partial<PaymentTrace> = {},
  quoteFields: Partial<ShownQuote> = {},
): PaymentTrace {
  const paidAtMs = state === 'UNPAID' || state === 'EXPIRED' ? null : PAID_AT_MS;
  const isOver = state === 'ISSUED' || state === 'EXPIRED';
  const endMs = paidAtMs === null ? CREATED_AT_MS + HOUR_MS + DAY_MS : paidAtMs + 7 * DAY_MS;
  const quote: ShownQuote = {
    mintUrl: 'https://mint.example',
    quoteId: null,
    pubkey: PUBKEY,
    paymentHash: PAYMENT_HASH,
    amountSat: 2_100,
    state,
    locked: false,
    createdAtMs: CREATED_AT_MS,
    expiresAtMs: CREATED_AT_MS + HOUR_MS,
    paidAtMs,
    watchUntilMs: isOver ? null : endMs,
    isZap: false,
    hasComment: false,
    ...quoteFields,
  };
  return {
    quote,
    recipientName: null,
    events: [],
    outlook: quoteOutlook(quote, NOW_MS),
    watchedBy: { processId: 'p1', isAlive: true },
    mintLimits: [],
    receipt: null,
    ...given,
  };
}
