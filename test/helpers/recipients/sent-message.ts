import type { SentMessage } from '../../../src/notifications/outbox-store.ts';

/** Builds the result of a message that its receiver has accepted. */
export function buildSentMessage(overrides: Partial<SentMessage> = {}): SentMessage {
  return {
    messageId: 'message',
    notificationIds: [1],
    isDelivered: true,
    result: 'HTTP 200',
    nowMs: 1,
    notBeforeMs: 1,
    failingSinceMs: null,
    lastError: null,
    isDisabled: false,
    ...overrides,
  };
}
