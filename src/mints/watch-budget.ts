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

/**
 * Limits the watched quotes: at the operator's mints, the unpaid ones per process; at other mints, a number per site for
 * all processes together, which shrinks once half of the total of all sites is used.
 */
export class WatchBudget {
  readonly #policy: MintPolicy;
  readonly #createdBySite: FixedWindowRateLimiter;
  #unpaidQuotes = 0;
  #userMintQuotes = 0;
  readonly #bySite = new Map<string, { quotes: number; mints: Set<string> }>();

  constructor(policy: MintPolicy, monotonicMs: () => number) {
    this.#policy = policy;
    this.#createdBySite = new FixedWindowRateLimiter(
      MAX_DAILY_QUOTES_PER_SITE,
      10_000,
      monotonicMs,
      24 * 60 * 60_000,
    );
  }

  /** Returns the share of its bound of open invoices that an address may use at a mint ({@link computeShare}). */
  getShare(mintUrl: string): number {
    if (this.#policy.isOperatorMint(mintUrl)) {
      return computeShare(this.#unpaidQuotes, MAX_UNPAID_QUOTES);
    }
    const name = this.#policy.getSite(mintUrl);
    const site = this.#getSite(name);
    const hasRoomForMint = site.mints.has(mintUrl) || site.mints.size < MAX_MINTS_PER_SITE;
    const created = this.#createdBySite.getCount(name);
    return hasRoomForMint && created < MAX_DAILY_QUOTES_PER_SITE
      ? computeShare(site.quotes, this.#getSiteLimit())
      : 0;
  }

  add(mintUrl: string): void {
    this.#unpaidQuotes += 1;
    if (!this.#policy.isOperatorMint(mintUrl)) {
      this.#createdBySite.consume([{ key: this.#policy.getSite(mintUrl), factor: 1 }]);
      this.#add(mintUrl, 1);
    }
  }

  /** Returns the sites whose payers are refused soon, or `all`. `unpaidQuotes` is of the process that watches most. */
  setCounts(counts: ReadonlyMap<string, number>, unpaidQuotes: number): string[] {
    this.#unpaidQuotes = unpaidQuotes;
    this.#userMintQuotes = 0;
    this.#bySite.clear();
    for (const [mintUrl, quotes] of counts) {
      this.#add(mintUrl, quotes);
    }
    const isLow = (used: number, limit: number) => used > 0.8 * limit;
    const siteLimit = this.#getSiteLimit();
    const lowSites = [...this.#bySite].filter(([, { quotes }]) => isLow(quotes, siteLimit));
    return [
      ...(isLow(unpaidQuotes, MAX_UNPAID_QUOTES) ? ['all'] : []),
      ...lowSites.map(([name]) => name),
    ];
  }

  #add(mintUrl: string, quotes: number): void {
    const site = this.#getSite(this.#policy.getSite(mintUrl));
    site.quotes += quotes;
    site.mints.add(mintUrl);
    this.#userMintQuotes += quotes;
  }

  #getSite(name: string) {
    return this.#bySite.getOrInsertComputed(name, () => ({ quotes: 0, mints: new Set<string>() }));
  }

  /** Every site has room for some quotes. */
  #getSiteLimit(): number {
    const share = computeShare(this.#userMintQuotes, MAX_USER_MINT_QUOTES);
    return Math.max(1, MAX_QUOTES_PER_SITE * share);
  }
}
