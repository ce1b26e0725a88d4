import { expect, it } from 'vitest';
import type { QuoteState } from '../../../src/database/schema.ts';
import type { MintContact } from '../../../src/mints/mint-store.ts';
import {
  derivePaymentStatus,
  type PaymentTrace,
  type RedactedQuote,
} from '../../../src/operator/trace/trace.ts';
import { traceToText } from '../../../src/operator/trace/trace-command.ts';
import type { TracedDelivery } from '../../../src/zaps/zap-receipt-store.ts';

// test/acceptance/trace.test.ts covers the common cases of `nutpost trace`.

const PUBKEY = '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const PAYMENT_HASH = 'ab'.repeat(32);
const RECEIPT_ID = 'ef'.repeat(32);

const CREATED_AT_MS = Date.parse('2026-08-01T12:00:00.000Z');
const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;
const DAY_MS = 24 * HOUR_MS;
const PAID_AT_MS = CREATED_AT_MS + 9 * SECOND_MS;
const NOW_MS = CREATED_AT_MS + 12 * SECOND_MS;

const OPEN_DELIVERY: TracedDelivery = {
  relayUrl: 'wss://a.example',
  state: 'open',
  attempts: 0,
  lastResult: null,
  lastAttemptAtMs: null,
  nextAttemptAtMs: PAID_AT_MS,
  giveUpAtMs: CREATED_AT_MS + 2 * DAY_MS,
  relayStatus: null,
};
const AFTER_THREE_ATTEMPTS = {
  attempts: 3,
  lastAttemptAtMs: CREATED_AT_MS + 10 * SECOND_MS,
  lastResult: 'disk full',
};
const BACKOFF_UNTIL_MS = NOW_MS + 60 * SECOND_MS;
const FAILING_RELAY = {
  relayStatus: { failures: 2, backoffUntilMs: BACKOFF_UNTIL_MS, lastError: null },
};

const FAILING_MINT: MintContact = {
  answeredAtMs: CREATED_AT_MS,
  failingSinceMs: CREATED_AT_MS + 60 * SECOND_MS,
  failure: 'connection refused',
};
const DEAD_HOLDER = { leaseHolder: { processId: 'p1', isAlive: false } };

it.each<[string, PaymentTrace, number, string]>([
  ['a missing update', createTrace('PAID'), 0, 'No `update` was sent to a socket'],
  ['an expired quote', createTrace('PAID'), 3 * HOUR_MS, '(2 h ago); some mints reject it now.'],
  ['a late payment', createTrace('UNPAID'), 2 * HOUR_MS, 'A late payment can still arrive.'],
  [
    'an INFLIGHT quote',
    createTrace('INFLIGHT'),
    0,
    'The mint is signing: the quote becomes ISSUED',
  ],
  [
    'what a mint that is down means for a payment',
    createTrace('UNPAID', { mintContact: FAILING_MINT }),
    2 * HOUR_MS,
    'If the payer has paid, the payment is recorded when the mint answers again.',
  ],
  [
    'a dead process',
    createTrace('UNPAID', DEAD_HOLDER),
    0,
    'Process p1 watched this mint but has stopped responding',
  ],
  [
    'a missing receipt',
    createZapTrace('PAID', null),
    0,
    'Zap receipt\n  None was created: ZAP_SECRET_KEY',
  ],
])('explains %s', (_case, trace, ageMs, sentence) => {
  expect(printPayment(trace, CREATED_AT_MS + ageMs)).toContain(sentence);
});

it.each<[string, Partial<TracedDelivery>, string]>([
  [
    'given up after attempts',
    { ...AFTER_THREE_ATTEMPTS, state: 'given_up', nextAttemptAtMs: null },
    'Given up after 3 attempts, the last at 2026-08-01T12:00:10.000Z (2 s ago): disk full',
  ],
  ['due', {}, 'Due 2026-08-01T12:00:09.000Z (3 s ago), given up after 2026-08-03T12:00:00.000Z'],
  [
    'waiting for a failing relay',
    FAILING_RELAY,
    'Not delivered yet after 0 attempts\n    The relay failed 2 times\n    Due 2026-08-01T12:01:12.000Z',
  ],
])('prints a delivery that is %s', (_case, changes, text) => {
  expect(printPayment(createZapTrace('PAID', [{ ...OPEN_DELIVERY, ...changes }]))).toContain(text);
});

function printPayment(trace: PaymentTrace, nowMs = NOW_MS): string {
  const paymentStatus = derivePaymentStatus(trace, nowMs);
  return traceToText({
    outcome: 'payments',
    nowMs,
    payments: [{ ...trace, paymentStatus }],
  });
}

function createZapTrace(state: QuoteState, deliveries: TracedDelivery[] | null): PaymentTrace {
  const receipt = deliveries && { id: RECEIPT_ID, createdAtMs: PAID_AT_MS, deliveries };
  return createTrace(state, { receipt }, { isZap: true });
}

/** Creates the trace of a quote of 2,100 sat. Unless its state is unpaid, it was paid after 9 s. */
function createTrace(
  state: QuoteState,
  changes: Partial<PaymentTrace> = {},
  quoteChanges: Partial<RedactedQuote> = {},
): PaymentTrace {
  const paidAtMs = state === 'UNPAID' || state === 'EXPIRED' ? null : PAID_AT_MS;
  const isWatchOver = state === 'ISSUED' || state === 'EXPIRED';
  const watchEndMs = paidAtMs === null ? CREATED_AT_MS + HOUR_MS + DAY_MS : paidAtMs + 7 * DAY_MS;
  const quote: RedactedQuote = {
    mintUrl: 'https://mint.example',
    quoteId: null,
    tag: null,
    pubkey: PUBKEY,
    paymentHash: PAYMENT_HASH,
    amountSat: 2_100,
    state,
    locked: false,
    createdAtMs: CREATED_AT_MS,
    expiresAtMs: CREATED_AT_MS + HOUR_MS,
    paidAtMs,
    watchUntilMs: isWatchOver ? null : watchEndMs,
    isZap: false,
    hasComment: false,
    ...quoteChanges,
  };
  return {
    ...quote,
    recipientName: null,
    events: [],
    paymentStatus: derivePaymentStatus(quote, NOW_MS),
    leaseHolder: { processId: 'p1', isAlive: true },
    mintContact: { answeredAtMs: PAID_AT_MS, failingSinceMs: null, failure: null },
    receipt: null,
    ...changes,
  };
}
