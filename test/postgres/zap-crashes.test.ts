import { sql } from 'kysely';
import { verifyEvent } from 'nostr-tools';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import type { Database } from '../../src/store/database.ts';
import type { Schema } from '../../src/store/schema.ts';
import { createDataDir, createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';
import {
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
  zapQuery,
  zapRequest,
} from '../helpers/zap-requests.ts';

/**
 * A process is killed at each step from a payment to its receipt at every relay. After a restart each
 * relay has the receipt, and it is one and the same everywhere.
 */

const AMOUNT_MSAT = 21_000;

/** Two starts of a process, and what a busy machine takes. */
const TEST_TIMEOUT_MS = 240_000;

/** A mint is asked within seconds where its socket did not tell. */
const REACHED_WITHIN_MS = 60_000;

/** Longer than the first rest of a relay that strangers name, and an answer that never comes before it. */
const DELIVERED_WITHIN_MS = 120_000;

let mint: TestMint;
/** Where the receipt is stopped on its way; named by the zap request, as the second is. */
let first: TestRelay;
let second: TestRelay;
/** Gets every receipt, whatever a zap request names. */
let operators: TestRelay;
let relays: TestRelay[];

beforeEach(async () => {
  mint = await TestMint.start();
  first = await TestRelay.start();
  second = await TestRelay.start();
  operators = await TestRelay.start();
  relays = [first, second, operators];
});

afterEach(async () => {
  await Promise.all(relays.map((relay) => relay.close()));
  await mint.close();
});

/** A place at which a zap stands still on its way. */
interface Stop {
  /** Resolves when it does. */
  reached: Promise<unknown>;
  /** What was in its way is gone. */
  clear: () => unknown;
}

type Step = [step: string, stop: () => Stop | Promise<Stop>];

/** A start on the embedded database takes its time: these are tried there, too. */
const ON_BOTH_DATABASES: Step[] = [
  ['while a relay holds the handshake', stopAtHandshake],
  [
    'while a relay has the receipt and has not stored it',
    () => stopAtFate('ignore', () => first.timesSent.size > 0),
  ],
  ['between two relays', stopBetween],
];

const AT_THE_RELAY: Step[] = [
  ...ON_BOTH_DATABASES,
  ['as its connection reaches a relay', () => stopAt(() => first.connections.opened > 0)],
  ['while a relay looks at its AUTH', stopAtAuth],
  ['as a relay takes its AUTH', stopAfterAuth],
  [
    'while a relay has stored it and does not say so',
    () => stopAtFate('store_and_ignore', () => first.events.size > 0),
  ],
  ['as a relay says OK', () => stopAt(() => first.events.size > 0)],
];

describe('a process on PostgreSQL that is killed', () => {
  let testDatabase: TestDatabase;
  let database: Database;
  /** Ends what a test keeps locked, however the test ends. */
  let unlock: () => Promise<void>;

  beforeEach(async () => {
    testDatabase = await createTestDatabase();
    database = await testDatabase.open();
    unlock = async () => undefined;
  });

  afterEach(async () => {
    await unlock();
    await database.close();
    await testDatabase.drop();
  });

  const steps: Step[] = [
    [
      'as the mint says that it is paid, before that is written',
      () => lockTable('zap_receipts', 'insert into zap_receipts '),
    ],
    ...AT_THE_RELAY,
    ['when the last relay has said OK, before that is written', lockBeforeLastWord],
  ];

  it.each(steps)(
    '%s, leaves a receipt that each relay has exactly once after a restart',
    async (_step, stop) => {
      const zap = await crash(env(), stop);
      const sentBefore = relays.map(({ timesSent }) => totalOf(timesSent));
      const known = await deliveries();
      await forgetTheDead();
      const after = start(env());
      await expectOneReceipt(zap, await originOf(after));
      await vi.waitFor(
        async () => {
          expect(await deliveries()).toEqual(new Map(relays.map(({ url }) => [url, 'accepted'])));
        },
        { timeout: DELIVERED_WITHIN_MS },
      );
      await after.stop();
      expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]);
      expect(await countOf(sql`select id from zap_receipts`)).toBe(1);
      for (const [index, { url, timesSent }] of relays.entries()) {
        if (known.get(url) === 'accepted') {
          expect(totalOf(timesSent)).toBe(sentBefore[index]);
        }
      }
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'leaves its relays to another process that runs already',
    async () => {
      const other = await originOf(start(env()));
      const zap = await crash(env(), () => stopAtFate('ignore', () => first.timesSent.size > 0));
      await forgetTheDead();
      await expectOneReceipt(zap, other);
    },
    TEST_TIMEOUT_MS,
  );

  function env(): Record<string, string> {
    if (testDatabase.location.kind !== 'postgres') {
      throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
    }
    return { DATABASE_URL: testDatabase.location.url, JWT_SECRET: TEST_JWT_SECRET };
  }

  /** As if a process that is dead had been so for long: what it had is free. */
  async function forgetTheDead(): Promise<void> {
    await sql`
      update watch_processes set alive_until = clock_timestamp() - interval '1 second'
    `.execute(database.db);
  }

  /** How the receipt stands with each relay, by url. */
  async function deliveries(): Promise<Map<string, string>> {
    const rows = await database.db
      .selectFrom('zap_receipt_deliveries')
      .select(['relay', 'state'])
      .execute();
    return new Map(
      relays.map(({ url }) => [url, rows.find((row) => row.relay === url)?.state ?? 'none']),
    );
  }

  /**
   * A transaction of somebody else keeps everybody from writing into a table.
   *
   * @param write what the statement says that is to be stopped; others, such as pruning, may wait as well
   */
  async function lockTable(table: keyof Schema, write: string): Promise<Stop> {
    const locked = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const holding = database.db.transaction().execute(async (tx) => {
      await sql`lock table ${sql.table(table)} in exclusive mode`.execute(tx);
      locked.resolve();
      await released.promise;
    });
    await locked.promise;
    unlock = async () => {
      released.resolve();
      await holding;
    };
    const clear = async () => {
      await unlock();
      // The server notices that the process is gone when it is done with what that waited for.
      await vi.waitFor(async () => expect(await countOf(BUSY_BACKENDS)).toBe(0), {
        timeout: REACHED_WITHIN_MS,
      });
    };
    const reached = vi.waitFor(
      async () => expect(await countOf(waiting(write))).toBeGreaterThan(0),
      { timeout: REACHED_WITHIN_MS },
    );
    return { reached, clear };
  }

  /** All have it, and of the first one that is not known yet. */
  async function lockBeforeLastWord(): Promise<Stop> {
    const release = first.hold();
    const locking = vi
      .waitFor(
        async () => {
          expect([...(await deliveries()).values()]).toEqual(['open', 'accepted', 'accepted']);
          expect(first.events.size).toBe(1);
        },
        { timeout: REACHED_WITHIN_MS },
      )
      .then(async () => {
        const stop = await lockTable('zap_receipt_deliveries', 'update zap_receipt_deliveries');
        release();
        await stop.reached;
        return stop;
      });
    return { reached: locking, clear: async () => (await locking).clear() };
  }

  async function countOf(query: ReturnType<typeof sql>): Promise<number> {
    return (await query.execute(database.db)).rows.length;
  }
});

