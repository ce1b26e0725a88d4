import { LRUCache } from 'lru-cache';
import { USER_MINT_POLLS } from './limits.ts';

/** More sites than have watched mints at a time. */
const MAX_REMEMBERED_SITES = 5_000;

/**
 * Shares the polls of mints that users chose among their sites: the site that has waited longest comes first, and a
 * site with many mints gets no more polls than a site with one while polls are scarce.
 */
export class PollTurns {
  /** When each site last had a turn, counted in turns. */
  readonly #lastTurns = new LRUCache<string, number>({ max: MAX_REMEMBERED_SITES });
  #turn = 0;

  /**
   * Selects the mints that may be polled now.
   *
   * @param waiting mints that are due; of one site, the mint that has waited longest is first
   */
  select<Mint extends { site: string }>(waiting: readonly Mint[]): Mint[] {
    const bySite = Map.groupBy(waiting, ({ site }) => site);
    const sites = [...bySite].sort(
      ([one], [other]) => this.#getLastTurn(one) - this.#getLastTurn(other),
    );
    const selected: Mint[] = [];
    for (let round = 0; round < USER_MINT_POLLS.maxPerSite; round += 1) {
      for (const [site, mints] of sites) {
        const mint = mints[round];
        if (mint !== undefined && selected.length < USER_MINT_POLLS.max) {
          this.#turn += 1;
          this.#lastTurns.set(site, this.#turn);
          selected.push(mint);
        }
      }
    }
    return selected;
  }

  #getLastTurn(site: string): number {
    return this.#lastTurns.get(site) ?? 0;
  }
}
