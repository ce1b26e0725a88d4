import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { computeShare } from '../net/address-prefixes.ts';
import {
  MAX_DAILY_QUOTES_PER_SITE,
  MAX_MINTS_PER_SITE,
  MAX_QUOTES_PER_SITE,
  MAX_UNPAID_QUOTES,
  MAX_USER_MINT_QUOTES,
} from './limits.ts';
import type { MintPolicy } from './mint-policy.ts';

/** Limits the watched quotes: the unpaid ones of a process, and at each site of user mints those of all processes. */
export class WatchBudget {
  readonly #policy: MintPolicy;
  readonly #dailyQuotesBySite: FixedWindowRateLimiter;
  #unpaidQuotes = 0;
  #userMintQuotes = 0;
  readonly #sites = new Map<string, { quotes: number; mints: Set<string> }>();

  constructor(policy: MintPolicy, monotonicMs: () => number) {
    this.#policy = policy;
    this.#dailyQuotesBySite = new FixedWindowRateLimiter(
      MAX_DAILY_QUOTES_PER_SITE,
      10_000,
      monotonicMs,
      24 * 60 * 60_000,
    );
  }

  /**
   * Returns the part of its limit of open invoices that an address may use at a mint: 1 until half of the budget is used,
   * then less, and 0 when the budget is used up.
   */
  getShare(mintUrl: string): number {
    if (this.#policy.isOperatorMint(mintUrl)) {
      return computeShare(this.#unpaidQuotes, MAX_UNPAID_QUOTES);
    }
    const site = this.#policy.getSite(mintUrl);
    const { quotes, mints } = this.#getUsage(site);
    const hasRoomForMint = mints.has(mintUrl) || mints.size < MAX_MINTS_PER_SITE;
    const dailyQuotes = this.#dailyQuotesBySite.getCount(site);
    return hasRoomForMint && dailyQuotes < MAX_DAILY_QUOTES_PER_SITE
      ? computeShare(quotes, this.#getSiteLimit())
      : 0;
  }

  addQuote(mintUrl: string): void {
    this.#unpaidQuotes += 1;
    if (!this.#policy.isOperatorMint(mintUrl)) {
      this.#dailyQuotesBySite.consume([{ key: this.#policy.getSite(mintUrl), factor: 1 }]);
      this.#addWatched(mintUrl, 1);
    }
  }

  /** Replaces the counts: the watched quotes of each user mint, and the unpaid quotes of the process that has most. */
  setCounts(quotesByUserMint: ReadonlyMap<string, number>, unpaidQuotes: number): void {
    this.#unpaidQuotes = unpaidQuotes;
    this.#userMintQuotes = 0;
    this.#sites.clear();
    for (const [mintUrl, quotes] of quotesByUserMint) {
      this.#addWatched(mintUrl, quotes);
    }
  }

  /** Returns the sites that have used more than 80 % of their budget; `all` stands for the unpaid quotes. */
  listLowSites(): string[] {
    const minLowQuotes = 0.8 * this.#getSiteLimit();
    const lowSites = [...this.#sites].filter(([, { quotes }]) => quotes > minLowQuotes);
    const siteNames = lowSites.map(([site]) => site);
    return this.#unpaidQuotes > 0.8 * MAX_UNPAID_QUOTES ? ['all', ...siteNames] : siteNames;
  }

  #addWatched(mintUrl: string, quotes: number): void {
    const usage = this.#getUsage(this.#policy.getSite(mintUrl));
    usage.quotes += quotes;
    usage.mints.add(mintUrl);
    this.#userMintQuotes += quotes;
  }

  #getUsage(site: string) {
    return this.#sites.getOrInsertComputed(site, () => ({ quotes: 0, mints: new Set<string>() }));
  }

  /** Returns at least 1, so that every site has room. */
  #getSiteLimit(): number {
    const share = computeShare(this.#userMintQuotes, MAX_USER_MINT_QUOTES);
    return Math.max(1, MAX_QUOTES_PER_SITE * share);
  }
}
