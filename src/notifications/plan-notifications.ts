import type { NotificationEvent } from '../database/schema.ts';
import type { NotifiedChange } from '../quotes/observation-recorder.ts';
import { NOTIFICATION_DELAYS, NOTIFICATION_LIMITS } from './limits.ts';
import type { PlannedNotification, WatchingChannel } from './outbox-store.ts';

/**
 * Plans the notifications of a recorded change. Reminders are planned for every payment; whether it has a deadline, and is
 * not collected, is decided when they are due.
 */
export function planNotifications(
  change: NotifiedChange,
  channel: WatchingChannel,
  nowMs: number,
): PlannedNotification[] {
  const { quoteRowId, amountSat, isNewPayment, isCollected, paidAtMs, expiresAtMs } = change;
  if (amountSat < channel.minAmountSat) {
    return [];
  }
  const listedAtMs = Math.max(paidAtMs, nowMs);
  const giveUpAtMs = listedAtMs + NOTIFICATION_LIMITS.giveUpAfterMs;
  const plan = (eventType: NotificationEvent, dueAtMs: number, endsAtMs = giveUpAtMs) => ({
    channel: channel.id,
    quoteRowId,
    eventType,
    dueAtMs,
    giveUpAtMs: endsAtMs,
  });
  const reminders = [
    plan('deadline', Math.round((paidAtMs + expiresAtMs) / 2), expiresAtMs),
    plan('last_call', expiresAtMs - NOTIFICATION_DELAYS.lastCallMs, expiresAtMs),
  ].filter(
    // A reminder just after the first message would say nothing new.
    ({ dueAtMs }) => dueAtMs >= paidAtMs + NOTIFICATION_LIMITS.pauseMs && dueAtMs < expiresAtMs,
  );
  return [
    ...(isNewPayment ? [plan('received', paidAtMs + NOTIFICATION_DELAYS.receivedMs)] : []),
    ...(isNewPayment && !isCollected ? reminders : []),
    ...(isCollected && channel.kind === 'webhook' ? [plan('collected', listedAtMs)] : []),
  ];
}
