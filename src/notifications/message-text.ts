import type { Clock } from '../clock.ts';
import { listPayments, type Message } from './select-message.ts';

/** The texts of messages that people read. */
type MessageTextKey =
  | 'sats'
  | 'notify.test'
  | 'notify.received'
  | 'notify.receivedFrom'
  | 'notify.deadline'
  | 'notify.comment'
  | 'notify.collectBy';

/** Returns English for an unknown language. */
export type TranslateMessage = (
  language: string,
  key: MessageTextKey,
  values?: Record<string, string | number>,
) => string;

export interface Reader {
  /** BCP 47, such as `de`. */
  language: string;
  /** IANA, such as `Europe/Berlin`. */
  timeZone: string;
}

/**
 * Writes what a person reads: a title, such as `21 sats received`, and a text, which may be empty.
 *
 * @param options.payer of a single payment; null if unknown
 */
export function writeMessageText(
  { translate, clock }: { translate: TranslateMessage; clock: Clock },
  { type, notifications }: Message,
  { language, timeZone }: Reader,
  { hasComment, payer }: { hasComment: boolean; payer: string | null },
): { title: string; text: string } {
  if (type === 'test') {
    return { title: translate(language, 'notify.test'), text: '' };
  }
  const payments = listPayments(notifications);
  const amountSat = payments.reduce((sum, payment) => sum + payment.amountSat, 0);
  const amount = translate(language, 'sats', { amount: amountSat });
  const receivedKey = payer === null ? 'notify.received' : 'notify.receivedFrom';
  const title = translate(language, type === 'deadline' ? 'notify.deadline' : receivedKey, {
    amount,
    count: payments.length,
    payer: payer ?? '',
  });
  const comments = payments.flatMap(({ comment }) => comment ?? []);
  const [comment] = payments.length === 1 && hasComment ? comments : [];
  const nowMs = clock();
  const deadlines = payments
    .map(({ collectByMs }) => collectByMs ?? 0)
    .filter((deadlineMs) => deadlineMs > nowMs);
  const parts = [
    comment === undefined ? '' : translate(language, 'notify.comment', { comment }),
    deadlines.length === 0
      ? ''
      : translate(language, 'notify.collectBy', {
          time: formatTime(Math.min(...deadlines), nowMs, { language, timeZone }),
        }),
  ];
  return { title, text: parts.filter((part) => part !== '').join(' ') };
}

/** Such as `14:30` if it is today, otherwise with the date. */
function formatTime(timeMs: number, nowMs: number, { language, timeZone }: Reader): string {
  const date = new Intl.DateTimeFormat(language, { dateStyle: 'short', timeZone });
  const time = new Intl.DateTimeFormat(language, { timeStyle: 'short', timeZone });
  const isToday = date.format(timeMs) === date.format(nowMs);
  return isToday ? time.format(timeMs) : `${date.format(timeMs)} ${time.format(timeMs)}`;
}
