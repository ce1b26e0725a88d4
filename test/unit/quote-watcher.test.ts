import { expect, it } from 'vitest';
import { openLog } from '../../src/log.ts';
import type { MintLeases } from '../../src/watcher/mint-leases.ts';
import type { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { QuoteWatcher } from '../../src/watcher/quote-watcher.ts';

const OWN_MINT = 'https://own.example';

it('polls the operator’s mint at each scan, however many mints of users do not answer', async () => {
  const mints = [
    ...Array.from({ length: 100 }, (_, index) => `https://${index}.example`),
    OWN_MINT,
  ];
  const polls = new Map<string, number>();
  const scanned = Promise.withResolvers<void>();
  const watcher = new QuoteWatcher({
    ownMints: [OWN_MINT],
    quotes: {
      watchedMints: async () => mints.map((mintUrl) => ({ mintUrl, owner: 'this process' })),
      newestId: async () => 0,
      listNew: async () => [],
    },
    leases: {
      renew: async () => true,
      share: async () => ({ mine: new Set(mints), elsewhere: new Set(), release: [] }),
      release: async () => undefined,
      leave: async () => undefined,
    } as unknown as MintLeases,
    watchMint: (mintUrl) =>
      ({
        isMintSilent: true,
        isPolling: false,
        tick: (mayPoll: boolean) => {
          polls.set(mintUrl, (polls.get(mintUrl) ?? 0) + (mayPoll ? 1 : 0));
          if (polls.get(OWN_MINT) === 10) {
            scanned.resolve();
          }
        },
        stop: async () => undefined,
      }) as unknown as MintWatcher,
    announce: () => undefined,
    scanIntervalMs: 1,
    monotonicMs: () => performance.now(),
    log: openLog('silent'),
  });
  await watcher.start();
  await scanned.promise;
  await watcher.stop();
  expect(Math.max(...polls.values())).toBe(polls.get(OWN_MINT));
  expect(polls.get('https://0.example')).toBeLessThan(6);
});
