import { describe, expect, it } from 'vitest';
import { PollTurns } from '../../../src/watcher/poll-turns.ts';

const MAX_POLLS_PER_SITE = 3;

const mintsOf = (site: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({ site, mintUrl: `https://${site}/${index}` }));

const sitesOf = (selected: readonly { site: string }[]) => selected.map(({ site }) => site);

describe('PollTurns', () => {
  it('limits the polls of one site, and takes its mints in the given order', () => {
    const waiting = mintsOf('a.example', 20);
    expect(new PollTurns().select(waiting)).toEqual(waiting.slice(0, MAX_POLLS_PER_SITE));
  });

  it('gives a site with one mint a turn for every turn of each site with many mints', () => {
    const turns = new PollTurns();
    const hostile = Array.from({ length: 19 }, (_, index) => mintsOf(`h${index}.example`, 50));
    const waiting = [...hostile.flat(), ...mintsOf('honest.example', 1)];
    const selections = Array.from({ length: 20 }, () => sitesOf(turns.select(waiting)));
    const honestTurns = selections.filter((sites) => sites.includes('honest.example'));
    expect(honestTurns).toHaveLength(6);
  });
});
