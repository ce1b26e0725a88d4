import { LRUCache } from 'lru-cache';
import { USER_MINT_POLLS } from './limits.ts';

/**
 * Shares the polls of mints that users chose among their sites: the site that has waited longest comes first, and a
 * site with many mints gets no more polls than a site with one while polls are scarce.
 */
export class PollTurns {
  /** Counted in turns. More sites than have watched mints at a time. */
  readonly #lastTurns = new LRUCache<string, number>({ max: 5_000 });
  #turn = 0;

  /** Selects from mints that are due. Of one site, the mint that has waited longest comes first. */
  select<Mint extends { site: string }>(waiting: readonly Mint[]): Mint[] {
    const bySite = Map.groupBy(waiting, ({ site }) => site);
    const getLastTurn = (site: string) => this.#lastTurns.get(site) ?? 0;
    const sites = [...bySite].sort(([one], [other]) => getLastTurn(one) - getLastTurn(other));
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
}
