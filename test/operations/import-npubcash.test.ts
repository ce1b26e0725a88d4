import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { askService } from '../../src/commands/ask-service.ts';
import type { CommandResult } from '../../src/commands/command.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { createDataDir } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { giveName } from '../helpers/names.ts';
import { runNutpost } from '../helpers/nutpost-command.ts';
import { operate } from '../helpers/operator.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { waitingBackends } from '../helpers/waiting-backends.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET, testConfig } from '../helpers/world.ts';
import { createDatabaseAt, type OldQuote, OldServer } from './npubcash/old-server.ts';

/** A move from npubcash: what its users see before and after, over the real HTTP API. */

const SERVER = process.env['OPERATIONS_DATABASE_URL'] ?? '';

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;

/** Wallets have collected what was paid then. */
const LONG_AGO_MS = Math.floor((Date.now() - 100 * DAY_MS) / 1000) * 1000;

/** What mints are called here that npubcash has in several spellings. */
const CANONICAL = new Map([
  ['https://Mint.Example/', 'https://mint.example'],
  ['https://mint.example:443', 'https://mint.example'],
  ['https://other.example/Bitcoin//', 'https://other.example/Bitcoin'],
]);

const SPELLINGS = ['https://mint.example', ...CANONICAL.keys()];

/** Recipients with lists of different lengths, from none to three pages. */
const LENGTHS = [0, 1, 2, 7, 49, 50, 51, 130];

/** All of them, and one that is twice there. */
const PAID = LENGTHS.reduce((all, length) => all + length, 0) + 1;

/** 32 bytes that are no point of the curve. */
const NO_KEY = '0'.repeat(64);

