import { expect, it } from 'vitest';
import { createLogger } from '../../src/log.ts';
import type { Mints } from '../../src/mints/mints-module.ts';
import type { SiteSemaphore } from '../../src/net/site-semaphore.ts';
import type { ObservationRecorder } from '../../src/quotes/observation-recorder.ts';
import { USER_MINT_RECORDINGS } from '../../src/watcher/limits.ts';
import { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';

const database = useTestDatabase();

import { createMintPolicy } from '../helpers/mints/mint-policy.ts';

const OPERATOR_MINT_URL = 'https://operator.example';
const MINT_POLICY = createMintPolicy(OPERATOR_MINT_URL);
const USER_MINT_URLS = Array.from({ length: 10 }, (_, index) => `https://mint-${index}.example`);

it('records payments of two mints that users chose at a time, and those of the operator’s mint beside them', async () => {
  const recordingMintUrls: string[] = [];
  const recordingSlots = MINT_POLICY.createSlots(USER_MINT_RECORDINGS);
  for (const mintUrl of [...USER_MINT_URLS, OPERATOR_MINT_URL]) {
    pollPaidQuotes(mintUrl, ['quote'], recordingSlots, (url) => {
      recordingMintUrls.push(url);
      return new Promise(() => undefined);
    });
  }
  await eventually(() => expect(recordingMintUrls).toContain(OPERATOR_MINT_URL));
  expect(recordingMintUrls).toEqual([...USER_MINT_URLS.slice(0, 2), OPERATOR_MINT_URL]);
});

it('records the other payments of a batch at once, and repeats the one that the database rejects', async () => {
  const recorded: string[] = [];
  let isRejecting = true;
  const recordingSlots = MINT_POLICY.createSlots(USER_MINT_RECORDINGS);
  const watcher = pollPaidQuotes(
    OPERATOR_MINT_URL,
    ['first', 'rejected', 'last'],
    recordingSlots,
    async (_mintUrl, observations) => {
      if (isRejecting && observations.some(({ quoteId }) => quoteId === 'rejected')) {
        throw new Error('cannot sign the receipt');
      }
      recorded.push(...observations.map(({ quoteId }) => quoteId));
      return observations.map(({ quoteId, source }) => ({
        ...{ quoteId, source, state: 'PAID' as const, paidAtMs: Date.now() },
        ...{ isWatched: true, hasStateChanged: true, isRejected: false },
      }));
    },
  );
  await eventually(() => expect(recorded.toSorted()).toEqual(['first', 'last']));
  isRejecting = false;
  await eventually(() => {
    watcher.tick();
    expect(recorded.toSorted()).toEqual(['first', 'last', 'rejected']);
  });
});

/** Starts to watch quotes of a mint at which all quotes are paid, and polls them. */
function pollPaidQuotes(
  mintUrl: string,
  quoteIds: readonly string[],
  recordingSlots: SiteSemaphore,
  record: ObservationRecorder['record'],
): MintWatcher {
  const watcher = new MintWatcher(mintUrl, {
    mints: createFakeMints(),
    db: database.db,
    observationRecorder: { record },
    recordingSlots,
    onQuotesChanged: () => undefined,
    minPollIntervalMs: 0,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    log: createLogger('silent'),
  });
  const createdAtMs = Date.now() - 60_000;
  const expiresAtMs = Date.now() + 60_000;
  watcher.watchExisting(
    quoteIds.map((quoteId, i) => ({
      ...{ id: i + 1, quoteId, state: 'UNPAID' as const },
      ...{ createdAtMs, expiresAtMs, paidAtMs: null },
    })),
  );
  watcher.poll();
  return watcher;
}

/** All quotes are paid. */
function createFakeMints(): Mints {
  return {
    policy: MINT_POLICY,
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
