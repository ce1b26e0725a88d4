import type { UnsignedEvent } from 'nostr-tools';
import { PrivateDirectMessage } from 'nostr-tools/kinds';
import { npubEncode } from 'nostr-tools/nip19';
import { toUnixSeconds } from '../clock.ts';
import { nostrEventSchema } from '../nostr/event-schema.ts';
import { toDisplayText, tryParseJson } from '../untrusted-text.ts';
import { NOSTR_LIMITS } from './limits.ts';
import { type Reader, type TranslateMessage, writeMessageText } from './message-text.ts';
import { computeEventTimeMs, listPayments, type Message } from './select-message.ts';

/**
 * Writes a message as an event (NIP-17). It has the same id if it is written again, so that the recipient's client shows it
 * once: its time is that of its newest event, and its text is what was true then.
 */
export function writeNostrMessage(
  { translate, collectUrl }: { translate: TranslateMessage; collectUrl: string | null },
  message: Message,
  people: { sender: string; recipient: string; reader: Reader },
  nowMs: number,
): UnsignedEvent {
  const { id, type, notifications } = message;
  const createdAtMs = computeEventTimeMs(message, nowMs);
  const [payment, ...others] = listPayments(notifications);
  const zap = others.length > 0 ? null : parseZap(payment?.zapRequest ?? '');
  const shown = notifications.map((each) => ({
    ...each,
    comment:
      toDisplayText(each.comment ?? zap?.comment ?? '', NOSTR_LIMITS.maxCommentLength) || null,
  }));
  const { title, text } = writeMessageText(
    { translate, clock: () => createdAtMs },
    { ...message, notifications: shown },
    people.reader,
    { hasComment: true, payer: zap?.payer ?? null },
  );
  const link = type === 'test' ? '' : (collectUrl ?? '');
  return {
    kind: PrivateDirectMessage,
    pubkey: people.sender,
    created_at: toUnixSeconds(createdAtMs),
    // Two bursts may have the same text and time.
    tags: [
      ['p', people.recipient],
      ['message-id', id],
    ],
    // A comment has one line, so it cannot imitate the link.
    content: [title, text, link].filter((line) => line !== '').join('\n'),
  };
}

/** Clients show the key of the payer as a name. An anonymous zap has a key that says nothing (NIP-57). */
function parseZap(zapRequestJson: string) {
  const zapRequest = nostrEventSchema.safeParse(tryParseJson(zapRequestJson)).data;
  if (zapRequest === undefined) {
    return null;
  }
  const isAnonymous = zapRequest.tags.some(([name]) => name === 'anon');
  return {
    comment: zapRequest.content,
    payer: isAnonymous ? null : `nostr:${npubEncode(zapRequest.pubkey)}`,
  };
}
