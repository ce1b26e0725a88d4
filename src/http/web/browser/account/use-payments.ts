import { useEffect, useState } from 'preact/hooks';
import { readRetryAfterMs } from '../retry-after.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import type { Payment } from './payments.ts';
import { describeProblem } from './problem-text.ts';
import { SignerError } from './signer.ts';

export const PAGE_SIZE = 10;

const POLL_INTERVAL_MS = 2_000;
const DEFAULT_RETRY_SECONDS = 10;

/** The totals cost the server more than the page. Unless the page has changed, they are read again after this time. */
const MAX_SUMMARY_AGE_MS = 30_000;

export interface PaymentsPage {
  payments: readonly Payment[];
  offset: number;
  total: number;
  summary: {
    payments: number;
    amount: number;
    waiting: { payments: number; amount: number };
    complete: boolean;
  };
}

interface PaymentsState {
  /** `paused`: polling has stopped until the user acts. */
  status: 'connecting' | 'live' | 'reconnecting' | 'paused';
  problem: string | null;
  page: PaymentsPage | null;
  /** How many new payments the last poll found that found any; 0 if none has. */
  arrivedCount: number;
}

/** Keeps one page of the user's payments and the totals current, while the browser shows them. */
export function usePayments(api: ApiClient) {
  const [state, setState] = useState<PaymentsState>({
    status: 'connecting',
    problem: null,
    page: null,
    arrivedCount: 0,
  });
  // Each new object starts polling anew, even if the offset is the same.
  const [selection, setSelection] = useState({ offset: 0 });
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    void pollPayments(
      api,
      selection.offset,
      signal,
      (change) => signal.aborted || setState(change),
    );
    return () => controller.abort();
  }, [api, selection]);
  return {
    ...state,
    showPage: (offset: number) => setSelection({ offset }),
    resume: () => setSelection({ ...selection }),
  };
}

async function pollPayments(
  api: ApiClient,
  offset: number,
  signal: AbortSignal,
  update: (change: (state: PaymentsState) => PaymentsState) => void,
): Promise<void> {
  let previousPage = '';
  let summaryDueAtMs = 0;
  while (!signal.aborted) {
    let pauseMs = POLL_INTERVAL_MS;
    try {
      const { data, metadata } = await api.request<{ quotes: Payment[] }>(
        `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${offset}`,
      );
      const currentPage = JSON.stringify({ data, metadata });
      if (currentPage !== previousPage || Date.now() >= summaryDueAtMs) {
        const { data: summary } =
          await api.request<PaymentsPage['summary']>('/api/v2/wallet/summary');
        summaryDueAtMs = Date.now() + MAX_SUMMARY_AGE_MS;
        previousPage = currentPage;
        const { total } = metadata;
        update(({ page, arrivedCount, ...state }) => ({
          ...state,
          page: { payments: data.quotes, offset, total, summary },
          arrivedCount: page && total > page.total ? total - page.total : arrivedCount,
        }));
      }
      update((state) => ({ ...state, status: 'live', problem: null }));
    } catch (error) {
      const isUnauthorized = error instanceof ApiError && error.code === 'unauthorized';
      // Another attempt would make the signer ask the user again.
      const needsUser = error instanceof SignerError || isUnauthorized;
      const status = needsUser ? 'paused' : 'reconnecting';
      update((state) => ({ ...state, status, problem: describeProblem(error) }));
      if (needsUser) {
        return;
      }
      const headers = error instanceof ApiError ? error.headers : new Headers();
      pauseMs = readRetryAfterMs(headers, DEFAULT_RETRY_SECONDS);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    // While the tab is hidden, the user would not see why a signer asks for a signature.
    while (document.hidden) {
      await new Promise((resolve) =>
        document.addEventListener('visibilitychange', resolve, { once: true }),
      );
    }
  }
}
