import { type Payment, readPayer, STATE_TEXTS } from './payments.ts';

const HEADER = [
  'time',
  'amount_sat',
  'state',
  'mint',
  'comment',
  'zapper_npub',
  'quote_expires',
  'tag',
];

/**
 * Spreadsheets evaluate texts that start with these characters as formulas. Some split lines at semicolons or tabs, not
 * at commas, and then ignore the quotation marks here.
 */
const FORMULA_START = /^(?=[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?=[=+\-@＝＋－＠])/g;

/** Formats payments as CSV (RFC 4180). Leaves out the ids of quotes, because they are secret. */
export function formatPaymentsCsv(payments: readonly Payment[]): string {
  const rows = payments.map((payment) => {
    const { comment, npub } = readPayer(payment);
    return [
      formatTime(payment.paidAt),
      String(payment.amount),
      STATE_TEXTS[payment.state],
      payment.mintUrl,
      comment,
      npub ?? '',
      formatTime(payment.expiresAt),
      payment.tag ?? '',
    ];
  });
  return [HEADER, ...rows].map((row) => `${row.map(formatField).join(',')}\r\n`).join('');
}

function formatTime(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toISOString();
}

function formatField(text: string): string {
  const harmless = text.replace(FORMULA_START, "'");
  return /[",;\t\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
