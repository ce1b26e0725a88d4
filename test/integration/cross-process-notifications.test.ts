import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { type Db, notify, transaction } from '../../src/database/transaction.ts';
import { createLogger } from '../../src/log.ts';
import {
  createQuoteAnnouncer,
  decodeQuoteAnnouncements,
  NEW_QUOTES_CHANNEL,
} from '../../src/quotes/process-notifications.ts';
import {
  recordNotifications,
  waitForNotificationDelivery,
} from '../helpers/database/database-notifications.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';

const log = createLogger('silent');
const noop = () => undefined;

const database = useTestDatabase();
let db: Db;

beforeAll(() => {
  db = database.db;
});

it('delivers later notifications after a handler throws, and reports the error', async () => {
  const received: string[] = [];
  const onError = vi.fn();
  const handlerError = new Error('handler failed');
  const listener = await database.listen({
    channels: {
      throwing: () => {
        throw handlerError;
      },
      working: (payload) => received.push(payload),
    },
    onMissedNotifications: noop,
    onError,
    clock: Date.now,
  });
  onTestFinished(() => listener.close());
  await transaction(db, async (tx) => {
    await notify(tx, 'throwing', ['1', '2']);
    await notify(tx, 'working', ['3']);
  });
  await waitForNotificationDelivery(database);
  expect(received).toEqual(['3']);
  expect(onError.mock.calls).toEqual([[handlerError], [handlerError]]);
});

it('needs few notifications to announce many quotes that are created at the same time', async () => {
  const takePayloads = await recordNotifications(database, NEW_QUOTES_CHANNEL);
  const announcer = createQuoteAnnouncer(database.db, log);
  const quotes = Array.from({ length: 200 }, (_, index) => newQuote(`quote-${index}`));
  for (const quote of quotes) {
    announcer.add(quote);
  }
  await announcer.stop();
  const payloads = await takePayloads();
  expect(payloads.flatMap(decodeQuoteAnnouncements)).toEqual(quotes);
  // PostgreSQL cannot commit transactions with notifications concurrently, so there must be few of them.
  expect(payloads.length).toBeLessThan(5);
});

function newQuote(quoteId: string) {
  return { id: 7, mintUrl: 'https://mint.example/path', quoteId, createdAtMs: 1, expiresAtMs: 2 };
}
