import { randomBytes } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { NotificationListener } from '../../src/notifications/notification-listener.ts';
import {
  encodeUpdates,
  ISSUED_CHANNEL,
  type IssuedQuote,
  QUOTE_CHANNEL,
  type QuoteUpdate,
} from '../../src/notifications/quote-channel.ts';
import { QuoteSubscribers } from '../../src/notifications/quote-subscribers.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { AnnounceQuotes } from '../../src/usecases/announce-quotes.ts';
import { KeepTold } from '../../src/usecases/keep-told.ts';
import { RetellUpdates } from '../../src/usecases/retell-updates.ts';
import { ChannelEar } from '../helpers/channel-ear.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { keepPayments } from '../helpers/paid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What processes tell each other through the database, and what each makes of it. */

let database: Database;
let store: Store;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

describe('an update that any process tells', () => {
  it('is heard behind anything else that somebody writes on the channel', async () => {
    const { told } = await listen();
    const pubkey = newPubkey();
    await store.transaction((tx) => tx.notify(QUOTE_CHANNEL, ['nonsense', '[["a","b"]]']));
    await tell([update(pubkey, 'one')]);
    await told.until(1);
    expect(told.all).toMatchObject([{ quoteId: 'one' }]);
  });
});

describe('a quote whose mint another process watches', () => {
  it('is announced to it together with others of the same moment', async () => {
    const { issued } = await listen();
    const ear = await ChannelEar.open(database, ISSUED_CHANNEL);
    const announce = announcer();
    for (let index = 0; index < 100; index += 1) {
      announce.announce(issuedQuote(`a${index}`));
      announce.announce(issuedQuote(`b${index}`, 'https://other.example/path'));
    }
    await issued.until(200);
    expect(issued.of('https://one.example')).toEqual(
      Array.from({ length: 100 }, (_, i) => `a${i}`),
    );
    expect(issued.of('https://other.example/path')).toHaveLength(100);
    // Two hundred notifications would have queued behind PostgreSQL's lock.
    expect((await ear.heard()).length).toBeLessThan(5);
  });
});

describe('a process that stops while the database does not answer', () => {
  it('ends all the same', async () => {
    const announce = announcer({ transaction: () => new Promise(() => undefined) });
    const unanswered = () => new Promise<never>(() => undefined);
    const events = { add: unanswered, paymentHashes: unanswered };
    const keep = new KeepTold(events, Date.now, silent());
    announce.announce(issuedQuote('q'));
    keep.told({ id: 1, pubkey: newPubkey() }, 1);
    await Promise.all([announce.stop(), keep.stop()]);
  });
});

describe('after a time in which nothing could be heard', () => {
  const GAP_AT_MS = 1_750_000_000_000;

  it('sockets hear again of every payment of that time, and of those shortly before', async () => {
    const { subscribers, told, retell } = retelling();
    const pubkey = newPubkey();
    const socket = hearing(subscribers, pubkey);
    const quoteIds = await keepChanged(pubkey, [-3_600_000, -1_000, 0, 5_000]);
    await keepChanged(newPubkey(), [0]);
    retell.begin(GAP_AT_MS);
    await told.until(3);
    expect(socket).toEqual(quoteIds.slice(1));
    expect(told.all.map(({ sockets }) => sockets)).toEqual([1, 1, 1]);
  });

  /** Payments that changed at these distances from the gap; their quote ids. */
  async function keepChanged(pubkey: string, atMs: readonly number[]): Promise<string[]> {
    const quoteIds = await keepPayments(database, pubkey, atMs.length);
    for (const [index, quoteId] of quoteIds.entries()) {
      const { id } = await database.db
        .selectFrom('quotes')
        .select('id')
        .where('quote_id', '=', quoteId)
        .executeTakeFirstOrThrow();
      await store.events.add([
        {
          ...{ id, pubkey, atMs: GAP_AT_MS + (atMs[index] ?? 0) },
          ...{ kind: 'state', from: 'UNPAID', to: 'PAID', source: 'poll' },
        },
      ]);
    }
    return quoteIds;
  }

  function retelling() {
    const { events } = store;
    const subscribers = new QuoteSubscribers();
    const told = new Told();
    const retell = new RetellUpdates({ events, subscribers, onTold: told.add, log: silent() });
    onTestFinished(() => retell.stop());
    return { subscribers, told, retell };
  }
});

/** A process that listens until the test ends. */
async function listen() {
  const subscribers = new QuoteSubscribers();
  const told = new Told();
  const issued = new Issued();
  const listener = new NotificationListener({
    listen: database.listen,
    subscribers,
    onTold: told.add,
    onIssued: issued.add,
    onRescan: () => undefined,
    onAddressChanged: () => undefined,
    onGap: () => undefined,
    clock: Date.now,
  });
  await listener.start();
  onTestFinished(() => listener.stop());
  return { subscribers, told, issued };
}

function announcer(given: Pick<Store, 'transaction'> = store): AnnounceQuotes {
  const announce = new AnnounceQuotes(given, silent());
  onTestFinished(() => announce.stop());
  return announce;
}

/** What comes one by one, and a promise of so many. */
class Coming<Item> {
  readonly all: Item[] = [];
  #wake = () => {};

  protected take(item: Item): void {
    this.all.push(item);
    this.#wake();
  }

  async until(count: number): Promise<void> {
    while (this.all.length < count) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

class Told extends Coming<QuoteUpdate & { sockets: number }> {
  readonly add = (given: QuoteUpdate, sockets: number) => this.take({ ...given, sockets });
}

class Issued extends Coming<IssuedQuote> {
  readonly add = (quotes: readonly IssuedQuote[]) => {
    for (const quote of quotes) {
      this.take(quote);
    }
  };

  of(mintUrl: string): string[] {
    return this.all.filter((each) => each.mintUrl === mintUrl).map((each) => each.quoteId);
  }
}

/** What a socket of this key is told. */
function hearing(subscribers: QuoteSubscribers, pubkey: string): string[] {
  const quoteIds: string[] = [];
  subscribers.add(pubkey, (quoteId) => quoteIds.push(quoteId) > 0);
  return quoteIds;
}

async function tell(updates: readonly QuoteUpdate[]): Promise<void> {
  await store.transaction((tx) => tx.notify(QUOTE_CHANNEL, encodeUpdates(updates)));
}

function issuedQuote(quoteId: string, mintUrl = 'https://one.example'): IssuedQuote {
  return { id: 7, mintUrl, quoteId, createdAtMs: 1, expiresAtMs: 2 };
}

function update(pubkey: string, quoteId: string): QuoteUpdate {
  return { id: 7, pubkey, quoteId };
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}

function silent() {
  return new LogCapture('silent').log;
}