describe('a process on the embedded database that is killed', () => {
  it.each(ON_BOTH_DATABASES)(
    '%s, leaves a receipt that each relay has exactly once after a restart',
    async (_step, stop) => {
      const { dataDir, remove } = await createDataDir();
      onTestFinished(remove);
      const zap = await crash({ DATA_DIR: dataDir }, stop);
      const after = start({ DATA_DIR: dataDir });
      await expectOneReceipt(zap, await originOf(after));
      await after.stop();
      expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]);
    },
    TEST_TIMEOUT_MS,
  );
});

/** Others than the one that asks, in the middle of a transaction. */
const BUSY_BACKENDS = sql`
  select pid from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null`;

/** Who waits for a lock with a statement that says this. */
function waiting(statement: string) {
  return sql`
    select pid from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
      and position(${statement} in query) > 0`;
}

/** A zap that was paid. */
interface Zap {
  wallet: TestWallet;
  /** The zap request, as its sender signed it. */
  text: string;
  invoice: string;
}

function start(env: Record<string, string>): NutpostProcess {
  return new NutpostProcess('serve', {
    DEFAULT_MINT_URL: mint.url,
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: operators.url,
    ...env,
  });
}

/** @returns the public origin of a process: requests are signed for that */
async function originOf(process: NutpostProcess): Promise<string> {
  return (await process.listening()).replace('127.0.0.1', 'localhost');
}

/** A zap is paid, and the process is killed where its receipt is stopped. */
async function crash(env: Record<string, string>, place: Step[1]): Promise<Zap> {
  const process = start(env);
  const wallet = new TestWallet(await originOf(process));
  const { text } = zapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    relays: [first.url, second.url],
  });
  const query = zapQuery(text, AMOUNT_MSAT);
  const { body } = await request(wallet.base, `/.well-known/lnurlp/${wallet.npub}?${query}`);
  const stop = await place();
  mint.pay(body.pr);
  await stop.reached;
  await process.kill();
  await stop.clear();
  return { wallet, text, invoice: body.pr };
}

/** All relays have it, the list has the payment, and both say the same. */
async function expectOneReceipt({ wallet, text, invoice }: Zap, base: string): Promise<void> {
  await vi.waitFor(() => expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]), {
    timeout: DELIVERED_WITHIN_MS,
  });
  const [receipt, ...others] = relays.flatMap(({ events }) => [...events.values()]);
  if (receipt === undefined) {
    throw new Error('there is a receipt');
  }
  expect(others).toEqual([receipt, receipt]);
  expect(verifyEvent(receipt)).toBe(true);
  expect(receipt).toMatchObject({ kind: 9735, pubkey: TEST_ZAP_PUBKEY, content: '' });
  expect(receipt.tags).toContainEqual(['description', text]);
  expect(receipt.tags).toContainEqual(['bolt11', invoice]);
  const listed = await wallet.at(base).listQuotes();
  expect(listed).toMatchObject([{ zapRequest: text, paidAt: receipt.created_at }]);
}

function stopAt(condition: () => boolean): Stop {
  return { reached: first.waitFor(condition), clear: () => undefined };
}

function stopAtHandshake(): Stop {
  first.switches.handshake = 'silent';
  const clear = () => {
    first.switches.handshake = 'open';
  };
  return { ...stopAt(() => first.connections.open > 0), clear };
}

function stopAtAuth(): Stop {
  first.switches.auth = 'at_connect';
  const clear = first.hold();
  return { ...stopAt(() => first.authEvents.length > 0 || first.timesSent.size > 0), clear };
}

function stopAfterAuth(): Stop {
  first.switches.auth = 'at_first_message';
  return stopAt(() => first.authEvents.length > 0);
}

function stopAtFate(eventFate: 'ignore' | 'store_and_ignore', condition: () => boolean): Stop {
  first.switches.eventFate = eventFate;
  const clear = () => {
    first.switches.eventFate = 'answer';
  };
  return { ...stopAt(condition), clear };
}

/** Two have said OK, and the first one, which has it, says nothing. */
function stopBetween(): Stop {
  const clear = first.hold();
  return { reached: Promise.all(relays.map((relay) => relay.waitFor(1))), clear };
}

function totalOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}
