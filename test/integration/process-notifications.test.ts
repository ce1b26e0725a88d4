import { randomBytes } from 'node:crypto';
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { openLog } from '../../src/log.ts';
import {
  decodeIssued,
  decodeUpdates,
  encodeUpdates,
  ISSUED_CHANNEL,
  QUOTE_CHANNEL,
  quoteAnnouncer,
} from '../../src/quotes/quote-channel.ts';
import { QuoteSubscribers } from '../../src/quotes/quote-subscribers.ts';
import { openUpdateLog } from '../../src/quotes/update-log.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { allHeard, listenTo } from '../helpers/heard.ts';

/** Notifications between processes, through the database. */

const log = openLog('silent');
const ignore = () => undefined;

const database = useDatabase();
let store: Store;

beforeAll(() => {
  store = new Store(database.db);
});

it('a process reads the updates that follow payloads it cannot read', async () => {
  const subscribers = new QuoteSubscribers();
  const listening = await database.listen({
    channels: {
      [QUOTE_CHANNEL]: (payload) => {
        for (const update of decodeUpdates(payload)) {
          subscribers.tell(update.pubkey, update.quoteId);
        }
      },
    },
    onGap: ignore,
    onError: ignore,
    clock: Date.now,
  });
  onTestFinished(() => listening.close());
  const pubkey = newPubkey();
  const received = subscribe(subscribers, pubkey);
  const updates = encodeUpdates([{ id: 7, pubkey, quoteId: 'one' }]);
  await store.transaction((tx) =>
    tx.notify(QUOTE_CHANNEL, ['nonsense', '[["a","b"]]', ...updates]),
  );
  await allHeard(database);
  expect(received).toEqual(['one']);
});

it('a process commits, and receives later notifications, although it fails to handle one', async () => {
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
    onGap: ignore,
    onError,
    clock: Date.now,
  });
  onTestFinished(() => listening.close());
  await store.transaction(async (tx) => {
    await tx.notify('broken', ['1', '2']);
    await tx.notify('good', ['3']);
  });
  await allHeard(database);
  expect(received).toEqual(['3']);
  expect(onError.mock.calls).toEqual([[broken], [broken]]);
});

it('quotes that are issued at the same moment are announced together', async () => {
  const announced = await listenTo(database, ISSUED_CHANNEL);
  const announce = quoteAnnouncer(store, log);
  const quotes = Array.from({ length: 200 }, (_, index) => issuedQuote(`quote-${index}`));
  for (const quote of quotes) {
    announce.add(quote);
  }
  await announce.stop();
  const payloads = await announced();
  expect(payloads.flatMap(decodeIssued)).toEqual(quotes);
  // PostgreSQL commits transactions that notify one after the other.
  expect(payloads.length).toBeLessThan(5);
});

it('a process stops although the database does not answer', async () => {
  const unanswered = () => new Promise<never>(() => undefined);
  const announce = quoteAnnouncer({ transaction: unanswered }, log);
  const updateLog = openUpdateLog({ add: unanswered }, Date.now, log);
  announce.add(issuedQuote('q'));
  updateLog.add({ id: 1, pubkey: newPubkey() }, 1);
  await Promise.all([announce.stop(), updateLog.stop()]);
});

/** Subscribes like a socket. @returns the quote ids of its updates */
function subscribe(subscribers: QuoteSubscribers, pubkey: string): string[] {
  const quoteIds: string[] = [];
  subscribers.add(pubkey, {
    update: (quoteId) => quoteIds.push(quoteId) > 0,
    makeRoom: () => undefined,
  });
  return quoteIds;
}

function issuedQuote(quoteId: string) {
  return { id: 7, mintUrl: 'https://mint.example/path', quoteId, createdAtMs: 1, expiresAtMs: 2 };
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
