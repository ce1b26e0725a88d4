import { useEffect, useState } from 'preact/hooks';
import { pause } from '../pause.ts';
import { readRetryAfterMs } from '../retry-after.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import type { Payment, Summary } from './payments.ts';
import { describeProblem } from './problem-text.ts';
import { SignerError } from './signer.ts';

export const PAGE_SIZE = 10;

const POLL_INTERVAL_MS = 2_000;

/** While the tab is hidden, the title shows how many payments have arrived. */
const HIDDEN_POLL_INTERVAL_MS = 10_000;
const DEFAULT_RETRY_SECONDS = 10;

/** The totals cost the server more than the page. Unless the page has changed, they are read again after this time. */
const MAX_SUMMARY_AGE_MS = 30_000;

export interface PaymentsPage {
  payments: readonly Payment[];
  offset: number;
  total: number;
  summary: Summary;
}

interface PaymentsState {
  /** `paused`: polling has stopped until the user acts. */
  status: 'connecting' | 'live' | 'reconnecting' | 'paused';
  problem: string | null;
  page: PaymentsPage | null;
  /** How many of the newest payments arrived last: while the user was away, or else with the last poll that found any. */
  newCount: number;
}

/** Keeps one page of the user's payments and the totals current, more slowly while the tab is hidden. */
export function usePayments(api: ApiClient) {
  const [state, setState] = useState<PaymentsState>({
    status: 'connecting',
    problem: null,
    page: null,
    newCount: 0,
  });
  // Each new object starts polling anew, even if the offset is the same.
  const [selection, setSelection] = useState({ offset: 0 });
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const update: typeof setState = (change) => void (signal.aborted || setState(change));
    void pollPayments(api, selection.offset, signal, update);
    return () => controller.abort();
  }, [api, selection]);
  useCountInTitle(state.newCount, () => setState((current) => ({ ...current, newCount: 0 })));
  return {
    ...state,
    showPage: (offset: number) => setSelection({ offset }),
    resume: () => setSelection({ ...selection }),
  };
}

const TITLE = document.title;

/** Counts new payments in the title while the tab is hidden. */
function useCountInTitle(newCount: number, onHide: () => void): void {
  useEffect(() => {
    document.title = document.hidden && newCount > 0 ? `(${newCount}) ${TITLE}` : TITLE;
    const onVisibilityChange = () => {
      document.title = TITLE;
      if (document.hidden) {
        onHide();
      }
    };
    document.addEventListener('visibilitychange', onVisibilityChange);
    return () => {
      document.title = TITLE;
      document.removeEventListener('visibilitychange', onVisibilityChange);
    };
  }, [newCount]);
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
    let pauseMs = document.hidden ? HIDDEN_POLL_INTERVAL_MS : POLL_INTERVAL_MS;
    try {
      const { data, metadata } = await api.request<{ quotes: Payment[] }>(
        `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${offset}`,
      );
      const currentPage = JSON.stringify({ data, metadata });
      if (currentPage !== previousPage || Date.now() >= summaryDueAtMs) {
        const { data: summary } = await api.request<Summary>('/api/v2/wallet/summary');
        summaryDueAtMs = Date.now() + MAX_SUMMARY_AGE_MS;
        previousPage = currentPage;
        const { total } = metadata;
        update(({ page, newCount, ...state }) => {
          const arrivedCount = page === null ? 0 : total - page.total;
          return {
            ...state,
            page: { payments: data.quotes, offset, total, summary },
            newCount:
              arrivedCount <= 0 ? newCount : arrivedCount + (document.hidden ? newCount : 0),
          };
        });
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
    await pause(pauseMs);
  }
}
