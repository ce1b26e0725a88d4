import { NOTIFICATION_DELAYS, NOTIFICATION_LIMITS } from './limits.ts';
import type { DueNotification, NotificationChange } from './outbox-store.ts';

type MessageType = 'received' | 'deadline' | 'collected';

export interface Message {
  /** Stays the same if the message is sent again. */
  id: string;
  type: MessageType | 'test';
  notifications: readonly DueNotification[];
}

/**
 * Selects the notifications that become one message: those of a message that was not delivered, or the first one and all
 * of its type, as far as their comments fit. The others stay due, are postponed, or are closed.
 *
 * @returns also whether more is due than fits into a message
 */
export function selectMessage(
  due: readonly DueNotification[],
  { nowMs, newId }: { nowMs: number; newId: string },
): { message: Message | null; changes: NotificationChange[]; isBehind: boolean } {
  const ready: DueNotification[] = [];
  const changes: NotificationChange[] = [];
  for (const notification of due) {
    const { id, messageId, paidAtMs } = notification;
    const decision = decide(notification, nowMs);
    if (decision === 'send') {
      ready.push(notification);
    } else if (decision === 'postpone') {
      const dueAtMs = paidAtMs + NOTIFICATION_DELAYS.collectingMs;
      changes.push({ id, status: 'open', dueAtMs, messageId });
    } else {
      changes.push({ id, status: decision, dueAtMs: null, messageId });
    }
  }
  const [first] = ready;
  if (first === undefined) {
    return { message: null, changes, isBehind: false };
  }
  const type = toMessageType(first);
  const id = first.messageId ?? newId;
  const sameMessage = ready.filter(
    (other) => other.messageId === first.messageId && toMessageType(other) === type,
  );
  const notifications = limitComments(sameMessage);
  for (const { id: notificationId, dueAtMs } of notifications) {
    changes.push({ id: notificationId, status: 'open', dueAtMs, messageId: id });
  }
  const isBehind =
    notifications.length < sameMessage.length || due.length === NOTIFICATION_LIMITS.maxPerMessage;
  return { message: { id, type, notifications }, changes, isBehind };
}

/** Returns each payment of a message once. Both of its reminders may be due at the same time. */
export function listPayments(notifications: Message['notifications']): DueNotification[] {
  return [...new Map(notifications.map((each) => [each.quoteRowId, each])).values()];
}

/**
 * Returns when the newest event of a message occurred: when a payment was listed, a reminder became due, or ecash was
 * minted. Stays the same if the message is sent again.
 */
export function computeEventTimeMs({ type, notifications }: Message, nowMs: number): number {
  const times = notifications.map(({ paidAtMs, dueAtMs }) =>
    type === 'received' ? paidAtMs : dueAtMs,
  );
  return type === 'test' ? nowMs : Math.max(...times);
}

function decide(
  notification: DueNotification,
  nowMs: number,
): 'send' | 'postpone' | 'skipped' | 'given_up' {
  const { event, giveUpAtMs, paidAtMs, collectByMs, isCollected, hasReachedSocket } = notification;
  if (giveUpAtMs <= nowMs) {
    return 'given_up';
  }
  if (event === 'collected') {
    return 'send';
  }
  if (event !== 'received') {
    return collectByMs === null ? 'skipped' : 'send';
  }
  // A wallet that is open collects, and its user needs no message.
  if (hasReachedSocket === 1 && isCollected === 1) {
    return 'skipped';
  }
  const mayBeCollecting = nowMs < paidAtMs + NOTIFICATION_DELAYS.collectingMs;
  return hasReachedSocket === 1 && mayBeCollecting ? 'postpone' : 'send';
}

/** Returns the first notifications, whose comments fit into a message. Those of a message that is sent again fit. */
function limitComments(notifications: readonly DueNotification[]): readonly DueNotification[] {
  let bytes = 0;
  const end = notifications.findIndex(({ comment }, index) => {
    bytes += Buffer.byteLength(JSON.stringify(comment ?? ''));
    return index > 0 && bytes > NOTIFICATION_LIMITS.maxCommentBytes;
  });
  return end === -1 ? notifications : notifications.slice(0, end);
}

function toMessageType({ event }: DueNotification): MessageType {
  return event === 'last_call' ? 'deadline' : event;
}
