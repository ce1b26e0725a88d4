import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { eventually } from '../helpers/eventually.ts';
import { allHeard } from '../helpers/heard.ts';
import { listeningConnections } from '../helpers/listening-connections.ts';
import { giveName } from '../helpers/names.ts';
import { operate } from '../helpers/operator.ts';
import { chooseMint, setLock } from '../helpers/own-mint.ts';
import { databaseOn } from '../helpers/use-database.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** What one process keeps of recipients and invoices, while others change them. */

const UNAVAILABLE = 'Recipient unavailable.';

/** From when a change is known to be committed to the first answer that knows of it. */
const SOON_MS = 1_000;

/** Of each kind; every one is to be seen as soon. */
const CHANGES = 5;

/** Enough that each of the ways in which a change and a lookup can meet comes up. */
const ROUNDS = 60;

/** Each as one process has it; in the last, no service runs. */
let here: Database;
let there: Database;
let outside: Database;
let first: Service;
let second: Service;
/** The default, and two that differ from it in what they take. */
let mint: TestMint;
let small: TestMint;
let large: TestMint;
/** The connections of the server on which they listen. */
let listeners: number[];
/** A recipient, as the first service knows them. */
let wallet: TestWallet;

const ends = new AsyncDisposableStack();

beforeAll(async () => {
  const startMint = async (maxAmountSat: number | null) => {
    const started = await TestMint.start({ switches: { maxAmountSat } });
    ends.defer(() => started.close());
    return started;
  };
  [mint, small, large] = [await startMint(null), await startMint(1_000), await startMint(2_000)];
  const openOnce = await databaseOn(ends);
  [here, there, outside] = [await openOnce(), await openOnce(), await openOnce()];
  [first, second] = [await start(here), await start(there)];
  listeners = await listeningConnections(outside);
  expect(listeners).toHaveLength(2);
});

afterAll(() => ends.disposeAsync());

beforeEach(() => {
  wallet = new TestWallet(first.publicOrigin);
});

describe('a change that another process made is seen within a second', () => {
  it('where a wallet chose another mint', async () => {
    await seenSoon([small, large].values(), async (chosen) => {
      expect((await chooseMint(wallet, chosen.url)).status).toBe(200);
      return { maxSat: chosen === small ? 1_000 : 2_000 };
    });
  });

  it('where an operator blocked somebody, or ended that', async () => {
    await seenSoon(['block', 'unblock'].values(), async (command) => {
      await operate(outside, ['user', command, wallet.npub]);
      return command === 'block' ? { reason: UNAVAILABLE } : { maxSat: null };
    });
  });

  it('where somebody typed it into the database', async () => {
    await new Store(outside.db).users.save(wallet.pubkey, { lockQuotes: false });
    await seenSoon([small, large].values(), async (chosen) => {
      await sql`update users set mint_url = ${chosen.url} where pubkey = ${wallet.pubkey}`.execute(
        outside.db,
      );
      return { maxSat: chosen === small ? 1_000 : 2_000 };
    });
  });

  it('where a name went from one recipient to another', async () => {
    const name = newName();
    const other = new TestWallet(first.publicOrigin);
    await giveName(outside, wallet.pubkey, name);
    const owner = async () =>
      (await request(second.url, `/.well-known/nostr.json?name=${name}`)).body.names[name];
    expect(await owner()).toBe(wallet.pubkey);
    const tookMs: number[] = [];
    for (let change = 0; change < CHANGES; change += 1) {
      const next = change % 2 === 0 ? other : wallet;
      await new Store(outside.db).transaction(async (tx) => {
        await tx.usernames.takeAway(name);
        const claim = { pubkey: next.pubkey, nowMs: Date.now(), graceMs: 0 };
        return await tx.usernames.take(name, claim);
      });
      const changedAtMs = performance.now();
      await eventually(async () => expect(await owner()).toBe(next.pubkey));
      tookMs.push(performance.now() - changedAtMs);
    }
    expectSoon(tookMs);
  });

  it('where an invoice was paid, at the process that did not record it', async () => {
    const tookMs: number[] = [];
    for (const { pr, verify } of await newInvoices(CHANGES)) {
      const settled = async (service: Service) =>
        (await request(service.url, verify)).body.settled as boolean;
      expect(await Promise.all([settled(first), settled(second)])).toEqual([false, false]);
      // Whichever of the two watches the mint, the other has to be told.
      await pay(pr);
      const changedAtMs = performance.now();
      await eventually(async () =>
        expect(await Promise.all([settled(first), settled(second)])).toEqual([true, true]),
      );
      tookMs.push(performance.now() - changedAtMs);
    }
    expectSoon(tookMs);
  });

  /** Makes changes behind the back of the second service, which is asked before and after each. */
  async function seenSoon<Change>(
    some: IterableIterator<Change>,
    make: (change: Change) => Promise<Standing>,
  ): Promise<void> {
    const changes = [...some];
    const tookMs: number[] = [];
    for (let index = 0; index < CHANGES; index += 1) {
      await discover(second);
      const expected = await make(changes[index % changes.length] as Change);
      const changedAtMs = performance.now();
      await eventually(async () => expect(await discover(second)).toEqual(expected));
      tookMs.push(performance.now() - changedAtMs);
    }
    expectSoon(tookMs);
  }
});

