import type { ApiClient } from './api-client.ts';
import { type LiveStatus, LiveUpdates } from './live-updates.ts';
import type { Payment } from './payments.ts';
import { SignerError } from './signer.ts';

/** Few, so that the rest of the account stays within reach. */
export const PAGE_SIZE = 10;

/** A wallet that collects many payments causes an update for each. */
const RELOAD_INTERVAL_MS = 2_000;

/** When the user returns to the page after this time, it reloads. */
const STALE_AFTER_MS = 60_000;

/** From `GET /api/v2/wallet/summary`. */
export interface Summary {
  payments: number;
  /** Sats. */
  amount: number;
  waiting: { payments: number; amount: number };
  /** Whether the totals include all payments. */
  complete: boolean;
}

export interface FeedState {
  /** Null until the first page is loaded. */
  page: { payments: readonly Payment[]; offset: number; total: number; summary: Summary } | null;
  liveStatus: LiveStatus;
  liveProblem: string | null;
  loadProblem: string | null;
  /** The payments that arrived since the previous load, newest first. */
  newPayments: readonly Payment[];
}

export const INITIAL_STATE: FeedState = {
  page: null,
  liveStatus: 'connecting',
  liveProblem: null,
  loadProblem: null,
  newPayments: [],
};

interface QuotesResponse {
  data: { quotes: Payment[] };
  metadata: { total: number };
}

export async function readPayments(
  api: ApiClient,
  offset: number,
  limit: number,
): Promise<{ payments: Payment[]; total: number }> {
  const path = `/api/v2/wallet/quotes?limit=${limit}&offset=${offset}`;
  const { data, metadata } = await api.request<QuotesResponse>(path);
  return { payments: data.quotes, total: metadata.total };
}

/** Keeps one page of the user's payments and the totals current. Loads nothing while the page is hidden. */
export class PaymentFeed {
  readonly #api: ApiClient;
  readonly #onChange: (state: FeedState) => void;
  readonly #liveUpdates: LiveUpdates;
  #state = INITIAL_STATE;
  #offset = 0;
  /** Counts the loads, because only the result of the latest one is shown. */
  #loadCount = 0;
  #loadedAtMs = 0;
  #newestPaidAt: number | null = null;
  #isReloadDue = false;
  #updatedQuoteIds = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(api: ApiClient, onChange: (state: FeedState) => void) {
    this.#api = api;
    this.#onChange = onChange;
    this.#liveUpdates = new LiveUpdates(api, {
      onUpdate: (quoteId) => {
        this.#updatedQuoteIds.add(quoteId);
        this.#scheduleReload();
      },
      onStatus: (liveStatus, problem) => {
        this.#setState({ liveStatus, liveProblem: problem ?? null });
        // Updates are not repeated, so some may have been missed.
        if (liveStatus === 'live') {
          this.#scheduleReload();
        }
      },
    });
    document.addEventListener('visibilitychange', this.#handleVisibility);
  }

  start(): void {
    void this.showPage(0);
    this.#liveUpdates.connect();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#loadCount += 1;
    document.removeEventListener('visibilitychange', this.#handleVisibility);
    this.#liveUpdates.close();
  }

  /** Starts live updates again after they were paused. */
  resume(): void {
    this.#liveUpdates.connect();
  }

  async showPage(offset: number): Promise<void> {
    this.#offset = offset;
    await this.reload();
  }

  async reload(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isReloadDue = false;
    this.#loadedAtMs = Date.now();
    this.#loadCount += 1;
    const loadNumber = this.#loadCount;
    const quoteIds = this.#updatedQuoteIds;
    this.#updatedQuoteIds = new Set();
    try {
      const visibleIds = await this.#load(() => loadNumber === this.#loadCount);
      if ([...quoteIds].some((quoteId) => !visibleIds.has(quoteId))) {
        this.#scheduleReload();
      }
    } catch (error) {
      if (loadNumber === this.#loadCount) {
        this.#showLoadProblem(error as Error);
      }
    }
  }

  /** @returns the ids of the quotes that were read */
  async #load(isCurrent: () => boolean): Promise<ReadonlySet<string>> {
    const offset = this.#offset;
    const firstPage = readPayments(this.#api, 0, PAGE_SIZE);
    const [{ payments: newest }, { payments, total }, { data: summary }] = await Promise.all([
      firstPage,
      offset === 0 ? firstPage : readPayments(this.#api, offset, PAGE_SIZE),
      this.#api.request<{ data: Summary }>('/api/v2/wallet/summary'),
    ]);
    if (isCurrent()) {
      const previousPaidAt = this.#newestPaidAt;
      this.#newestPaidAt = newest[0]?.paidAt ?? 0;
      this.#setState({
        page: { payments, offset, total, summary },
        loadProblem: null,
        newPayments:
          previousPaidAt === null ? [] : newest.filter(({ paidAt }) => paidAt > previousPaidAt),
      });
    }
    return new Set([...newest, ...payments].map(({ quoteId }) => quoteId));
  }

  #showLoadProblem(error: Error): void {
    this.#setState({ loadProblem: error.message });
    // Otherwise the next update would make the signer ask again.
    if (error instanceof SignerError) {
      this.#liveUpdates.pause(error.message);
    }
  }

  #scheduleReload(): void {
    this.#isReloadDue = true;
    clearTimeout(this.#timer);
    const dueMs = this.#loadedAtMs + RELOAD_INTERVAL_MS;
    this.#timer = setTimeout(
      () => {
        // Otherwise a signer may ask a user who does not see why.
        if (!document.hidden) {
          void this.reload();
        }
      },
      Math.max(0, dueMs - Date.now()),
    );
  }

  readonly #handleVisibility = () => {
    const isStale = Date.now() - this.#loadedAtMs > STALE_AFTER_MS;
    const isPaused = this.#state.liveStatus === 'paused';
    if (!document.hidden && !isPaused && (this.#isReloadDue || isStale)) {
      this.#scheduleReload();
    }
  };

  #setState(change: Partial<FeedState>): void {
    this.#state = { ...this.#state, ...change };
    this.#onChange(this.#state);
  }
}
