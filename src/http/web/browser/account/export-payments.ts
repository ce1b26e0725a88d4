import { readRetryAfterMs } from '../retry-after.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import { type Payment, readPayer, readPayments, STATE_TEXTS } from './payments.ts';

const PAGE_SIZE = 50;

const DEFAULT_RETRY_SECONDS = 5;

export async function exportPayments(
  api: ApiClient,
  signal: AbortSignal,
  onProgress: (readCount: number, total: number) => void,
): Promise<void> {
  // A new payment moves the others to later pages, so that some are read twice.
  const payments = new Map<string, Payment>();
  for (let offset = 0, total = 1; offset < total; offset += PAGE_SIZE) {
    const page = await readPage(api, offset);
    signal.throwIfAborted();
    for (const payment of page.payments) {
      payments.set(`${payment.mintUrl} ${payment.quoteId}`, payment);
    }
    ({ total } = page);
    onProgress(payments.size, total);
  }
  saveFile(`payments-${new Date().toISOString().slice(0, 10)}.csv`, [...payments.values()]);
}

/** Waits as long as the server demands if there are too many requests. */
async function readPage(api: ApiClient, offset: number): ReturnType<typeof readPayments> {
  try {
    return await readPayments(api, offset, PAGE_SIZE);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 429) {
      throw error;
    }
    const retryAfterMs = readRetryAfterMs(error, DEFAULT_RETRY_SECONDS);
    await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
    return readPage(api, offset);
  }
}

function saveFile(name: string, payments: readonly Payment[]): void {
  const url = URL.createObjectURL(
    new Blob([formatPaymentsCsv(payments)], { type: 'text/csv;charset=utf-8' }),
  );
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has opened the file when the next task runs.
  setTimeout(() => URL.revokeObjectURL(url), 0);
}

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