describe('a process that made a change itself', () => {
  it('knows of it at once: the mint and the lock that a wallet chose', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const [chosen, maxSat] = round % 2 === 0 ? [small, 1_000] : [large, 2_000];
      await discover(first);
      await chooseMint(wallet, chosen.url);
      expect(await discover(first)).toEqual({ maxSat });
    }
    await chooseMint(wallet, mint.url);
    await newInvoices(1);
    await setLock(wallet, true);
    await newInvoices(1);
    expect([...mint.quotes.values()].at(-1)).toMatchObject({
      pubkey: expect.stringContaining(wallet.pubkey),
    });
  });

  it('knows of it at once: a name that was free, and the next one', async () => {
    const names = Array.from({ length: 10 }, newName);
    for (const name of names) {
      expect(await discover(first, name)).toEqual({ reason: UNAVAILABLE });
      const { status } = await wallet.send('POST', '/api/v2/user/username', { username: name });
      expect(status).toBe(201);
      expect(await discover(first, name)).toEqual({ maxSat: null });
    }
    for (const name of names.slice(0, -1)) {
      expect(await discover(first, name)).toEqual({ reason: UNAVAILABLE });
    }
  });
});

describe('a wallet that is shown its settings by a process', () => {
  it('is paid by them there, though another made the change a moment ago', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const [chosen, maxSat] = round % 2 === 0 ? [small, 1_000] : [large, 2_000];
      await discover(second);
      await chooseMint(wallet, chosen.url);
      const { body } = await wallet.at(second.publicOrigin).get('/api/v2/user/info');
      expect(body.data.user.mintUrl).toBe(chosen.url);
      expect(await discover(second)).toEqual({ maxSat });
    }
  });

  it('finds an invoice settled there as soon as its socket tells of the payment', async () => {
    const socket = await wallet.at(second.publicOrigin).openSocket();
    for (const { pr, verify } of await newInvoices(ROUNDS / 2)) {
      const settled = async () => (await request(second.url, verify)).body.settled as boolean;
      expect(await settled()).toBe(false);
      mint.pay(pr);
      expect(await socket.next()).toMatchObject({ type: 'update' });
      expect(await settled()).toBe(true);
    }
    await socket.close();
  });
});

