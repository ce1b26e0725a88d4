import { getSite } from '../net/site.ts';

/** A watched quote takes about 1 kB of memory and a share of the polls. */
const QUOTE_LIMITS = { total: 50_000, perSite: 10_000 };

/** A watched mint takes about 30 kB of memory. Some hosts offer a mint for each of their users. */
const MINT_LIMITS = { total: 2_000, perSite: 100 };

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
 * total, for all processes together. The limits of a site shrink as the totals fill, so that a few sites cannot use
 * up the totals.
 */
export class WatchBudget {
  readonly #options: WatchBudgetOptions;
  #total: WatchedCounts = { quotes: 0, mints: 0 };
  readonly #bySite = new Map<string, WatchedCounts>();
  readonly #watchedMints = new Set<string>();

  constructor(options: WatchBudgetOptions) {
    this.#options = options;
  }

  /** Returns whether another quote of the mint may be watched. */
  hasRoom(mintUrl: string): boolean {
    if (this.#options.operatorMints.includes(mintUrl)) {
      return true;
    }
    const site = this.#bySite.get(getSite(mintUrl, this.#options)) ?? { quotes: 0, mints: 0 };
    return (
      hasRoom(site.quotes, this.#total.quotes, QUOTE_LIMITS) &&
      (this.#watchedMints.has(mintUrl) || hasRoom(site.mints, this.#total.mints, MINT_LIMITS))
    );
  }

  /** Counts a quote that was just created. */
  add(mintUrl: string): void {
    this.#add(mintUrl, 1);
  }

  /** Replaces all counts. @param counts the watched quotes by mint URL, as the database counts them */
  setCounts(counts: ReadonlyMap<string, number>): void {
    this.#total = { quotes: 0, mints: 0 };
    this.#bySite.clear();
    this.#watchedMints.clear();
    for (const [mintUrl, quotes] of counts) {
      this.#add(mintUrl, quotes);
    }
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
}

function hasRoom(
  usedBySite: number,
  usedInTotal: number,
  { total, perSite }: typeof QUOTE_LIMITS,
): boolean {
  return usedBySite < perSite * (1 - usedInTotal / total);
}
