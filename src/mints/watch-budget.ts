import { getSite } from '../net/site.ts';

/** A watched quote takes about 1 kB of memory and a share of the polls. */
const QUOTE_LIMITS = { total: 60_000, perSite: 30_000 };

/** A watched mint takes about 30 kB of memory. Some hosts offer a mint for each of their users. */
const MINT_LIMITS = { total: 2_000, perSite: 100 };

/** This part of each total is divided among the sites in use, so that no number of full sites excludes another one. */
const GUARANTEED_FRACTION = 0.25;

/** The operator should know before payers are refused. */
const LOW_SHARE = 0.2;

interface WatchedCounts {
  quotes: number;
  mints: number;
}

interface WatchBudgetOptions {
  /** Normalised URLs of the mints that the operator named. They have no limits. */
  operatorMints: readonly string[];
  /** For development, when all mints run on one machine. */
  isPortPartOfSite: boolean;
}

/**
 * Limits the quotes and mints that are watched because users chose these mints, per site ({@link getSite}) and in
 * total, for all processes together. The limits of a site shrink as the totals fill, down to an equal share of
 * {@link GUARANTEED_FRACTION}.
 */
export class WatchBudget {
  readonly #options: WatchBudgetOptions;
  #total: WatchedCounts = { quotes: 0, mints: 0 };
  readonly #bySite = new Map<string, WatchedCounts>();
  readonly #watchedMints = new Set<string>();

  constructor(options: WatchBudgetOptions) {
    this.#options = options;
  }

  /**
   * Returns which fraction of the quotes of a mint's site is free, between 0 and 1. Returns 0 if the mint is not watched
   * yet and no further mint may be, and 1 for mints that the operator named.
   */
  getFreeShare(mintUrl: string): number {
    if (this.#options.operatorMints.includes(mintUrl)) {
      return 1;
    }
    const site = this.#bySite.get(getSite(mintUrl, this.#options)) ?? { quotes: 0, mints: 0 };
    const canWatchMint =
      this.#watchedMints.has(mintUrl) ||
      site.mints < this.#getSiteLimit(this.#total.mints, MINT_LIMITS);
    return canWatchMint ? this.#getFreeQuoteShare(site) : 0;
  }

  /** Counts a quote that was just created. */
  add(mintUrl: string): void {
    this.#add(mintUrl, 1);
  }

  /**
   * Replaces all counts.
   *
   * @param counts the watched quotes by mint URL, as the database counts them
   * @returns the sites with less than {@link LOW_SHARE} free
   */
  setCounts(counts: ReadonlyMap<string, number>): string[] {
    this.#total = { quotes: 0, mints: 0 };
    this.#bySite.clear();
    this.#watchedMints.clear();
    for (const [mintUrl, quotes] of counts) {
      this.#add(mintUrl, quotes);
    }
    const isLow = (site: WatchedCounts) => this.#getFreeQuoteShare(site) < LOW_SHARE;
    return [...this.#bySite].filter(([, site]) => isLow(site)).map(([name]) => name);
  }

  #add(mintUrl: string, quotes: number): void {
    if (this.#options.operatorMints.includes(mintUrl)) {
      return;
    }
    const site = this.#bySite.getOrInsertComputed(getSite(mintUrl, this.#options), () => ({
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

  #getFreeQuoteShare(site: WatchedCounts): number {
    return Math.max(0, 1 - site.quotes / this.#getSiteLimit(this.#total.quotes, QUOTE_LIMITS));
  }

  #getSiteLimit(used: number, { total, perSite }: typeof QUOTE_LIMITS): number {
    const guaranteed = (total * GUARANTEED_FRACTION) / (this.#bySite.size + 1);
    return Math.max(perSite * (1 - used / total), Math.min(perSite, guaranteed));
  }
}
