import { expect, it } from 'vitest';
import type { QuoteState } from '../../../src/database/schema.ts';
import { derivePaymentStatus } from '../../../src/operator/trace/trace.ts';

const NOW_MS = 1_800_000_000_000;
const LATER_MS = NOW_MS + 1_000;

it.each<[string, QuoteState, number, number | null]>([
  ['awaiting_payment', 'UNPAID', LATER_MS, LATER_MS + 1],
  ['awaiting_late_payment', 'UNPAID', NOW_MS - 1, LATER_MS],
  ['given_up', 'EXPIRED', NOW_MS - 1, null],
  ['being_collected', 'INFLIGHT', LATER_MS, LATER_MS],
  ['awaiting_collection', 'PAID', LATER_MS, LATER_MS],
  ['left_uncollected', 'PAID', NOW_MS - 1, null],
  ['issued', 'ISSUED', LATER_MS, null],
])('the status of a payment is %s if its quote is %s', (kind, state, expiresAtMs, watchUntilMs) => {
  expect(derivePaymentStatus({ state, expiresAtMs, watchUntilMs }, NOW_MS)).toBe(kind);
});
