import { expect, it } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { MintAnomalyCounter } from '../../src/mints/mint-anomalies.ts';
import type { Mints } from '../../src/mints/mints-module.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { USER_MINT_RECORDINGS } from '../../src/watcher/limits.ts';
import { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { createMintPolicy } from '../helpers/mints/mint-policy.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

const MINT_URL = 'https://operator.example';

const database = useTestDatabase();

it('records the other payments of a batch at once, and repeats the one that the database rejects', async () => {
  const quotes = [1, 2, 3].map(() => buildUnpaidQuote(randomPubkey(), { mintUrl: MINT_URL }));
  const [, rejected] = quotes;
  await insertQuotes(database.db, quotes);
  let isRejecting = true;
  const log = createLogger('silent');
  const policy = createMintPolicy(MINT_URL);
  const watcher = new MintWatcher(MINT_URL, {
    mints: createFakeMints(policy),
    db: database.db,
    recording: {
      db: database.db,
      anomalies: new MintAnomalyCounter(log),
      zaps: {
        signReceipts: async (_tx, _mintUrl, payments) => {
          if (isRejecting && payments.some(({ pubkey }) => pubkey === rejected?.pubkey)) {
            throw new Error('cannot sign the receipt');
          }
          return { signed: [], refused: [] };
        },
        onReceiptsCreated: () => undefined,
      },
      clock: Date.now,
      log,
    },
    recordingSlots: policy.createSlots(USER_MINT_RECORDINGS),
    onQuotesChanged: () => undefined,
    minPollIntervalMs: 0,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    log,
  });
  const tickUntilPaid = async (expected: readonly { quoteId: string }[]) => {
    await eventually(async () => {
      watcher.tick();
      const paid = database.db.selectFrom('quotes').select('quote_id').where('state', '=', 'PAID');
      const quoteIds = (await paid.execute()).map((row) => row.quote_id);
      expect(quoteIds.toSorted()).toEqual(expected.map(({ quoteId }) => quoteId).toSorted());
    });
  };
  await tickUntilPaid(quotes.filter((quote) => quote !== rejected));
  isRejecting = false;
  await tickUntilPaid(quotes);
  await watcher.stop();
});

/** All quotes are paid. */
function createFakeMints(policy: Mints['policy']): Mints {
  return {
    policy,
    infoCache: { getKnown: async () => null, refresh: async () => null },
    limiter: { hasRefusedLately: () => false },
    pollClient: {
      checkQuotes: async (_mintUrl: string, quoteIds: readonly string[]) => ({
        outcome: 'found',
        observations: quoteIds.map((quoteId) => ({ quoteId, state: 'PAID' })),
      }),
    },
  } as unknown as Mints;
}
