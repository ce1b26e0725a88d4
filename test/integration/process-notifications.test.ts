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
import { unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What processes tell each other through the database, and what each makes of it. */

let database: Database;
let store: Store;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

describe('an update that any process tells', () => {
  it('reaches each socket of its recipient, and nobody else’s', async () => {
    const { subscribers, told } = await listen();
    const [alice, bob] = [newPubkey(), newPubkey()];
    const heard = [hearing(subscribers, alice), hearing(subscribers, alice)];
    const elsewhere = hearing(subscribers, bob);
    await tell([update(alice, 'one'), update(alice, 'two')]);
    await told.until(2);
    expect(heard).toEqual([
      ['one', 'two'],
      ['one', 'two'],
    ]);
    expect(elsewhere).toEqual([]);
    expect(told.all).toEqual([
      { ...update(alice, 'one'), sockets: 2 },
      { ...update(alice, 'two'), sockets: 2 },
    ]);
  });

  it('is told to nobody where its recipient has left', async () => {
    const { subscribers, told } = await listen();
    const pubkey = newPubkey();
    const leave = subscribers.add(pubkey, () => {
      throw new Error('this socket has left');
    });
    leave();
    await tell([update(pubkey, 'late')]);
    await told.until(1);
    expect(told.all).toEqual([{ ...update(pubkey, 'late'), sockets: 0 }]);
    expect(subscribers.pubkeys()).toEqual([]);
  });

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

  it('is announced by a process that is stopping', async () => {
    const { issued } = await listen();
    const announce = announcer();
    announce.announce(issuedQuote('last'));
    await announce.stop();
    await issued.until(1);
    expect(issued.of('https://one.example')).toEqual(['last']);
  });

  it('is not announced while the database fails, which is logged as one warning', async () => {
    const { issued } = await listen();
    const capture = new LogCapture('debug');
    const away = new AwayForAWhile(2);
    const announce = announcer({
      store: { transaction: (work) => away.orElse(() => store.transaction(work)) },
      capture,
    });
    for (const quoteId of ['first', 'second']) {
      announce.announce(issuedQuote(quoteId));
      await away.nextFailure();
    }
    announce.announce(issuedQuote('third'));
    await issued.until(1);
    expect(issued.of('https://one.example')).toEqual(['third']);
    expect(capture.lines.filter((line) => line.includes('"level":40'))).toHaveLength(1);
  });

  it('waits in memory up to a bound, while the database does not answer', async () => {
    const { issued } = await listen();
    const hanging = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const announce = announcer({
      store: {
        transaction: async (work) => {
          asked.resolve();
          await hanging.promise;
          return await store.transaction(work);
        },
      },
    });
    announce.announce(issuedQuote('under way'));
    await asked.promise;
    for (let index = 0; index < 10_005; index += 1) {
      announce.announce(issuedQuote(`q${index}`));
    }
    hanging.resolve();
    await issued.until(10_001);
    const quoteIds = issued.of('https://one.example');
    expect(quoteIds.slice(0, 2)).toEqual(['under way', 'q5']);
    expect(quoteIds.at(-1)).toBe('q10004');
  });
});

describe('a process that stops while the database does not answer', () => {
  it('ends all the same', async () => {
    const announce = announcer({ store: { transaction: () => new Promise(() => undefined) } });
    const unanswered = () => new Promise<never>(() => undefined);
    const events = { add: unanswered, paymentHashes: unanswered };
    const keep = new KeepTold(events, Date.now, silent());
    announce.announce(issuedQuote('q'));
    keep.told({ id: 1, pubkey: newPubkey() }, 1);
    await Promise.all([announce.stop(), keep.stop()]);
  });
});

describe('an update that was sent', () => {
  it('is found in the history of its quote, with the time and the number of sockets', async () => {
    const [first, second] = [await keepUnpaid(), await keepUnpaid()];
    const keep = new KeepTold(store.events, () => 1_750_000_000_123, silent());
    keep.told(first, 2);
    keep.told(second, 1);
    keep.told(first, 1);
    await keep.stop();
    expect(await store.events.list(first.id)).toEqual([
      { kind: 'told', atMs: 1_750_000_000_123, sockets: 2 },
      { kind: 'told', atMs: 1_750_000_000_123, sockets: 1 },
    ]);
    expect(await store.events.list(second.id)).toHaveLength(1);
  });

  it('is found there soon, without the end of the process', async () => {
    const quote = await keepUnpaid();
    const kept = Promise.withResolvers<void>();
    const keep = new KeepTold(
      {
        add: async (events) => {
          await store.events.add(events);
          kept.resolve();
        },
        paymentHashes: (ids) => store.events.paymentHashes(ids),
      },
      Date.now,
      silent(),
    );
    onTestFinished(() => keep.stop());
    keep.told(quote, 1);
    await kept.promise;
    expect(await store.events.list(quote.id)).toMatchObject([{ kind: 'told', sockets: 1 }]);
  });

  it('to nobody leaves nothing there', async () => {
    const quote = await keepUnpaid();
    const keep = new KeepTold(store.events, Date.now, silent());
    keep.told(quote, 0);
    await keep.stop();
    expect(await store.events.list(quote.id)).toEqual([]);
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

  it('they hear of it however often the database goes away meanwhile', async () => {
    const away = new AwayForAWhile(2);
    const { subscribers, told, retell } = retelling({
      changedSince: (...asked) => away.orElse(() => store.events.changedSince(...asked)),
    });
    const pubkey = newPubkey();
    const socket = hearing(subscribers, pubkey);
    const quoteIds = await keepChanged(pubkey, [0]);
    retell.begin(GAP_AT_MS);
    await told.until(1);
    expect(socket).toEqual(quoteIds);
    expect(away.failures).toBe(2);
  });

  it('and once more, where it happens again before all is told', async () => {
    const asked: number[] = [];
    const { subscribers, told, retell } = retelling({
      changedSince: async (sinceMs, pubkeys) => {
        asked.push(sinceMs);
        const changed = await store.events.changedSince(sinceMs, pubkeys);
        if (asked.length === 1) {
          retell.begin(GAP_AT_MS + 1_000_000);
          retell.begin(GAP_AT_MS + 900_000);
        }
        return changed;
      },
    });
    const pubkey = newPubkey();
    const socket = hearing(subscribers, pubkey);
    const quoteIds = await keepChanged(pubkey, [0, 950_000]);
    retell.begin(GAP_AT_MS);
    await told.until(3);
    expect(socket).toEqual([...quoteIds, quoteIds[1]]);
    expect(asked).toHaveLength(2);
  });

  it('thousands of keys are told too', async () => {
    const { subscribers, told, retell } = retelling();
    const pubkeys = Array.from({ length: 2_500 }, newPubkey);
    const sockets = pubkeys.map((pubkey) => hearing(subscribers, pubkey));
    const [first] = await keepChanged(pubkeys[0] ?? '', [0]);
    const [last] = await keepChanged(pubkeys.at(-1) ?? '', [0]);
    retell.begin(GAP_AT_MS);
    await told.until(2);
    expect([sockets[0], sockets.at(-1)]).toEqual([[first], [last]]);
  });

  it('a process that stops meanwhile asks no more', async () => {
    const away = new AwayForAWhile(Number.POSITIVE_INFINITY);
    const { subscribers, retell } = retelling({ changedSince: () => away.orElse(async () => []) });
    hearing(subscribers, newPubkey());
    retell.begin(GAP_AT_MS);
    await away.nextFailure();
    await retell.stop();
    const failures = away.failures;
    retell.begin(GAP_AT_MS);
    await retell.stop();
    expect(away.failures).toBe(failures);
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

  function retelling(events: Pick<Store['events'], 'changedSince'> = store.events) {
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
    onQuoteChanged: () => undefined,
    onTold: told.add,
    onIssued: issued.add,
    onRecipientChanged: () => undefined,
    onGap: () => undefined,
    clock: Date.now,
  });
  await listener.start();
  onTestFinished(() => listener.stop());
  return { subscribers, told, issued };
}

function announcer({
  store: given = store,
  capture = new LogCapture('silent'),
}: {
  store?: Pick<Store, 'transaction'>;
  capture?: LogCapture;
} = {}): AnnounceQuotes {
  const announce = new AnnounceQuotes(given, capture.log);
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

/** A database that fails so many times before it is back. */
class AwayForAWhile {
  failures = 0;
  readonly #times: number;
  #failed = Promise.withResolvers<void>();

  constructor(times: number) {
    this.#times = times;
  }

  async orElse<T>(work: () => Promise<T>): Promise<T> {
    if (this.failures < this.#times) {
      this.failures += 1;
      this.#failed.resolve();
      throw new Error('the database is away');
    }
    return await work();
  }

  async nextFailure(): Promise<void> {
    await this.#failed.promise;
    this.#failed = Promise.withResolvers();
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

async function keepUnpaid(): Promise<{ id: number; pubkey: string }> {
  const quote = unpaidQuote(newPubkey());
  await store.quotes.insert(quote);
  return await database.db
    .selectFrom('quotes')
    .select(['id', 'pubkey'])
    .where('quote_id', '=', quote.quoteId)
    .executeTakeFirstOrThrow();
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}

function silent() {
  return new LogCapture('silent').log;
}