describe.each([
  ['PostgreSQL', onPostgres],
  ['the embedded database of a running service', inFiles],
])('an npubcash server that is brought over to %s', (_where, makePlace) => {
  const end = new AsyncDisposableStack();
  /** What the report says of rows, by their table and id. */
  const leftOut = new Map<string, string>();
  const recipients: TestWallet[] = [];
  let place: Place;
  let mint: TestMint;
  let old: OldServer;
  let service: Service;

  beforeAll(async () => {
    mint = await TestMint.start();
    end.defer(() => mint.close());
    old = await OldServer.create(SERVER);
    end.defer(() => old.close());
    place = await makePlace();
    end.defer(place.remove);
    const config = testConfig(mint.url, place.env);
    service = await startService(config, { log: openLog('silent'), pollGapMs: 0 });
    end.defer(() => service.stop());
    for (const length of LENGTHS) {
      const wallet = newWallet();
      recipients.push(wallet);
      await addPayments(wallet, length);
    }
  });

  afterAll(() => end.disposeAsync());

  it('is told row by row what is left out, and a dry run says the same and changes nothing', async () => {
    const [wallet, another] = [newWallet(), newWallet()];
    recipients.push(wallet, another);
    const { pubkey } = wallet;
    await leave('bad_pubkey', { pubkey: NO_KEY });
    await leave('bad_pubkey', { pubkey: wallet.npub });
    await leave('bad_mint_url', { pubkey, mintUrl: 'mint.example' });
    await leave('bad_quote_id', { pubkey, quoteId: '' });
    await leave('other_unit', { pubkey, unit: 'usd' });
    await leave('bad_amount', { pubkey, amount: 0, request: 'lnbc1' });
    await leave('unknown_state', { pubkey, state: 'REFUNDED' });
    await leave('no_invoice', { pubkey, request: null, state: 'UNPAID', paidAtMs: null });
    const twice = { pubkey, quoteId: randomUUID(), state: 'ISSUED', paidAtMs: LONG_AGO_MS };
    await leave('same_quote_twice', { ...twice, state: 'UNPAID', paidAtMs: null });
    await leave('same_quote_twice', { ...twice, state: 'PAID', paidAtMs: LONG_AGO_MS - 1 });
    await old.addQuote({ ...twice, mintUrl: 'https://Mint.Example/' });
    await leave('quote_of_another', { ...twice, pubkey: another.pubkey, state: 'PAID' });

    const dry = await importNpubcash('--dry-run', '--report');
    expect(linesOf(dry.stdout).at(-1)).toMatchObject({ dryRun: true });
    expect(await Promise.all(recipients.map((each) => each.listQuotes()))).toEqual(
      recipients.map(() => []),
    );

    // As an operator does it.
    const command = ['import-npubcash', old.url, '--report'];
    const { code, stdout, stderr } = await runNutpost(command, place.env);
    expect(code).toBe(0);
    const report = linesOf(stdout);
    expect(linesOf(dry.stdout)).toEqual([
      ...report.slice(0, -1),
      { ...report.at(-1), dryRun: true },
    ]);
    expect(reasonsIn(report)).toEqual(leftOut);
    expect(report.at(-1)).toMatchObject({
      counts: {
        payments: { added: PAID, changed: 0, unchanged: 0 },
        invoices: { added: 0, changed: 0, unchanged: 0 },
        dated: 0,
        watched: 0,
      },
      withoutVerificationUrl: PAID,
    });
    expect(stderr).toContain(`  Payments  ${PAID} new`);
  });

  it('shows every recipient the list that npubcash shows', async () => {
    await expectEqualLists();
  });

  it('brings nothing when it is brought over again', async () => {
    const { stdout } = await importNpubcash();
    expect(stdout).toContain(`Payments  0 new, 0 changed, ${PAID} here already`);
    await expectEqualLists();
  });

  it('brings what is new there, at the time that it was paid', async () => {
    const wallet = newWallet();
    recipients.push(wallet);
    const row = { pubkey: wallet.pubkey, state: 'UNPAID', createdAtMs: Date.now() };
    await old.addQuote({ pubkey: wallet.pubkey, paidAtMs: LONG_AGO_MS });
    const open = await old.addQuote({ ...row, mintUrl: 'https://mint.example' });
    await importNpubcash();
    await old.payQuote(open, Date.now() - 10_000);
    await old.addQuote({ pubkey: wallet.pubkey, paidAtMs: Date.now() - 9_500, state: 'ISSUED' });
    const { stdout } = await importNpubcash();
    expect(stdout).toContain(`Payments  1 new, 1 changed, ${PAID + 1} here already`);
    await expectEqualLists();
  });

  it('keeps a payment of a wallet whose list has later ones already: as one that is paid now', async () => {
    const wallet = newWallet();
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    mint.pay((await request(service.url, path)).body.pr);
    await expect.poll(() => wallet.listQuotes()).toHaveLength(1);
    const [{ paidAt } = {}] = await wallet.listQuotes();
    const earlier = randomUUID();
    const undated = randomUUID();
    await old.addQuote({ pubkey: wallet.pubkey, paidAtMs: LONG_AGO_MS, quoteId: earlier });
    await old.addQuote({ pubkey: wallet.pubkey, paidAtMs: null, quoteId: undated });
    const socket = await wallet.openSocket();
    onTestFinished(() => socket.close());
    const { stdout } = await importNpubcash();
    expect(stdout).toContain('2 payments listed as paid now');
    expect(await socket.next()).toMatchObject({ type: 'update' });
    // A wallet that has seen its list passes over what is not later.
    const news = (await wallet.listQuotes()).filter(
      (quote) => Number(quote['paidAt']) > Number(paidAt),
    );
    expect(news.map(({ quoteId }) => quoteId)).toEqual([undated, earlier]);
    expect(Number(news[0]?.['paidAt'])).toBeLessThanOrEqual(Date.now() / 1000 + 5);
  });

  it('watches invoices that may still be paid, and those that npubcash has missed', async () => {
    const wallet = newWallet();
    const { pubkey } = wallet;
    const open = await invoiceOfMint();
    const givenUp = await invoiceOfMint();
    const missed = await invoiceOfMint();
    const over = randomUUID();
    const ageMs = 3 * DAY_MS;
    await old.addQuote({ ...open, pubkey, state: 'UNPAID', createdAtMs: Date.now() });
    await old.addQuote({
      ...givenUp,
      pubkey,
      state: 'EXPIRED',
      createdAtMs: Date.now() - 2 * HOUR_MS,
    });
    await old.addQuote({ ...missed, pubkey, state: 'UNPAID', createdAtMs: Date.now() - ageMs });
    await old.addQuote({ pubkey, state: 'EXPIRED', quoteId: over, createdAtMs: LONG_AGO_MS });
    mint.pay(givenUp.request);
    mint.pay(missed.request);
    const { stdout } = await importNpubcash();
    expect(stdout).toContain('Invoices  4 new');
    expect(stdout).toContain('Of 3 quotes the mints are asked from now on.');
    await expect.poll(() => wallet.listQuotes()).toHaveLength(2);
    mint.pay(open.request);
    await expect.poll(() => wallet.listQuotes()).toHaveLength(3);
  });

  it('lets users keep their names, mints and locks, and blocked ones stay blocked', async () => {
    const [alice, bob, blocked, shouting] = [newWallet(), newWallet(), newWallet(), newWallet()];
    await old.addUser({ pubkey: alice.pubkey, name: 'Alice', mintUrl: `${mint.url}/` });
    const row = await old.addUser({ pubkey: bob.pubkey, mintUrl: mint.url, lockQuote: true });
    await leaveUser('same_key_twice', { pubkey: shouting.pubkey.toUpperCase(), name: 'older' });
    await old.addUser({ pubkey: shouting.pubkey.toUpperCase(), name: 'shouting' });
    await leaveUser('name_taken', { pubkey: blocked.pubkey, name: 'ALICE' });
    await leaveUser('bad_name', { pubkey: newWallet().pubkey, name: 'no spaces' });
    await leaveUser('bad_mint_url', { pubkey: newWallet().pubkey, mintUrl: 'nowhere' });
    await leaveUser('bad_pubkey', { pubkey: 'nobody' });
    await old.block(blocked.pubkey, 'spam');
    const dry = await importNpubcash('--dry-run');
    const { stdout } = await importNpubcash();
    expect(countsIn(stdout)).toEqual([
      'Users     6 new, 0 changed, 0 here already',
      'Names     2 new, 0 changed, 0 here already',
      'Blocks    1 new, 0 changed, 0 here already',
    ]);
    expect(countsIn(dry.stdout)).toEqual(countsIn(stdout));

    expect(await infoOf(alice)).toEqual({
      pubkey: alice.pubkey,
      name: 'alice',
      mintUrl: mint.url,
      lockQuote: false,
    });
    expect(await infoOf(shouting)).toMatchObject({ name: 'shouting' });
    expect(await infoOf(bob)).toEqual({ pubkey: bob.pubkey, mintUrl: mint.url, lockQuote: true });
    const named = await request(service.url, '/.well-known/lnurlp/alice');
    expect(named.body).toMatchObject({ tag: 'payRequest' });
    const refused = await request(service.url, `/.well-known/lnurlp/${blocked.npub}`);
    expect(refused.body).toMatchObject({ reason: 'Recipient unavailable.' });

    // Changed there, and then here: the first is brought over, the second stays.
    await old.changeUser(row, 'https://moved.example/');
    await importNpubcash();
    expect(await infoOf(bob)).toMatchObject({ mintUrl: 'https://moved.example' });
    await bob.send('PATCH', '/api/v2/user/lock', { lockQuotes: false });
    await bob.send('PATCH', '/api/v2/user/mint', { mint_url: mint.url });
    await place.run(['user', 'unblock', blocked.npub], new TestTerminal());
    const again = linesOf((await importNpubcash('--report')).stdout);
    expect(reasonsIn(again)).toEqual(leftOut);
    expect(await infoOf(bob)).toMatchObject({ mintUrl: mint.url, lockQuote: false });
    const found = await request(service.url, `/.well-known/lnurlp/${blocked.npub}`);
    expect(found.body).toMatchObject({ tag: 'payRequest' });
  });

  it('tells what is never brought over, and none of its secrets', async () => {
    await old.addWhatStays();
    const { stdout, stderr } = await importNpubcash('--report');
    expect(linesOf(stdout).at(-1)).toMatchObject({
      neverBroughtOver: {
        proofs: [{ state: 'UNSPENT', rows: 2, amountSat: 10 }],
        tables: [
          { table: 'l_payments', rows: 1, why: 'of version 1' },
          { table: 'mints', rows: 1 },
          { table: 'pgmigrations', rows: 0 },
          { table: 'verification_tokens', rows: 1, why: 'not known to this service' },
        ],
      },
    });
    expect(stderr).toContain('proofs  2 rows, 10 sat, UNSPENT: your income');
    expect(stdout + stderr).not.toMatch(/secret-of-a-proof|another-secret|secret-token/);
  });

  function newWallet(): TestWallet {
    return new TestWallet(service.publicOrigin);
  }

  /** Some of them in one moment, and not in the order of their rows; one key is not always spelt alike. */
  async function addPayments({ pubkey }: TestWallet, howMany: number): Promise<void> {
    for (let index = 0; index < howMany; index += 1) {
      const second = (index * 37) % Math.ceil(howMany / 2);
      await old.addQuote({
        pubkey: index % 5 === 0 ? pubkey.toUpperCase() : pubkey,
        paidAtMs: LONG_AGO_MS + second * 1000 + (index % 3) * 250,
        amount: index + 1,
        mintUrl: SPELLINGS[index % SPELLINGS.length] ?? '',
        state: index % 4 === 0 ? 'ISSUED' : 'PAID',
        locked: index % 7 === 0,
        zapRequest: index % 6 === 0 ? '{"kind": 9734}' : null,
        misspeltZapRequest: index % 6 === 1 ? '{"kind":9734,"content":"⚡"}' : null,
      });
    }
  }

  async function leave(reason: string, quote: Partial<OldQuote> & { pubkey: string }) {
    const id = await old.addQuote({ paidAtMs: LONG_AGO_MS, ...quote });
    leftOut.set(`mint_quotes ${id}`, reason);
  }

  async function leaveUser(
    reason: string,
    user: { pubkey: string; name?: string; mintUrl?: string },
  ) {
    leftOut.set(`l_users ${await old.addUser(user)}`, reason);
  }

  async function invoiceOfMint() {
    const { body } = await request(mint.url, '/v1/mint/quote/bolt11', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount: 21, unit: 'sat' }),
    });
    return { mintUrl: `${mint.url}/`, quoteId: body.quote, request: body.request, paidAtMs: null };
  }

  async function importNpubcash(...options: string[]) {
    const terminal = new TestTerminal();
    const result = await place.run(['import-npubcash', old.url, ...options], terminal);
    expect(result.exitCode).toBe(0);
    return { stdout: terminal.written + result.stdout, stderr: result.stderr };
  }

  async function infoOf(wallet: TestWallet) {
    return (await wallet.get('/api/v2/user/info')).body.data.user;
  }

  async function expectEqualLists(): Promise<void> {
    const without = new Set(
      [...leftOut.keys()].flatMap((key) => (key.startsWith('mint_quotes') ? [rowIn(key)] : [])),
    );
    for (const wallet of recipients) {
      const before = await old.list(wallet.pubkey, without, CANONICAL);
      expect(await wallet.listQuotes()).toEqual(before);
    }
  }
});

