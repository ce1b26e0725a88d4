import { useEffect, useState } from 'preact/hooks';
import { readRetryAfterMs } from '../retry-after.ts';
import { type ApiClient, ApiError } from './api-client.ts';
import { type Payment, readPayments } from './payments.ts';
import { describeProblem } from './problem-text.ts';
import { SignerError } from './signer.ts';

/** Few, so that the rest of the account stays within reach. */
export const PAGE_SIZE = 10;

/** Fast enough to watch a payment arrive. */
const POLL_INTERVAL_MS = 2_000;
const RETRY_SECONDS = 10;

/** The totals cost the server more than a page. They rarely change without a change on the pages that are read. */
const MAX_SUMMARY_AGE_MS = 30_000;

export interface Summary {
  payments: number;
  amount: number;
  waiting: { payments: number; amount: number };
  /** Whether the totals include all payments. */
  complete: boolean;
}

interface PaymentsState {
  /** `paused`: the user has to act. */
  status: 'connecting' | 'live' | 'reconnecting' | 'paused';
  problem: string | null;
  page: { payments: readonly Payment[]; offset: number; total: number; summary: Summary } | null;
  newPayments: readonly Payment[];
  /** Unix seconds; null until the first page is loaded. */
  newestPaidAt: number | null;
}

const INITIAL_STATE: PaymentsState = {
  status: 'connecting',
  problem: null,
  page: null,
  newPayments: [],
  newestPaidAt: null,
};

/** Keeps one page of the user's payments and the totals current, while the user sees the page. */
export function usePayments(api: ApiClient) {
  const [state, setState] = useState(INITIAL_STATE);
  const [wanted, setWanted] = useState({ offset: 0 });
  useEffect(() => {
    const controller = new AbortController();
    void keepCurrent(api, wanted.offset, controller.signal, setState);
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
  setState: (change: (state: PaymentsState) => PaymentsState) => void,
): Promise<void> {
  const change = (changeState: (state: PaymentsState) => PaymentsState) =>
    signal.aborted || setState(changeState);
  let shown = '';
  let summaryDueAtMs = 0;
  while (!signal.aborted) {
    let pauseMs = POLL_INTERVAL_MS;
    try {
      const firstPage = readPayments(api, 0, PAGE_SIZE);
      const wantedPage = offset === 0 ? firstPage : readPayments(api, offset, PAGE_SIZE);
      const [{ payments: newest }, wanted] = await Promise.all([firstPage, wantedPage]);
      const current = JSON.stringify({ newest, wanted });
      if (current === shown && Date.now() < summaryDueAtMs) {
        change(setLive);
      } else {
        const { data: summary } = await api.request<{ data: Summary }>('/api/v2/wallet/summary');
        summaryDueAtMs = Date.now() + MAX_SUMMARY_AGE_MS;
        shown = current;
        change((state) => showLoaded(state, newest, { ...wanted, offset, summary }));
      }
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
      pauseMs =
        error instanceof ApiError ? readRetryAfterMs(error, RETRY_SECONDS) : RETRY_SECONDS * 1_000;
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    await waitUntilVisible();
  }
}

function setLive(state: PaymentsState): PaymentsState {
  return { ...state, status: 'live', problem: null };
}

function showLoaded(
  state: PaymentsState,
  newest: readonly Payment[],
  page: NonNullable<PaymentsState['page']>,
): PaymentsState {
  const { newPayments, newestPaidAt } = state;
  const arrived = newest.filter(({ paidAt }) => newestPaidAt !== null && paidAt > newestPaidAt);
  return {
    ...setLive(state),
    page,
    newPayments: arrived.length > 0 ? arrived : newPayments,
    newestPaidAt: newest[0]?.paidAt ?? 0,
  };
}

/** A signer may otherwise ask a user who does not see why. */
async function waitUntilVisible(): Promise<void> {
  while (document.hidden) {
    await new Promise((resolve) =>
      document.addEventListener('visibilitychange', resolve, { once: true }),
    );
  }
}
