import { describe, expect, it } from 'vitest';
import {
  computeChannelUpdate,
  toDeliveryResult,
  toSiteKey,
} from '../../../src/notifications/delivery-policy.ts';
import type { DueNotification } from '../../../src/notifications/outbox-store.ts';
import { planNotifications, planReminders } from '../../../src/notifications/plan-notifications.ts';
import { selectMessage } from '../../../src/notifications/select-message.ts';

const NOW_MS = 1_750_000_000_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

describe('planNotifications', () => {
  const channel = {
    id: 'channel',
    kind: 'webhook' as const,
    pubkey: 'aa',
    minAmountSat: 10,
  };
  const payment = {
    quoteRowId: 1,
    pubkey: 'aa',
    amountSat: 10,
    isNewPayment: true,
    isCollected: false,
    paidAtMs: NOW_MS,
  };
  const plan = (changes: Partial<typeof payment>) =>
    planNotifications({ ...payment, ...changes }, channel, NOW_MS).map(
      ({ eventType, dueAtMs }) => [eventType, (dueAtMs - NOW_MS) / SECOND_MS] as const,
    );

  it.each<[string, Partial<typeof payment>, ReturnType<typeof plan>]>([
    ['a payment', {}, [['received', 2]]],
    ['a payment below the minimum', { amountSat: 9 }, []],
    [
      'a payment that is collected',
      { isCollected: true },
      [
        ['received', 2],
        ['collected', 0],
      ],
    ],
    [
      'ecash that was minted for an old payment',
      { isNewPayment: false, isCollected: true, paidAtMs: NOW_MS - DAY_MS },
      [['collected', 0]],
    ],
  ])('plans for %s', (_title, changes, expected) => {
    expect(plan(changes)).toEqual(expected);
  });
});

describe('planReminders', () => {
  const plan = (changes: Partial<DueNotification>, type: 'received' | 'deadline' = 'received') =>
    planReminders({ id: 'new', type, notifications: [buildDue(changes)] }, 'channel', NOW_MS).map(
      ({ eventType, dueAtMs }) => [eventType, (dueAtMs - NOW_MS) / SECOND_MS] as const,
    );

  it.each<[string, Partial<DueNotification>, ReturnType<typeof plan>]>([
    [
      'a payment',
      { collectByMs: NOW_MS + HOUR_MS },
      [
        ['deadline', 1_800],
        ['last_call', 3_000],
      ],
    ],
    [
      'a payment twelve minutes before the deadline',
      { collectByMs: NOW_MS + 12 * MINUTE_MS },
      [
        ['deadline', 360],
        ['last_call', 120],
      ],
    ],
    ['a payment a minute before the deadline', { collectByMs: NOW_MS + MINUTE_MS }, []],
    [
      'a payment that is reported late',
      { paidAtMs: NOW_MS - HOUR_MS, collectByMs: NOW_MS + HOUR_MS },
      [['last_call', 3_000]],
    ],
    ['a payment after the deadline', { collectByMs: NOW_MS - HOUR_MS }, []],
    ['a payment without a deadline', { collectByMs: null }, []],
    ['a message that is sent again', { collectByMs: NOW_MS + HOUR_MS, messageId: 'new' }, []],
  ])('plans for %s', (_title, changes, expected) => {
    expect(plan(changes)).toEqual(expected);
  });

  it('plans no reminders of reminders', () => {
    expect(plan({ event: 'deadline', collectByMs: NOW_MS + HOUR_MS }, 'deadline')).toEqual([]);
  });
});

describe('selectMessage', () => {
  const select = (...due: DueNotification[]) => selectMessage(due, { nowMs: NOW_MS, newId: 'new' });

  it('puts all notifications of one type into a message, and leaves the others due', () => {
    const { message, changes } = select(
      buildDue({ id: 1, event: 'received' }),
      buildDue({ id: 2, event: 'collected' }),
      buildDue({ id: 3, event: 'received' }),
    );
    expect(message).toMatchObject({ id: 'new', type: 'received' });
    expect(message?.notifications.map(({ id }) => id)).toEqual([1, 3]);
    expect(changes.map(({ id, messageId }) => [id, messageId])).toEqual([
      [1, 'new'],
      [3, 'new'],
    ]);
  });

  it('sends a message again that was not delivered, without what became due since', () => {
    const { message } = select(
      buildDue({ id: 1, messageId: 'old' }),
      buildDue({ id: 2, messageId: null }),
    );
    expect(message).toMatchObject({ id: 'old', notifications: [{ id: 1 }] });
  });

  it.each<[string, Partial<DueNotification>, string | null]>([
    ['given_up', { giveUpAtMs: NOW_MS }, null],
    ['skipped', { event: 'deadline', collectByMs: null }, null],
    ['skipped', { event: 'received', hasReachedSocket: 1, isCollected: 1 }, null],
    ['open', { event: 'received', hasReachedSocket: 1, paidAtMs: NOW_MS - 9_999 }, null],
    ['open', { event: 'received', hasReachedSocket: 1, paidAtMs: NOW_MS - 10_000 }, 'new'],
    ['open', { event: 'received', isCollected: 1 }, 'new'],
    ['open', { event: 'last_call', collectByMs: NOW_MS + 1 }, 'new'],
  ])('decides "%s" for %o', (status, changes, messageId) => {
    expect(select(buildDue(changes)).changes).toMatchObject([{ status, messageId }]);
  });
});

