import { computeShare } from '../net/address-prefixes.ts';
import type { MintPolicy } from './mint-policy.ts';

/** A watched quote takes less than 1 kB of memory, and a share of the polls. */
const QUOTE_LIMITS = { total: 60_000, perSite: 30_000 };

/**
 * Of all mints that one process watches, for quotes at the mints that the operator named. They take about 400 MB. Paid
 * quotes do not count, because payments cost money.
 */
const MAX_UNPAID_QUOTES = 500_000;

/** A watched mint takes about 30 kB of memory. Some hosts offer a mint for each of their users. */
const MINT_LIMITS = { total: 2_000, perSite: 100 };

/** This part of each total is divided among the sites in use, so that no number of full sites excludes another one. */
const GUARANTEED_FRACTION = 0.25;

/** The operator should know before payers are refused. */
const LOW_FREE_PART = 0.2;

/** In the list of sites with little room. */
const ALL_SITES = 'all';

interface WatchedCounts {
  quotes: number;
  mints: number;
}

/**
 * Limits the quotes that are watched: unpaid ones per process, and for all processes together those of the mints that users
 * chose per site ({@link MintPolicy.getSite}) and in total, as well as the number of these mints. The limits of a site shrink as
 * the totals fill, down to an equal share of {@link GUARANTEED_FRACTION}.
 */
export class WatchBudget {
  readonly #policy: MintPolicy;
  #unpaidQuotes = 0;
  #total: WatchedCounts = { quotes: 0, mints: 0 };
  readonly #bySite = new Map<string, WatchedCounts>();
  readonly #watchedMints = new Set<string>();

  constructor(policy: MintPolicy) {
    this.#policy = policy;
  }

  /**
   * Returns the share of its bound that an address may use at a mint ({@link computeShare}): 1 while the mint's budget
   * has enough room, 0 if it is used up, or if the mint is not watched yet and no further mint may be.
   */
  getShare(mintUrl: string): number {
    if (this.#policy.isOperatorMint(mintUrl)) {
      return computeShare(this.#unpaidQuotes, MAX_UNPAID_QUOTES);
    }
    const site = this.#bySite.get(this.#policy.getSite(mintUrl)) ?? { quotes: 0, mints: 0 };
    const canWatchMint =
      this.#watchedMints.has(mintUrl) ||
      site.mints < this.#getSiteLimit(this.#total.mints, MINT_LIMITS);
    return canWatchMint ? computeShare(site.quotes, this.#getSiteQuoteLimit()) : 0;
  }

  /** Counts a quote that was just created. */
  add(mintUrl: string): void {
    this.#unpaidQuotes += 1;
    this.#add(mintUrl, 1);
  }

  /**
   * Replaces all counts.
   *
   * @param counts the watched quotes by URL of a mint that users chose, as the database counts them
   * @param unpaidQuotes of all mints that one process watches; of the process that has most of them
   * @returns the sites with less than {@link LOW_FREE_PART} free
   */
  setCounts(counts: ReadonlyMap<string, number>, unpaidQuotes: number): string[] {
    this.#unpaidQuotes = unpaidQuotes;
    this.#total = { quotes: 0, mints: 0 };
    this.#bySite.clear();
    this.#watchedMints.clear();
    for (const [mintUrl, quotes] of counts) {
      this.#add(mintUrl, quotes);
    }
    const isLow = (used: number, limit: number) => used > limit * (1 - LOW_FREE_PART);
    const siteLimit = this.#getSiteQuoteLimit();
    const lowSites = [...this.#bySite].filter(([, { quotes }]) => isLow(quotes, siteLimit));
    return [
      ...(isLow(unpaidQuotes, MAX_UNPAID_QUOTES) ? [ALL_SITES] : []),
      ...lowSites.map(([name]) => name),
    ];
  }

  #add(mintUrl: string, quotes: number): void {
    if (this.#policy.isOperatorMint(mintUrl)) {
      return;
    }
    const site = this.#bySite.getOrInsertComputed(this.#policy.getSite(mintUrl), () => ({
      quotes: 0,
      mints: 0,
    }));
    const mints = Number(!this.#watchedMints.has(mintUrl));
    this.#watchedMints.add(mintUrl);
    for (const counts of [site, this.#total]) {
      counts.quotes += quotes;
      counts.mints += mints;
    }
  }

  #getSiteQuoteLimit(): number {
    return this.#getSiteLimit(this.#total.quotes, QUOTE_LIMITS);
  }

  #getSiteLimit(used: number, { total, perSite }: typeof QUOTE_LIMITS): number {
    const guaranteed = (total * GUARANTEED_FRACTION) / (this.#bySite.size + 1);
    return Math.max(perSite * (1 - used / total), Math.min(perSite, guaranteed));
  }
}
