import { nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
import type { QuoteState } from '../../src/database/schema.ts';
import { createCommandResult } from '../../src/operator/command.ts';
import {
  derivePaymentStatus,
  type PaymentTrace,
  type RedactedQuote,
  type TraceResult,
} from '../../src/operator/trace/trace.ts';
import { traceToJson, traceToText } from '../../src/operator/trace/trace-command.ts';
import type { QuoteEvent } from '../../src/quotes/quote-event-store.ts';
import type { TracedDelivery } from '../../src/zaps/zap-receipt-store.ts';

/** The output of `nutpost trace` in cases that test/acceptance/trace.test.ts does not reach. */

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
  relayUrl: 'wss://a.example',
  state: 'open',
  attempts: 0,
  lastResult: null,
  lastAttemptAtMs: null,
  nextAttemptAtMs: PAID_AT_MS,
  giveUpAtMs: CREATED_AT_MS + 2 * DAY_MS,
  relayStatus: null,
};
const TRIED = {
  attempts: 3,
  lastAttemptAtMs: CREATED_AT_MS + 10 * SECOND_MS,
  lastResult: 'disk full',
};
const LATER_MS = NOW_MS + 60 * SECOND_MS;
const FAILING = { relayStatus: { failures: 2, backoffUntilMs: LATER_MS, lastError: null } };

it('prints the facts, the history and the next steps of a payment', () => {
  const events: QuoteEvent[] = [
    { atMs: PAID_AT_MS, kind: 'state', from: 'UNPAID', to: 'PAID', source: 'socket' },
    { atMs: PAID_AT_MS + 12, kind: 'update_sent', socketCount: 2 },
  ];
  expect(textOf(payment('PAID', { recipientName: 'alice', events }))).toBe(
    `2,100 sat for alice (${NPUB})
  State         PAID: it was paid but not collected yet
  Mint          https://mint.example
  Quote id      (hidden: anyone who has it can take the money; see --reveal)
  Locked        no
  Payment hash  ${PAYMENT_HASH}
  Created       2026-08-01T12:00:00.000Z (12 s ago)
  Expires       2026-08-01T13:00:00.000Z (in 60 min)

What happened
  2026-08-01T12:00:00.000Z  The mint created the quote, and the payer received its invoice.
  2026-08-01T12:00:09.000Z  The mint reported PAID over its WebSocket: the payment was added to the recipient's list.
  2026-08-01T12:00:09.012Z  \`update\` was sent to 2 sockets of the recipient.

What happens next
  The mint is polled until 2026-08-08T12:00:09.000Z (in 7 days).
  Process p1 watches this mint.
  The recipient's wallet must collect the payment from the mint.
  The quote expires at 2026-08-01T13:00:00.000Z (in 60 min); some mints reject it afterwards.
`,
  );
});

const UNWATCHED = payment('PAID', {}, { watchUntilMs: null });
const BACKWARDS = {
  atMs: 5,
  kind: 'observation_rejected',
  reason: 'state_regression',
  reportedState: 'UNPAID',
} as const;
const DEAD = { leaseHolder: { processId: 'p1', isAlive: false } };
const LIMITS: Pick<PaymentTrace, 'mintRateLimits'> = {
  mintRateLimits: [{ route: 'check', requestsPerMinute: 20 }],
};

it.each<[string, PaymentTrace, number, string]>([
  ['no update', payment('PAID'), 0, 'No `update` was sent to a socket'],
  ['an expired quote', payment('PAID'), 3 * HOUR_MS, '(2 h ago); some mints reject it now.'],
  ['pruned history', payment('ISSUED'), 60 * DAY_MS, 'The history goes back 30 days.'],
  ['an ignored state', payment('PAID', { events: [BACKWARDS] }), 0, 'an earlier state: ignored.'],
  ['a late payment', payment('UNPAID'), 2 * HOUR_MS, 'A late payment can still arrive.'],
  ['an expired invoice', payment('EXPIRED'), 3 * DAY_MS, 'Nothing: the mint is no longer polled'],
  ['a payment in flight', payment('INFLIGHT'), 0, 'The mint is signing: the quote becomes ISSUED'],
  ['an uncollected payment', UNWATCHED, 30 * DAY_MS, "The payment stays in the recipient's list"],
  ['the limits', payment('UNPAID', LIMITS), 0, 'batches of quotes to about 20 a minute.'],
  [
    'a dead process',
    payment('UNPAID', DEAD),
    0,
    'Process p1 watched this mint but has stopped responding',
  ],
  ['a missing receipt', zap('PAID', null), 0, 'Zap receipt\n  None was created: ZAP_SECRET_KEY'],
  ['a pruned receipt', zap('ISSUED', null), 31 * DAY_MS, 'Zap receipt\n  The history goes back'],
  [
    'a receipt without relays',
    zap('PAID', []),
    0,
    'No relays: the zap request names no usable relay',
  ],
])('explains %s', (_case, given, ageMs, sentence) => {
  expect(textOf(given, CREATED_AT_MS + ageMs)).toContain(sentence);
});