describe('an npubcash server that goes on between two runs', () => {
  let end: AsyncDisposableStack;
  let old: OldServer;
  let database: Database;
  let store: Store;

  beforeAll(async () => {
    end = new AsyncDisposableStack();
    old = await OldServer.create(SERVER);
    end.defer(() => old.close());
    ({ database } = await emptyDatabase(end));
    store = new Store(database.db);
  });

  afterAll(() => end.disposeAsync());

  const run = (...more: string[]) => operate(database, ['import-npubcash', old.url, ...more]);
  const newKey = () => new TestWallet('http://localhost').pubkey;
  const listOf = (pubkey: string) =>
    store.quotes.listPaid(pubkey, { sinceSeconds: null, limit: 50, offset: 0 });
  const reportOf = async (...more: string[]) => {
    const terminal = new TestTerminal();
    await operate(database, ['import-npubcash', old.url, '--report', ...more], { terminal });
    return linesOf(terminal.written);
  };
  const leftOutUser = (id: number, reason: string) =>
    expect.objectContaining({ table: 'l_users', id, reason });
  const buy = async (pubkey: string, name: string) => {
    const now = new Date();
    const done = {
      ...{ state: 'done' as const, created_at: now, settled_at: now },
      ...{ mint_url: 'https://mint.example', token: null, outputs: '[]' },
    };
    await database.db
      .insertInto('username_purchases')
      .values({ id: randomUUID(), pubkey, name, price_sat: 21, paid_sat: 21, ...done })
      .execute();
  };

  it('has nothing listed here meanwhile that a wallet would pass over when it comes', async () => {
    const pubkey = newKey();
    const paidAtMs = LONG_AGO_MS;
    await old.addQuote({ pubkey, paidAtMs });
    await old.addQuote({ pubkey, paidAtMs: null });
    await old.addQuote({ pubkey, paidAtMs: null, state: 'UNPAID', createdAtMs: Date.now() });
    const { stdout } = await run('--while-running');
    expect(stdout).toContain('Payments  1 new');
    expect(stdout).toContain('Of 0 quotes the mints are asked from now on.');
    expect(stdout).toContain('2 quotes left to the run after npubcash was stopped');
    expect((await listOf(pubkey)).quotes.map((quote) => quote.paidAtMs)).toEqual([paidAtMs]);
    const last = await run();
    expect(last.stdout).toContain('Of 2 quotes the mints are asked from now on.');
    expect(last.stdout).not.toContain('left to the run');
  });

  it('brings a payment of a second that a wallet knows as one that is paid now', async () => {
    const pubkey = newKey();
    await old.addQuote({ pubkey, paidAtMs: LONG_AGO_MS + 200 });
    await run();
    await old.addQuote({ pubkey, paidAtMs: LONG_AGO_MS + 700 });
    const { stdout } = await run();
    expect(stdout).toContain('1 payment listed as paid now');
    const [newest, oldest] = (await listOf(pubkey)).quotes;
    expect(newest?.paidAtMs).toBeGreaterThanOrEqual(LONG_AGO_MS + 1000);
    expect(oldest?.paidAtMs).toBe(LONG_AGO_MS + 200);
  });

  it('has its names followed', async () => {
    const [a, b] = [newKey(), newKey()];
    const rowOfA = await old.addUser({ pubkey: a, name: 'alice' });
    const rowOfB = await old.addUser({ pubkey: b, name: 'bob' });
    await run();
    expect(await store.users.findByName('alice')).toMatchObject({ pubkey: a });

    await old.nameUser(rowOfA, null);
    await old.nameUser(rowOfB, 'alice');
    const dry = await run('--dry-run');
    expect(await store.users.findByName('alice')).toMatchObject({ pubkey: a });
    const { stdout } = await run();
    expect(countsIn(stdout)[1]).toBe('Names     0 new, 2 changed, 0 here already');
    expect(countsIn(dry.stdout)).toEqual(countsIn(stdout));
    expect(await store.users.findByName('alice')).toMatchObject({ pubkey: b });
    expect(await store.users.findByName('bob')).toBeNull();
    expect(await store.users.findAddressed(a)).toMatchObject({ name: null });
    await old.nameUser(rowOfA, 'bob');
    await run();
    expect(await store.users.findByName('bob')).toMatchObject({ pubkey: a });
  });

  it('keeps a name that its owner left there for nobody from strangers, as one left here', async () => {
    const pubkey = newKey();
    const row = await old.addUser({ pubkey, name: 'carol' });
    await run();
    await old.nameUser(row, null);
    await run();
    expect(await store.users.findByName('carol')).toBeNull();
    expect(await store.usernames.find('carol')).toMatchObject({ status: 'released', pubkey });
    await old.nameUser(row, 'carol');
    await run();
    expect(await store.users.findByName('carol')).toMatchObject({ pubkey });
  });

  it('keeps it from strangers also where whoever has it there now chose another here', async () => {
    const [pubkey, another] = [newKey(), newKey()];
    const row = await old.addUser({ pubkey, name: 'grace' });
    await run();
    await giveName(database, another, 'heidi');
    await old.nameUser(row, null);
    const id = await old.addUser({ pubkey: another, name: 'grace' });
    expect(await reportOf()).toContainEqual(leftOutUser(id, 'has_another_name'));
    expect(await store.users.findByName('heidi')).toMatchObject({ pubkey: another });
    expect(await store.usernames.find('grace')).toMatchObject({ status: 'released', pubkey });
  });

  it('leaves a name alone whose owner has another there that can be nobody’s here', async () => {
    const [pubkey, another] = [newKey(), newKey()];
    const row = await old.addUser({ pubkey, name: 'dave' });
    await run();
    await old.nameUser(row, 'dave !');
    expect(await reportOf()).toContainEqual(leftOutUser(row, 'bad_name'));
    expect(await store.users.findByName('dave')).toMatchObject({ pubkey });
    // Payers there reach somebody else by it.
    await old.addUser({ pubkey: another, name: 'dave' });
    await run();
    expect(await store.users.findByName('dave')).toMatchObject({ pubkey: another });
  });

  it('takes away no name that was bought here, not even for another that its owner has there', async () => {
    const [pubkey, another] = [newKey(), newKey()];
    const row = await old.addUser({ pubkey, name: 'erin' });
    await run();
    await buy(pubkey, 'erin');
    await old.nameUser(row, null);
    const id = await old.addUser({ pubkey: another, name: 'erin' });
    expect(await reportOf()).toContainEqual(leftOutUser(id, 'name_taken'));
    expect(await store.users.findByName('erin')).toMatchObject({ pubkey });
    await old.nameUser(row, 'frank');
    expect(await reportOf()).toContainEqual(leftOutUser(row, 'has_another_name'));
    expect(await store.users.findByName('erin')).toMatchObject({ pubkey });
    expect(await store.users.findByName('frank')).toBeNull();
  });

  it('unblocks nobody: it tells who is blocked there no more', async () => {
    const pubkey = newKey();
    await old.block(pubkey, 'spam');
    await run();
    await old.unblock(pubkey);
    for (const options of [['--dry-run'], []]) {
      const report = await reportOf(...options);
      expect(report).toContainEqual(
        expect.objectContaining({ table: 'recipient_blocks', reason: 'unblocked_there', pubkey }),
      );
      expect(report.at(-1)).toMatchObject({ counts: { leftOut: { unblocked_there: 1 } } });
      expect(await store.users.findAddressed(pubkey)).toMatchObject({ isBlocked: true });
    }
    await operate(database, ['user', 'unblock', pubkey]);
    expect((await reportOf()).at(-1).counts.leftOut).not.toHaveProperty('unblocked_there');
    // Blocked there once more, and so here.
    await old.block(pubkey, 'spam again');
    await run();
    expect(await store.users.findAddressed(pubkey)).toMatchObject({ isBlocked: true });
  });

  it('has a user’s later choice followed, also after one that cannot be one here', async () => {
    const pubkey = newKey();
    const row = await old.addUser({ pubkey, mintUrl: 'https://one.example' });
    await run();
    await old.changeUser(row, 'nowhere');
    await run();
    expect(await store.users.find(pubkey)).toMatchObject({ mintUrl: 'https://one.example' });
    await old.changeUser(row, 'https://three.example');
    expect(await reportOf()).not.toContainEqual(leftOutUser(row, 'changed_here'));
    expect(await store.users.find(pubkey)).toMatchObject({ mintUrl: 'https://three.example' });
  });

  it('says that others are connected there, where it is not told that npubcash still runs', async () => {
    const line = /^\d+ other connections? to that database: if npubcash still runs/m;
    // The connection of this test.
    expect((await run()).stdout).toMatch(line);
    expect((await run('--dry-run')).stdout).toMatch(line);
    expect((await run('--while-running')).stdout).not.toMatch(line);
  });

  it('has payments of its last seconds wait: another of the same second may be on its way', async () => {
    const pubkey = newKey();
    // Half a minute away from the end of the wait, however slow this machine is.
    const paidAtMs = Math.floor(Date.now() / 1000) * 1000 + 30_000;
    const clock = () => Date.now() + 60_000;
    const runThen = (...more: string[]) =>
      operate(database, ['import-npubcash', old.url, ...more], { clock });
    await old.addQuote({ pubkey, paidAtMs });
    await runThen('--while-running');
    expect((await listOf(pubkey)).quotes).toEqual([]);
    await old.addQuote({ pubkey, paidAtMs: paidAtMs + 700 });
    await runThen();
    const times = (await listOf(pubkey)).quotes.map((quote) => quote.paidAtMs);
    expect(times).toEqual([paidAtMs + 700, paidAtMs]);
  });

  it('names in its report the row that was taken', async () => {
    const copy = { pubkey: newKey(), quoteId: randomUUID(), paidAtMs: LONG_AGO_MS };
    const unpaid = await old.addQuote({ ...copy, state: 'UNPAID', paidAtMs: null });
    const paid = await old.addQuote({ ...copy, state: 'PAID' });
    const issued = await old.addQuote({ ...copy, state: 'ISSUED' });
    expect(await reportOf()).toEqual(
      expect.arrayContaining(
        [unpaid, paid].map((id) => expect.objectContaining({ id, instead: issued })),
      ),
    );
  });

  it('is brought over by a role that may not read its income', async () => {
    const { exitCode, stdout } = await operate(database, [
      'import-npubcash',
      await old.urlOfReader(),
    ]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain('proofs  not readable: your income');
    expect(stdout).toContain('mints  not readable');
    expect(stdout).toContain('1 other connection to that database');
  });
});

describe('an import', () => {
  it('that breaks off goes on where it ended, and no payment is twice in a list or out of its order', async () => {
    await using end = new AsyncDisposableStack();
    const old = await OldServer.create(SERVER);
    end.defer(() => old.close());
    const { database } = await emptyDatabase(end);
    const wallets = ['one', 'two', 'three'].map(() => new TestWallet('http://localhost'));
    await old.addManyPayments(
      wallets.map(({ pubkey }) => pubkey),
      700,
      LONG_AGO_MS,
    );

    const terminal = new LeavingTerminal('Quotes:');
    await expect(operate(database, ['import-npubcash', old.url], { terminal })).rejects.toThrow();
    const { stdout } = await operate(database, ['import-npubcash', old.url]);
    const [, added, unchanged] =
      /Payments {2}([\d,]+) new, 0 changed, ([\d,]+) here/.exec(stdout) ?? [];
    expect([numberOf(added), numberOf(unchanged)]).toSatisfy(
      ([rest, first]) => first > 0 && rest > 0 && first + rest === 2_100,
    );
    const service = await startService(testConfig('http://127.0.0.1:1'), {
      database,
      log: openLog('silent'),
    });
    end.defer(() => service.stop());
    for (const wallet of wallets) {
      const list = await wallet.at(service.publicOrigin).listQuotes();
      expect(list).toEqual(await old.list(wallet.pubkey, new Set(), CANONICAL));
    }
  });

  it.each([
    [
      'user',
      (old: OldServer, pubkey: string) => old.addUser({ pubkey, mintUrl: 'https://mint.example' }),
    ],
    ['payment', (old: OldServer, pubkey: string) => old.addManyPayments([pubkey], 2, LONG_AGO_MS)],
  ])('brings a %s of a key that is paid here for the first time at that moment', async (_, add) => {
    await using end = new AsyncDisposableStack();
    const old = await OldServer.create(SERVER);
    end.defer(() => old.close());
    const { database } = await emptyDatabase(end);
    const { pubkey } = new TestWallet('http://localhost');
    await add(old, pubkey);

    const running = await new Store(database.db).transaction(async (tx) => {
      await tx.users.lockPaymentCounters([pubkey]);
      const command = operate(database, ['import-npubcash', old.url]);
      command.catch(() => undefined);
      await eventually(async () => expect(await waitingBackends(database)).toBe(1));
      return { command };
    });
    expect(await running.command).toMatchObject({ exitCode: 0 });
  });

  it('has the database count what came, on the way and at its end, for whoever asks it next', async () => {
    await using end = new AsyncDisposableStack();
    const old = await OldServer.create(SERVER);
    end.defer(() => old.close());
    const { database } = await emptyDatabase(end);
    const pubkeys = ['one', 'two'].map(() => new TestWallet('http://localhost').pubkey);
    await old.addManyPayments(pubkeys, 5_200, LONG_AGO_MS);

    await operate(database, ['import-npubcash', old.url]);

    const { rows } = await sql`
      select reltuples::int as quotes from pg_class where oid = 'quotes'::regclass
    `.execute(database.db);
    expect(rows).toEqual([{ quotes: 10_400 }]);
    await eventually(async () => {
      const { rows: counted } = await sql`
        select analyze_count as times from pg_stat_user_tables where relid = 'quotes'::regclass
      `.execute(database.db);
      expect(counted).toEqual([{ times: 2 }]);
    });
  });

  it('tells what came also where the database could not count it, and has it count nothing for nothing', async () => {
    await using end = new AsyncDisposableStack();
    const old = await OldServer.create(SERVER);
    end.defer(() => old.close());
    const { database } = await emptyDatabase(end);
    const { db } = database;
    await old.addManyPayments([new TestWallet('http://localhost').pubkey], 3, LONG_AGO_MS);
    const run = () => operate(database, ['import-npubcash', old.url]);

    await db.transaction().execute(async (tx) => {
      // Held by who else counts; it keeps nobody from writing.
      await sql`lock table quotes in share update exclusive mode`.execute(tx);
      const running = run();
      await eventually(async () => {
        const { rows } = await sql`
          select pg_cancel_backend(pid) as cancelled from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'
            and query like 'analyze%'`.execute(db);
        expect(rows).toEqual([{ cancelled: true }]);
      });
      const { exitCode, stdout } = await running;
      expect(exitCode).toBe(0);
      expect(stdout).toContain('Payments  3 new');
      expect(stdout).toContain('The database did not count what came (canceling statement');
      // Nothing is new, and nothing waits for whoever counts.
      expect((await run()).stdout).toContain('Payments  0 new, 0 changed, 3 here already');
    });
  });

  it('has as long to be counted as that takes, and waits for others for seconds', async () => {
    await using end = new AsyncDisposableStack();
    const { database } = await emptyDatabase(end);
    await database.db.transaction().execute(async (tx) => {
      await new Store(tx).npubcash.settle();
      const { rows } = await sql`
        select current_setting('statement_timeout') as counting, current_setting('lock_timeout') as waiting
      `.execute(tx);
      expect(rows).toEqual([{ counting: '0', waiting: '10s' }]);
    });
  });

  it('says in one line that there is no database, or that it is none of npubcash', async () => {
    await using end = new AsyncDisposableStack();
    const { database, url } = await emptyDatabase(end);
    const nowhere = 'postgres://somebody:a-password@127.0.0.1:1/npubcash';
    expect(await operate(database, ['import-npubcash', nowhere])).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^The database of npubcash cannot be reached \((?!.*a-password).*\n$/,
      ),
    });
    expect(await operate(database, ['import-npubcash', url])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('This is no database of npubcash'),
    });
    expect(await operate(database, ['import-npubcash', 'npubcash.sqlite'])).toMatchObject({
      exitCode: 2,
    });
  });
});

