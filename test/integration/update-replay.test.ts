import { expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { QuoteSubscribers, UpdateSender } from '../../src/quotes/update-sender.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';

const MINUTE_MS = 60_000;

const database = useTestDatabase();

it('replays updates of payments that a process recorded whose clock had been set back by two minutes', async () => {
  const { db } = database;
  const nowMs = Date.now();
  const pubkey = randomPubkey();
  const quote = buildUnpaidQuote(pubkey, { createdAtMs: nowMs });
  await insertQuotes(db, [quote]);
  const recorder = createObservationRecorder(db, { clock: () => nowMs - 2 * MINUTE_MS });
  await recorder.record(quote.mintUrl, [{ quoteId: quote.quoteId, state: 'PAID', source: 'poll' }]);

  const subscribers = new QuoteSubscribers(0);
  const updates: string[] = [];
  subscribers.add(pubkey, {
    sendUpdate: (quoteId) => updates.push(quoteId) > 0,
    evict: () => undefined,
  });
  const log = createLogger('silent');
  const sender = new UpdateSender({ db, subscribers, clock: () => nowMs, log });
  onTestFinished(() => sender.stop());
  await sender.replayMissed(nowMs);
  expect(updates).toEqual([quote.quoteId]);
});
