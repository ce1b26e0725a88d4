import type { NotificationEvent } from '../database/schema.ts';
import type { NotifiedChange } from '../quotes/observation-recorder.ts';
import { NOTIFICATION_DELAYS, NOTIFICATION_LIMITS } from './limits.ts';
import type { PlannedNotification, WatchingChannel } from './outbox-store.ts';
import type { Message } from './select-message.ts';

/** Plans the notifications of a recorded change. Its reminders are planned with its first message. */
export function planNotifications(
  change: NotifiedChange,
  channel: WatchingChannel,
  nowMs: number,
): PlannedNotification[] {
  const { quoteRowId, amountSat, isNewPayment, isCollected, paidAtMs } = change;
  if (amountSat < channel.minAmountSat) {
    return [];
  }
  const listedAtMs = Math.max(paidAtMs, nowMs);
  const plan = (eventType: NotificationEvent, dueAtMs: number) => ({
    channel: channel.id,
    quoteRowId,
    eventType,
    dueAtMs,
    giveUpAtMs: listedAtMs + NOTIFICATION_LIMITS.giveUpAfterMs,
  });
  return [
    ...(isNewPayment ? [plan('received', paidAtMs + NOTIFICATION_DELAYS.receivedMs)] : []),
    ...(isCollected && channel.kind === 'webhook' ? [plan('collected', listedAtMs)] : []),
  ];
}

/** Plans the reminders of the payments in a new message. Whether they are needed is decided again when they are due. */
export function planReminders(
  { type, notifications }: Message,
  channelId: string,
  nowMs: number,
): PlannedNotification[] {
  return notifications.flatMap(({ messageId, quoteRowId, paidAtMs, collectByMs }) => {
    if (type !== 'received' || messageId !== null || collectByMs === null) {
      return [];
    }
    const plan = (eventType: NotificationEvent, dueAtMs: number) => ({
      channel: channelId,
      quoteRowId,
      eventType,
      dueAtMs,
      giveUpAtMs: collectByMs,
    });
    return [
      plan('deadline', Math.round((paidAtMs + collectByMs) / 2)),
      plan('last_call', collectByMs - NOTIFICATION_DELAYS.lastCallMs),
    ].filter(
      // A reminder just after the first message would say nothing new.
      ({ dueAtMs }) => dueAtMs >= nowMs + NOTIFICATION_LIMITS.pauseMs && dueAtMs < collectByMs,
    );
  });
}