it.each<[string, Partial<TracedDelivery>, string]>([
  [
    'given up',
    { ...TRIED, state: 'given_up', nextAttemptAtMs: null },
    'Given up after 3 attempts, the last at 2026-08-01T12:00:10.000Z (2 s ago): disk full',
  ],
  [
    'given up before it was sent',
    { state: 'given_up', nextAttemptAtMs: null, lastResult: 'timed out' },
    'Given up after 0 attempts: timed out',
  ],
  ['due', {}, 'Due 2026-08-01T12:00:09.000Z (3 s ago), given up after 2026-08-03T12:00:00.000Z'],
  [
    'waiting for a failing relay',
    FAILING,
    'Not delivered yet after 0 attempts\n    The relay failed 2 times\n    Due 2026-08-01T12:01:12.000Z',
  ],
])('prints a delivery that is %s', (_case, given, text) => {
  expect(textOf(zap('PAID', [{ ...OPEN, ...given }]))).toContain(text);
});

it('lists the newest quotes of a recipient, and their total', () => {
  const open = { ...payment('UNPAID').quote, amountSat: 7, paymentHash: null };
  const trace: TraceResult = {
    outcome: 'recipient',
    nowMs: CREATED_AT_MS,
    recipient: {
      pubkey: PUBKEY,
      name: 'alice',
      payments: [payment('PAID').quote, { ...payment('ISSUED').quote, quoteId: 'revealed' }],
      paymentCount: 1_234,
      openQuotes: [open],
      hasMoreOpenQuotes: true,
    },
  };
  expect(traceToText(trace)).toBe(`alice (${NPUB})

1,234 payments; the newest 2, with the time of payment:
  2026-08-01T12:00:09.000Z      2,100 sat  PAID      ${PAYMENT_HASH}
  2026-08-01T12:00:09.000Z      2,100 sat  ISSUED    ${PAYMENT_HASH}  revealed

More than 1 unpaid quote, with the time of creation:
  2026-08-01T12:00:00.000Z          7 sat  UNPAID    (payment hash unknown)

\`nutpost trace <payment hash>\` shows more about a payment, and also finds expired quotes.
`);
  expect(jsonOf(trace)).toMatchObject({
    outcome: 'recipient',
    recipient: { npub: NPUB, pubkey: PUBKEY, name: 'alice' },
    paymentCount: 1_234,
    payments: [{ state: 'PAID' }, { quoteId: 'revealed', state: 'ISSUED' }],
    openQuotes: [{ state: 'UNPAID' }],
    hasMoreOpenQuotes: true,
  });
});

it('prints JSON with UTC times and without null', () => {
  const receipt = {
    id: RECEIPT_ID,
    createdAtMs: PAID_AT_MS,
    deliveries: [{ ...OPEN, ...FAILING }],
  };
  const payments = [payment('PAID', { ...LIMITS, receipt }, { hasComment: true })];
  const json = jsonOf({ outcome: 'payments', nowMs: NOW_MS, payments });
  expect(json).toMatchObject({
    outcome: 'payments',
    asOf: '2026-08-01T12:00:12.000Z',
    payments: [
      {
        recipient: { npub: NPUB, pubkey: PUBKEY },
        paidAt: '2026-08-01T12:00:09.000Z',
        hasComment: true,
        watchedUntil: '2026-08-08T12:00:09.000Z',
        watchedBy: { processId: 'p1', isAlive: true },
        mintLimits: [{ route: 'check', requestsPerMinute: 20 }],
        outlook: { kind: 'awaiting_collection', until: '2026-08-08T12:00:09.000Z' },
        receipt: {
          relays: [
            {
              nextTryAt: '2026-08-01T12:00:09.000Z',
              giveUpAt: '2026-08-03T12:00:00.000Z',
              standing: { failures: 2, restUntil: '2026-08-01T12:01:12.000Z' },
            },
          ],
        },
      },
    ],
  });
  expect(JSON.stringify(json)).not.toContain('null');
});

function textOf(payment: PaymentTrace, nowMs = NOW_MS): string {
  const outlook = derivePaymentStatus(payment.quote, nowMs);
  return traceToText({
    outcome: 'payments',
    nowMs,
    payments: [{ ...payment, paymentStatus: outlook }],
  });
}

function jsonOf(trace: TraceResult): object {
  return JSON.parse(createCommandResult(true, traceToJson(trace)).stdout);
}

function zap(state: QuoteState, deliveries: TracedDelivery[] | null): PaymentTrace {
  const receipt = deliveries && { id: RECEIPT_ID, createdAtMs: PAID_AT_MS, deliveries };
  return payment(state, { receipt }, { isZap: true });
}

/** A quote of 2,100 sat, paid after 9 s unless its state says otherwise. */
function payment(
  state: QuoteState,
  given: Partial<PaymentTrace> = {},
  quoteFields: Partial<RedactedQuote> = {},
): PaymentTrace {
  const paidAtMs = state === 'UNPAID' || state === 'EXPIRED' ? null : PAID_AT_MS;
  const isOver = state === 'ISSUED' || state === 'EXPIRED';
  const endMs = paidAtMs === null ? CREATED_AT_MS + HOUR_MS + DAY_MS : paidAtMs + 7 * DAY_MS;
  const quote: RedactedQuote = {
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
    paymentStatus: derivePaymentStatus(quote, NOW_MS),
    leaseHolder: { processId: 'p1', isAlive: true },
    mintRateLimits: [],
    receipt: null,
    ...given,
  };
}
