import { BackgroundJob } from '../../background-job.ts';
import type { Logger } from '../../log.ts';
import type { GuardedFetch } from '../../net/guarded-fetch.ts';
import { OutageTracker } from '../../outage-tracker.ts';
import type { FiatRate } from './amount.ts';

/** Free sources allow a few requests a minute. */
const FETCH_INTERVAL_MS = 2 * 60_000;

/** On a bad day, rates change by a percent in this time. */
const MAX_AGE_MS = 15 * 60_000;

/** Public sources send less than 1 kB. */
const MAX_RESPONSE_BYTES = 64 * 1024;

/** Far above the price of a bitcoin in any currency. Rates stay numbers that people can read. */
const MAX_PRICE = 1e15;

export interface CurrentRates {
  rates: readonly FiatRate[];
  ageMinutes: number;
}

interface FiatRatesContext {
  fetch: Pick<GuardedFetch, 'request'>;
  monotonicMs: () => number;
  log: Logger;
}

export type FiatRates = ReturnType<typeof createFiatRates>;

/** Fetches the prices of a bitcoin every two minutes from a source that the operator chose. */
export function createFiatRates(
  url: string,
  currencies: readonly string[],
  { fetch, monotonicMs, log }: FiatRatesContext,
) {
  const outage = new OutageTracker(monotonicMs);
  let latest = { rates: [] as FiatRate[], atMs: Number.NEGATIVE_INFINITY };
  const job = new BackgroundJob({
    work: async () => {
      const response = await fetch.request({ url, maxBodyBytes: MAX_RESPONSE_BYTES });
      if (response.outcome !== 'responded') {
        throw new Error(response.reason);
      }
      const rates = currencies.map((currency) => readRate(currency, response));
      latest = { rates, atMs: monotonicMs() };
      if (outage.recordSuccess()) {
        log.info({ event: 'fiat_rates_recovered' }, 'source of exchange rates works again');
      }
    },
    intervalMs: FETCH_INTERVAL_MS,
    onError: (error) => {
      if (outage.recordFailure()) {
        log.warn(
          { event: 'fiat_rates_unavailable', err: error },
          'cannot get exchange rates from FIAT_RATE_URL; will retry',
        );
      }
    },
  });
  return {
    job,
    /** Returns null if no rates were fetched within 15 minutes. */
    getCurrent(): CurrentRates | null {
      const { rates, atMs } = latest;
      const ageMs = monotonicMs() - atMs;
      return ageMs > MAX_AGE_MS ? null : { rates, ageMinutes: Math.floor(ageMs / 60_000) };
    },
  };
}

/** Reads `{ "bitcoin": { "eur": 58000 } }` (CoinGecko) or `{ "EUR": 58000 }` (mempool.space). */
function readRate(currency: string, { json, status }: { json: unknown; status: number }): FiatRate {
  const prices = (json ?? {}) as Record<string, unknown> & { bitcoin?: Record<string, unknown> };
  const price = prices.bitcoin?.[currency.toLowerCase()] ?? prices[currency];
  if (typeof price !== 'number' || !(price >= 1 && price <= MAX_PRICE)) {
    throw new Error(`response with HTTP status ${status} has no price in ${currency}`);
  }
  return { currency, satsPerUnit: 100_000_000 / price };
}
