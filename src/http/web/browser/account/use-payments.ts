import { useEffect, useState } from 'preact/hooks';
import { readRetryAfterMs } from '../retry-after.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import type { Payment } from './payments.ts';
import { describeProblem } from './problem-text.ts';
import { SignerError } from './signer.ts';

export const PAGE_SIZE = 10;

const POLL_INTERVAL_MS = 2_000;
const RETRY_SECONDS = 10;

/** The totals cost the server more than a page. They rarely change without a change on the page that is read. */
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
  /** `paused`: the user has to act. */
  status: 'connecting' | 'live' | 'reconnecting' | 'paused';
  problem: string | null;
  page: PaymentsPage | null;
  /** How many payments arrived last, while the user saw the page. */
  arrivedCount: number;
}

/** Keeps one page of the user's payments and the totals current, while the user sees the page. */
export function usePayments(api: ApiClient) {
  const [state, setState] = useState<PaymentsState>({
    status: 'connecting',
    problem: null,
    page: null,
    arrivedCount: 0,
  });
  const [wanted, setWanted] = useState({ offset: 0 });
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    void keepCurrent(api, wanted.offset, signal, (change) => signal.aborted || setState(change));
    return () => controller.abort();
  }, [api, wanted]);
  return {
    ...state,
    showPage: (offset: number) => setWanted({ offset }),
    resume: () => setWanted({ ...wanted }),
  };
}

async function keepCurrent(
  api: ApiClient,
  offset: number,
  signal: AbortSignal,
  change: (changeState: (state: PaymentsState) => PaymentsState) => void,
): Promise<void> {
  let shown = '';
  let summaryDueAtMs = 0;
  while (!signal.aborted) {
    let pauseMs = POLL_INTERVAL_MS;
    try {
      const { data, metadata } = await api.request<{ quotes: Payment[] }>(
        `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${offset}`,
      );
      const current = JSON.stringify({ data, metadata });
      if (current !== shown || Date.now() >= summaryDueAtMs) {
        const { data: summary } =
          await api.request<PaymentsPage['summary']>('/api/v2/wallet/summary');
        summaryDueAtMs = Date.now() + MAX_SUMMARY_AGE_MS;
        shown = current;
        const { total } = metadata;
        change(({ page, arrivedCount, ...state }) => ({
          ...state,
          page: { payments: data.quotes, offset, total, summary },
          arrivedCount: page && total > page.total ? total - page.total : arrivedCount,
        }));
      }
      change((state) => ({ ...state, status: 'live', problem: null }));
    } catch (error) {
      // Otherwise the signer would ask the user again and again.
      const needsUser =
        error instanceof SignerError ||
        (error instanceof ApiError && error.code === 'unauthorized');
      const status = needsUser ? 'paused' : 'reconnecting';
      change((state) => ({ ...state, status, problem: describeProblem(error) }));
      if (needsUser) {
        return;
      }
      const { headers } = error instanceof ApiError ? error : { headers: new Headers() };
      pauseMs = readRetryAfterMs(headers, RETRY_SECONDS);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    // A signer may otherwise ask a user who does not see why.
    while (document.hidden) {
      await new Promise((resolve) =>
        document.addEventListener('visibilitychange', resolve, { once: true }),
      );
    }
  }
}
