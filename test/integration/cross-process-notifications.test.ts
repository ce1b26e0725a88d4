import { randomBytes } from 'node:crypto';
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { createLogger } from '../../src/log.ts';
import {
  createQuoteAnnouncer,
  decodeQuoteAnnouncements,
  decodeQuoteUpdates,
  encodeQuoteUpdates,
  NEW_QUOTES_CHANNEL,
  QUOTE_UPDATES_CHANNEL,
} from '../../src/quotes/quote-notifications.ts';
import { createUpdateLog, QuoteSubscribers } from '../../src/quotes/quote-updates.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { recordNotifications, waitForNotifications } from '../helpers/notification-barrier.ts';

/** Notifications between processes, through the database. */

const log = createLogger('silent');
const ignore = () => undefined;

const database = useDatabase();
let store: Store;

beforeAll(() => {
  store = new Store(database.db);
});

it('reads updates that follow unreadable payloads', async () => {
  const subscribers = new QuoteSubscribers();
  const listening = await database.listen({
    channels: {
      [QUOTE_UPDATES_CHANNEL]: (payload) => {
        for (const update of decodeQuoteUpdates(payload)) {
          subscribers.sendUpdate(update.pubkey, update.quoteId);
        }
      },
    },
    onMissedNotifications: ignore,
    onError: ignore,
    clock: Date.now,
  });
  onTestFinished(() => listening.close());
  const pubkey = newPubkey();
  const received = subscribe(subscribers, pubkey);
  const updates = encodeQuoteUpdates([{ id: 7, pubkey, quoteId: 'one' }]);
  await store.transaction((tx) =>
    tx.notify(QUOTE_UPDATES_CHANNEL, ['nonsense', '[["a","b"]]', ...updates]),
  );
  await waitForNotifications(database);
  expect(received).toEqual(['one']);
});

it('commits and receives later notifications after a handler failed', async () => {
  const received: string[] = [];
  const onError = vi.fn();
  const broken = new Error('broken');
  const listening = await database.listen({
    channels: {
      broken: () => {
        throw broken;
      },
      good: (payload) => received.push(payload),
    },
    onMissedNotifications: ignore,
    onError,
    clock: Date.now,
  });
  onTestFinished(() => listening.close());
  await store.transaction(async (tx) => {
    await tx.notify('broken', ['1', '2']);
    await tx.notify('good', ['3']);
  });
  await waitForNotifications(database);
  expect(received).toEqual(['3']);
  expect(onError.mock.calls).toEqual([[broken], [broken]]);
});

it('announces quotes that are created at the same moment together', async () => {
  const announced = await recordNotifications(database, NEW_QUOTES_CHANNEL);
  const announce = createQuoteAnnouncer(store, log);
  const quotes = Array.from({ length: 200 }, (_, index) => issuedQuote(`quote-${index}`));
  for (const quote of quotes) {
    announce.add(quote);
  }
  await announce.stop();
  const payloads = await announced();
  expect(payloads.flatMap(decodeQuoteAnnouncements)).toEqual(quotes);
  // PostgreSQL commits transactions that notify one after the other.
  expect(payloads.length).toBeLessThan(5);
});

it('stops although the database does not respond', async () => {
  const unanswered = () => new Promise<never>(() => undefined);
  const announce = createQuoteAnnouncer({ transaction: unanswered }, log);
  const updateLog = createUpdateLog({ add: unanswered }, Date.now, log);
  announce.add(issuedQuote('q'));
  updateLog.add({ id: 1, pubkey: newPubkey() }, 1);
  await Promise.all([announce.stop(), updateLog.stop()]);
});

/** Subscribes like a socket. @returns the quote ids of its updates */
function subscribe(subscribers: QuoteSubscribers, pubkey: string): string[] {
  const quoteIds: string[] = [];
  subscribers.add(pubkey, {
    sendUpdate: (quoteId) => quoteIds.push(quoteId) > 0,
    evict: () => undefined,
  });
  return quoteIds;
}

function issuedQuote(quoteId: string) {
  return { id: 7, mintUrl: 'https://mint.example/path', quoteId, createdAtMs: 1, expiresAtMs: 2 };
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
