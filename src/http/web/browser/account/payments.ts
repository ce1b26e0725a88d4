import { npubEncode } from 'nostr-tools/nip19';
import { readRetryAfterMs } from '../retry-after.ts';
import { type ApiClient, ApiError } from './api-client.ts';

/** From `GET /api/v2/wallet/quotes`. Times are Unix seconds, amounts sats. */
export interface Payment {
  paidAt: number;
  expiresAt: number;
  /** Absent if there is no deadline. */
  collectBy?: number;
  mintUrl: string;
  /** Secret, so it is never shown. */
  quoteId: string;
  amount: number;
  state: 'PAID' | 'ISSUED' | 'INFLIGHT';
  locked: boolean;
  comment?: string;
  tag?: string;
  zapRequest?: string;
}

/** From `GET /api/v2/wallet/summary`. */
export interface Summary {
  payments: number;
  amount: number;
  waiting: { payments: number; amount: number; locked: number; collectBy?: number };
  /** False if the user has older payments, which are not counted. */
  complete: boolean;
}

/** In CSV files, which programs read, in any language of the page. */
const STATES: Record<Payment['state'], string> = {
  INFLIGHT: 'arriving',
  PAID: 'waiting to be collected',
  ISSUED: 'collected',
};

/** Returns the payer's text, and the zapper's key if the payment is a zap; each is empty if there is none. */
export function readPayerNote(payment: Payment): { comment: string; npub: string } {
  const { comment = '', zapRequest } = payment;
  if (zapRequest === undefined) {
    return { comment, npub: '' };
  }
  try {
    const { content, pubkey } = JSON.parse(zapRequest);
    return { comment: comment || `${content ?? ''}`, npub: npubEncode(pubkey) };
  } catch {
    return { comment, npub: '' };
  }
}

export async function exportPayments(
  api: ApiClient,
  signal: AbortSignal,
  onProgress: (readCount: number, total: number) => void,
): Promise<void> {
  const payments = new Map<string, Payment>();
  for await (const { quotes, total } of listPages(api)) {
    signal.throwIfAborted();
    for (const payment of quotes) {
      payments.set(`${payment.mintUrl} ${payment.quoteId}`, payment);
    }
    onProgress(payments.size, total);
  }
  const date = new Date().toISOString().slice(0, 10);
  saveFile(`payments-${date}.csv`, formatPaymentsCsv([...payments.values()]));
}

const PAGE_SIZE = 50;
const DEFAULT_RETRY_SECONDS = 5;

/**
 * Reads the list of payments, newest first. A payment may be read twice, because new ones move it to a later page. Waits
 * if the server limits requests.
 */
export async function* listPages(
  api: ApiClient,
): AsyncGenerator<{ quotes: readonly Payment[]; total: number }> {
  for (let offset = 0, total = 1; offset < total; ) {
    try {
      const { data, metadata } = await api.request<{ quotes: Payment[] }>(
        `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${offset}`,
      );
      ({ total } = metadata);
      offset += PAGE_SIZE;
      yield { ...data, total };
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 429)) {
        throw error;
      }
      const retryAfterMs = readRetryAfterMs(error.headers, DEFAULT_RETRY_SECONDS);
      await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
    }
  }
}

function saveFile(name: string, content: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type: 'text/csv;charset=utf-8' }));
  link.download = name;
  link.click();
  // The browser has opened the file when the next task runs.
  setTimeout(() => URL.revokeObjectURL(link.href), 0);
}

const HEADER = 'time,amount_sat,state,mint,comment,zapper_npub,quote_expires,tag';

/** Where spreadsheets look for formulas: some also split quoted fields at semicolons, tabs and line breaks. */
const FORMULA_START = /^(?=[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?=[=+\-@＝＋－＠])/g;

export function formatPaymentsCsv(payments: readonly Payment[]): string {
  const rows = payments.map((payment) => {
    const { comment, npub } = readPayerNote(payment);
    return [
      formatTime(payment.paidAt),
      String(payment.amount),
      STATES[payment.state],
      payment.mintUrl,
      comment,
      npub,
      formatTime(payment.expiresAt),
      payment.tag ?? '',
    ];
  });
  const lines = [HEADER, ...rows.map((row) => row.map(formatField).join(','))];
  return lines.map((line) => `${line}\r\n`).join('');
}

function formatTime(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toISOString();
}

function formatField(text: string): string {
  const harmless = text.replace(FORMULA_START, "'");
  return /[",;\t\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