it('whatever is asked while settings change, nothing older is said once the change was heard', async () => {
  await new Store(outside.db).users.save(wallet.pubkey, { lockQuotes: false });
  for (let round = 0; round < ROUNDS; round += 1) {
    const [chosen, maxSat] = round % 2 === 0 ? [small, 1_000] : [large, 2_000];
    const asking = Array.from({ length: 8 }, () => discover(second));
    const changing = new Store(outside.db).users.save(wallet.pubkey, { mintUrl: chosen.url });
    asking.push(...Array.from({ length: 8 }, () => discover(second)));
    await changing;
    // All of them may be answered later than the change was heard.
    await allHeard(there);
    expect(await discover(second)).toEqual({ maxSat });
    await Promise.all(asking);
    expect(await discover(second)).toEqual({ maxSat });
  }
});

it('a process that cannot listen asks the database each time, and keeps nothing from before', async () => {
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(here.db);
  const [name = ''] = rows.map((row) => row.name);
  const server = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await server.connect();
  const allowConnections = (isAllowed: boolean) =>
    server.query(`alter database ${pg.escapeIdentifier(name)} with allow_connections ${isAllowed}`);
  try {
    await chooseMint(wallet, small.url);
    await allHeard(there);
    expect(await discover(second)).toEqual({ maxSat: 1_000 });
    await allowConnections(false);
    await server.query('select pg_terminate_backend(pid) from unnest($1::int[]) as pid', [
      listeners,
    ]);
    await eventually(async () => expect(await listenStateOf(second)).toBe('failing'));

    for (const [chosen, maxSat] of [
      [large, 2_000],
      [small, 1_000],
      [large, 2_000],
    ] as const) {
      await new Store(outside.db).users.save(wallet.pubkey, { mintUrl: chosen.url });
      expect(await discover(second)).toEqual({ maxSat });
    }
  } finally {
    await allowConnections(true);
    await server.end();
  }
  await eventually(async () => expect(await listenStateOf(second)).toBe('ok'));
  expect(await discover(second)).toEqual({ maxSat: 2_000 });
  await new Store(outside.db).users.save(wallet.pubkey, { mintUrl: small.url });
  await allHeard(there);
  expect(await discover(second)).toEqual({ maxSat: 1_000 });
});

/** What a payer is told: the most that can be sent, null for the operator's most; or a reason. */
type Standing = { maxSat: number | null } | { reason: string };

async function discover(service: Service, user = wallet.npub): Promise<Standing> {
  const { body } = await request(service.url, `/.well-known/lnurlp/${user}`);
  if (body.reason !== undefined) {
    return { reason: body.reason };
  }
  const maxSat = body.maxSendable / 1_000;
  return { maxSat: maxSat === 1_000_000 ? null : maxSat };
}

/** Invoices of the wallet, and where to ask how they stand. */
async function newInvoices(count: number): Promise<{ pr: string; verify: string }[]> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  const asking = Array.from({ length: count }, () => request(first.url, path));
  const answers = await Promise.all(asking);
  return answers.map(({ body }) => ({ pr: body.pr, verify: new URL(body.verify).pathname }));
}

/** Somebody pays an invoice; resolves when that is recorded. */
async function pay(pr: string): Promise<void> {
  const before = await paidCount();
  mint.pay(pr);
  await eventually(async () => expect(await paidCount()).toBe(before + 1));
}

async function paidCount(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from quotes where paid_seq is not null`.execute(outside.db);
  return rows[0]?.count ?? 0;
}

async function listenStateOf(service: Service): Promise<string> {
  return (await request(service.url, '/health/ready')).body.checks.listen;
}

function expectSoon(tookMs: readonly number[]): void {
  expect(tookMs).toHaveLength(CHANGES);
  expect(Math.max(...tookMs)).toBeLessThan(SOON_MS);
}

let names = 0;

function newName(): string {
  names += 1;
  return `kept${names}`;
}

async function start(database: Database): Promise<Service> {
  const service = await startService(testConfig(mint.url, { USERNAME_PRICE_SAT: '0' }), {
    database,
    log: openLog('silent'),
    pollGapMs: 0,
  });
  ends.defer(() => service.stop());
  return service;
}