/** Where a service keeps its data, and how commands reach it. */
interface Place {
  env: Record<string, string>;
  /** Runs a command in this process, once a service is there: what it costs to start one is paid once. */
  run(argv: readonly string[], terminal: TestTerminal): Promise<CommandResult>;
  remove(): Promise<void>;
}

async function onPostgres(): Promise<Place> {
  const { url, drop } = await createDatabaseAt(SERVER);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  const secrets = { JWT_SECRET: TEST_JWT_SECRET, TREASURY_SECRET: TEST_TREASURY_SECRET };
  return {
    env: { DATABASE_URL: url, ...secrets },
    run: (argv, terminal) => operate(database, argv, { terminal }),
    remove: async () => {
      await database.close();
      await drop();
    },
  };
}

async function inFiles(): Promise<Place> {
  const { dataDir, remove } = await createDataDir();
  return {
    env: { DATA_DIR: dataDir },
    run: (argv, terminal) => askService(dataDir, argv, terminal),
    remove,
  };
}

/** Whoever gave the command leaves when they read this. */
class LeavingTerminal extends TestTerminal {
  readonly #at: string;

  constructor(at: string) {
    super();
    this.#at = at;
  }

  override progress(line: string): void {
    super.progress(line);
    if (line.startsWith(this.#at)) {
      this.leave();
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tests assert the shape of what comes.
function linesOf(stdout: string): any[] {
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function reasonsIn(report: { table: string; id: number; reason: string }[]): Map<string, string> {
  return new Map(report.slice(0, -1).map(({ table, id, reason }) => [`${table} ${id}`, reason]));
}

/** Of users, names and blocks. */
function countsIn(text: string): string[] {
  return text
    .split('\n')
    .slice(1, 4)
    .map((line) => line.trim());
}

function rowIn(key: string): number {
  return Number(key.split(' ')[1]);
}

function numberOf(text = ''): number {
  return Number(text.replaceAll(',', ''));
}

/** On the server of the tests, with our tables and nothing in them. */
async function emptyDatabase(
  end: AsyncDisposableStack,
): Promise<{ database: Database; url: string }> {
  const { url, drop } = await createDatabaseAt(SERVER);
  end.defer(drop);
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  end.defer(() => database.close());
  return { database, url };
}
