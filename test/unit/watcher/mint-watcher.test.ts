import { expect, it } from 'vitest';
import { createLogger } from '../../../src/log.ts';
import type { Mints } from '../../../src/mints/mints-module.ts';
import { createRecordingSlots, MintWatcher } from '../../../src/watcher/mint-watcher.ts';
import { eventually } from '../../helpers/eventually.ts';

const OPERATOR_MINT_URL = 'https://operator.example';
const USER_MINT_URLS = Array.from({ length: 10 }, (_, index) => `https://mint-${index}.example`);

it('records payments of two mints that users chose at a time, and those of the operator’s mint beside them', async () => {
  const recordingMintUrls: string[] = [];
  const recordingSlots = createRecordingSlots({
    operatorMints: [OPERATOR_MINT_URL],
    isPortPartOfSite: false,
  });
  for (const mintUrl of [...USER_MINT_URLS, OPERATOR_MINT_URL]) {
    const watcher = new MintWatcher({
      mintUrl,
      isOperatorMint: mintUrl === OPERATOR_MINT_URL,
      mints: createFakeMints(),
      quoteStore: { listWatchedByMint: async () => [] },
      observationRecorder: {
        record: (url) => {
          recordingMintUrls.push(url);
          return new Promise(() => undefined);
        },
      },
      recordingSlots,
      onQuotesChanged: () => undefined,
      minPollIntervalMs: 0,
      clock: Date.now,
      monotonicMs: () => performance.now(),
      log: createLogger('silent'),
    });
    const createdAtMs = Date.now() - 60_000;
    const expiresAtMs = Date.now() + 60_000;
    const times = { createdAtMs, expiresAtMs, paidAtMs: null };
    watcher.watchExisting([{ id: 1, quoteId: 'quote', state: 'UNPAID', ...times }]);
    watcher.poll();
  }
  await eventually(() => expect(recordingMintUrls).toContain(OPERATOR_MINT_URL));
  expect(recordingMintUrls).toEqual([...USER_MINT_URLS.slice(0, 2), OPERATOR_MINT_URL]);
});

/** All quotes are paid. */
function createFakeMints(): Mints {
  return {
    infoCache: { getKnown: async () => null },
    limiter: { getWaitMs: () => 0, hasLearnedLimit: () => false },
    pollClient: {
      checkQuotes: async (_mintUrl: string, quoteIds: readonly string[]) => ({
        outcome: 'found',
        observations: quoteIds.map((quoteId) => ({ quoteId, state: 'PAID' })),
      }),
    },
  } as unknown as Mints;
}