describe('computeChannelUpdate', () => {
  const failed = { outcome: 'failed', text: 'HTTP 500', retryAfterMs: 0 } as const;
  const compute = (failingForMs: number | null, retryAfterMs = 0, sinceLastAttemptMs = 0) =>
    computeChannelUpdate(
      {
        failingSinceMs: failingForMs === null ? null : NOW_MS - failingForMs,
        lastAttemptAtMs: NOW_MS - sinceLastAttemptMs,
      },
      { ...failed, retryAfterMs },
      { nowMs: NOW_MS, isBehind: false },
    );

  it('backs off for a tenth of the outage, from 2 seconds to an hour, or for as long as the server asks', () => {
    const pauses = [null, MINUTE_MS, HOUR_MS, DAY_MS].map(
      (failingForMs) => (compute(failingForMs).notBeforeMs - NOW_MS) / SECOND_MS,
    );
    expect(pauses).toEqual([2, 6, 360, 3_600]);
    expect(compute(null, HOUR_MS).notBeforeMs).toBe(NOW_MS + HOUR_MS);
  });

  it('disables a channel after a week of failures, unless nothing was sent for days', () => {
    expect(compute(7 * DAY_MS - 1).isDisabled).toBe(false);
    expect(compute(7 * DAY_MS).isDisabled).toBe(true);
    expect(compute(30 * DAY_MS, 0, 2 * DAY_MS + 1)).toMatchObject({
      isDisabled: false,
      failingSinceMs: NOW_MS,
    });
  });

  it('pauses for a minute after a message, unless more is due than fits into it', () => {
    const channel = { failingSinceMs: NOW_MS - 1, lastAttemptAtMs: NOW_MS - 1 };
    const delivered = { outcome: 'delivered', text: 'HTTP 200' } as const;
    for (const [isBehind, pauseMs] of [
      [false, MINUTE_MS],
      [true, 0],
    ] as const) {
      expect(computeChannelUpdate(channel, delivered, { nowMs: NOW_MS, isBehind })).toEqual({
        notBeforeMs: NOW_MS + pauseMs,
        failingSinceMs: null,
        lastError: null,
        isDisabled: false,
      });
    }
  });
});

it('counts more requests to push services, which many recipients share', () => {
  expect(toSiteKey('googleapis.com').factor).toBeGreaterThan(10);
  expect(toSiteKey('shop.example').factor).toBe(1);
});

describe('toDeliveryResult', () => {
  it.each([
    ['120', 120],
    [new Date(NOW_MS + HOUR_MS).toUTCString(), 3_600],
    [String(7 * 86_400), 86_400],
    ['99999999999', 86_400],
    ['-5', 0],
    ['soon', 0],
  ])('reads "Retry-After: %s" as %i seconds', (value, seconds) => {
    const headers = new Map([['retry-after', value]]);
    const response = { outcome: 'responded', status: 503, headers, json: null, text: '' } as const;
    expect(toDeliveryResult(response, NOW_MS, [])).toEqual({
      outcome: 'failed',
      text: 'HTTP 503',
      retryAfterMs: seconds * SECOND_MS,
    });
  });
});

function buildDue(changes: Partial<DueNotification>): DueNotification {
  return {
    id: 1,
    event: 'received',
    dueAtMs: NOW_MS,
    giveUpAtMs: NOW_MS + DAY_MS,
    messageId: null,
    quoteRowId: 1,
    amountSat: 21,
    paymentHash: null,
    zapRequest: null,
    comment: null,
    mintUrl: 'https://mint.example',
    paidAtMs: NOW_MS,
    collectByMs: NOW_MS + HOUR_MS,
    isCollected: 0,
    hasReachedSocket: 0,
    ...changes,
  };
}
