import { LRUCache } from 'lru-cache';
import { USER_MINT_POLLS } from './limits.ts';

/**
 * Shares a limited number of polls among the sites of the mints that users chose. The site that has waited longest comes
 * first. While polls are scarce, a site with many mints gets no more of them than a site with one.
 */
export class PollTurns {
  /** The number of each site's last turn. Room for more sites than have watched mints at a time. */
  readonly #lastTurns = new LRUCache<string, number>({ max: 5_000 });
  #turn = 0;

  /** Selects the mints to poll. @param waiting mints with due quotes; of one site, the mint that has waited longest is first */
  select<Mint extends { site: string }>(waiting: readonly Mint[]): Mint[] {
    const bySite = Map.groupBy(waiting, ({ site }) => site);
    const getLastTurn = (site: string) => this.#lastTurns.get(site) ?? 0;
    const sites = [...bySite].sort(([one], [other]) => getLastTurn(one) - getLastTurn(other));
    const selected: Mint[] = [];
    for (let i = 0; i < USER_MINT_POLLS.maxPerSite; i += 1) {
      for (const [site, mints] of sites) {
        const mint = mints[i];
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
