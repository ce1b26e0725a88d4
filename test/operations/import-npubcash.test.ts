import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { type Database, openDatabase } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createDataDir } from '../helpers/database.ts';
import { runNutpostCommand } from '../helpers/nutpost-process.ts';
import { runOperatorCommand } from '../helpers/operator-command.ts';
import { createOperationsDatabase } from '../helpers/postgres-database.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET, testConfig } from '../helpers/test-environment.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { NpubcashDatabase, type NpubcashQuote } from './npubcash/npubcash-database.ts';

/** The import from npubcash: what users see before and after, over the HTTP API. */

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;

/** Old enough that payments are no longer watched. */
const LONG_AGO_MS = Math.floor((Date.now() - 100 * DAY_MS) / 1000) * 1000;

/** The spellings of two mints. */
const CANONICAL = new Map([
  ['https://mint.example', 'https://mint.example'],
  ['https://Mint.Example/', 'https://mint.example'],
  ['https://mint.example:443', 'https://mint.example'],
  ['https://other.example/Bitcoin//', 'https://other.example/Bitcoin'],
]);

/** Lists of none to three pages. */
const LENGTHS = [0, 1, 2, 49, 50, 51, 130];

/** All of these payments, and one that occurs in several rows. */
const PAID = LENGTHS.reduce((sum, length) => sum + length, 0) + 1;

/** 32 bytes that are not a point on the curve. */
const NO_KEY = '0'.repeat(64);

const end = new AsyncDisposableStack();
/** The expected reason to skip a row, by table and id. */
const expectedSkips = new Map<string, string>();
const recipients: TestWallet[] = [];
let mint: TestMint;
let old: NpubcashDatabase;
let databaseUrl: string;
let database: Database;
let service: Service;

beforeAll(async () => {
  mint = await TestMint.start();
  end.defer(() => mint.close());
  old = await NpubcashDatabase.create();
  end.defer(() => old.close());
  const { url, drop } = await createOperationsDatabase();
  end.defer(drop);
  databaseUrl = url;
  database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  end.defer(() => database.close());
  service = await startService(testConfig(mint.url), {
    ...{ database, log: createLogger('silent'), pollIntervalMs: 0 },
  });
  end.defer(() => service.stop());
  for (const length of LENGTHS) {
    const wallet = newWallet();
    recipients.push(wallet);
    await addPayments(wallet, length);
  }
});

afterAll(() => end.disposeAsync());

it('gives every recipient the list from npubcash, skips invalid rows, and adds nothing when run again', async () => {
  const wallets = [newWallet(), newWallet()];
  const [wallet, another] = wallets.toSorted((a, b) => (a.pubkey < b.pubkey ? -1 : 1)) as [
    TestWallet,
    TestWallet,
  ];
  recipients.push(wallet, another);
  const { pubkey } = wallet;
  await addSkipped('bad_pubkey', { pubkey: NO_KEY });
  await addSkipped('bad_pubkey', { pubkey: wallet.npub });
  await addSkipped('bad_mint_url', { pubkey, mintUrl: 'mint.example' });
  await addSkipped('bad_quote_id', { pubkey, quoteId: '' });
  await addSkipped('other_unit', { pubkey, unit: 'usd' });
  await addSkipped('bad_amount', { pubkey, amount: 0, request: 'lnbc1' });
  await addSkipped('unknown_state', { pubkey, state: 'REFUNDED' });
  await addSkipped('no_invoice', { pubkey, request: null, state: 'UNPAID', paidAtMs: null });
  const twice = { pubkey, quoteId: randomUUID() };
  await addSkipped('same_quote_twice', { ...twice, state: 'UNPAID', paidAtMs: null });
  await addSkipped('same_quote_twice', { ...twice, state: 'ISSUED', paidAtMs: LONG_AGO_MS + 1 });
  await old.addQuote({ ...twice, mintUrl: 'https://Mint.Example/', paidAtMs: LONG_AGO_MS });
  await addSkipped('same_quote_twice', { ...twice, pubkey: another.pubkey });

  const dry = await runImport('--dry-run');
  expect(await Promise.all(recipients.map((each) => each.listQuotes()))).toEqual(
    recipients.map(() => []),
  );
  // As an operator runs it.
  const { code, stdout } = await runNutpostCommand(['import-npubcash', old.url], {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
  });
  expect(code).toBe(0);
  expect(stdout).toContain(`  Payments  ${PAID} new, 0 already here`);
  expect(dry).toBe(stdout.replace('Imported:', 'An import would add (nothing was changed):'));
  expect(skipsIn(stdout)).toEqual(expectedSkips);
  await expectEqualLists();

  const again = await runImport();
  expect(again).toContain(`  Payments  0 new, ${PAID} already here`);
  expect(skipsIn(again)).toEqual(expectedSkips);
  await expectEqualLists();
});

it('lists a payment as paid now if wallets would miss it at its original time', async () => {
  const wallet = newWallet();
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  mint.pay((await requestJson(service.url, path)).body.pr);
  await expect.poll(() => wallet.listQuotes()).toHaveLength(1);
  const [{ paidAt } = {}] = await wallet.listQuotes();
  const [earlier, undated] = [randomUUID(), randomUUID()];
  await old.addQuote({ pubkey: wallet.pubkey, paidAtMs: LONG_AGO_MS, quoteId: earlier });
  await old.addQuote({ pubkey: wallet.pubkey, paidAtMs: null, quoteId: undated });
  const socket = await wallet.openSocket();
  onTestFinished(() => socket.close());
  expect(await runImport()).toContain('2 payments listed as paid now');
  expect(await socket.nextMessage()).toMatchObject({ type: 'update' });
  // Wallets ignore payments that are not later than the newest one they have seen.
  const list = await wallet.listQuotes();
  const news = list.filter((quote) => Number(quote['paidAt']) > Number(paidAt));
  expect(news.map(({ quoteId }) => quoteId)).toEqual([undated, earlier]);
});

it('watches invoices that may still be paid, and payments that npubcash missed', async () => {
  const wallet = newWallet();
  const { pubkey } = wallet;
  const [open, expired, missed] = [await newInvoice(), await newInvoice(), await newInvoice()];
  const nowMs = Date.now();
  await old.addQuote({ ...open, pubkey, state: 'UNPAID', createdAtMs: nowMs });
  await old.addQuote({ ...expired, pubkey, state: 'EXPIRED', createdAtMs: nowMs - 2 * HOUR_MS });
  await old.addQuote({ ...missed, pubkey, state: 'UNPAID', createdAtMs: nowMs - 3 * DAY_MS });
  await old.addQuote({ pubkey, state: 'EXPIRED', createdAtMs: LONG_AGO_MS });
  mint.pay(expired.request);
  mint.pay(missed.request);
  const stdout = await runImport();
  expect(stdout).toContain('  Invoices  4 new');
  expect(stdout).toContain('3 quotes watched from now on.');
  await expect.poll(() => wallet.listQuotes()).toHaveLength(2);
  mint.pay(open.request);
  await expect.poll(() => wallet.listQuotes()).toHaveLength(3);
});

it('imports names, settings and blocks, and keeps later changes made here', async () => {
  const [alice, bob, blocked, loud] = [newWallet(), newWallet(), newWallet(), newWallet()];
  await addSkippedUser('name_taken', { pubkey: blocked.pubkey, name: 'ALICE' });
  await old.addUser({ pubkey: alice.pubkey, name: 'alice', mint_url: `${mint.url}/` });
  await old.addUser({ pubkey: bob.pubkey, mint_url: mint.url, lock_quote: true });
  await old.addUser({ pubkey: loud.pubkey.toUpperCase(), name: 'Loud' });
  await addSkippedUser('has_another_name', { pubkey: loud.pubkey.toUpperCase(), name: 'Second' });
  await addSkippedUser('bad_name', { pubkey: newWallet().pubkey, name: 'no spaces' });
  await addSkippedUser('bad_mint_url', { pubkey: newWallet().pubkey, mint_url: 'nowhere' });
  await addSkippedUser('bad_pubkey', { pubkey: 'nobody' });
  await old.blockRecipient(blocked.pubkey);
  const counts = ['Users     6 new, 1 already', 'Names     2 new, 0', 'Blocks    1 new, 0'];
  for (const text of [await runImport('--dry-run'), await runImport()]) {
    expect(counts.filter((each) => !text.includes(each))).toEqual([]);
    expect(skipsIn(text)).toEqual(expectedSkips);
  }

  const { pubkey } = alice;
  expect(await infoOf(alice)).toEqual({
    ...{ pubkey, name: 'alice', mintUrl: mint.url, lockQuote: false },
  });
  expect(await infoOf(loud)).toMatchObject({ name: 'loud' });
  expect(await infoOf(bob)).toEqual({ pubkey: bob.pubkey, mintUrl: mint.url, lockQuote: true });
  expect(await discover(blocked.npub)).toMatchObject({ reason: 'Recipient unavailable.' });

  await bob.send('PATCH', '/api/v2/user/lock', { lockQuotes: false });
  await runOperatorCommand(database, ['user', 'unblock', blocked.npub]);
  const again = await runImport();
  expect(again).toContain('Users     0 new');
  expect(again).toContain('Blocks    0 new');
  expect(await infoOf(bob)).toMatchObject({ lockQuote: false });
  expect(await discover(blocked.npub)).toMatchObject({ tag: 'payRequest' });
});

it('reports what it does not import, without secrets', async () => {
  await old.addProofs();
  const stdout = await runImport();
  expect(stdout).toContain('proofs: 2 rows, 10 sat, UNSPENT (your earnings');
  expect(stdout).not.toMatch(/secret-of-a-proof|another-secret/);
});

describe('an import of many payments', () => {
  let many: NpubcashDatabase;
  const wallets = ['one', 'two', 'three'].map(() => new TestWallet('http://localhost'));

  beforeAll(async () => {
    many = await NpubcashDatabase.create();
    end.defer(() => many.close());
    const pubkeys = wallets.map(({ pubkey }) => pubkey);
    await many.addManyPayments(pubkeys, 700, LONG_AGO_MS);
  });

  it('continues after an interruption without missing, duplicate or misordered payments', async () => {
    const terminal = new LeavingTerminal();
    await expect(
      runOperatorCommand(database, ['import-npubcash', many.url], { terminal }),
    ).rejects.toThrow();
    const { stdout } = await runOperatorCommand(database, ['import-npubcash', many.url]);
    const [, rest, first] = /Payments {2}([\d,]+) new, ([\d,]+) already/.exec(stdout) ?? [];
    expect([numberOf(first), numberOf(rest)]).not.toContain(0);
    expect(numberOf(first) + numberOf(rest)).toBe(2_100);
    await expectLists(service.publicOrigin);
  });

  it('writes to the SQLite database of a running service', async () => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const config = testConfig(mint.url, { DATA_DIR: dataDir });
    const onSqlite = await startService(config, { log: createLogger('silent') });
    onTestFinished(() => onSqlite.stop());
    const { code } = await runNutpostCommand(['import-npubcash', many.url], { DATA_DIR: dataDir });
    expect(code).toBe(0);
    await expectLists(onSqlite.publicOrigin);
  });

  async function expectLists(origin: string): Promise<void> {
    for (const wallet of wallets) {
      const expected = await many.listPayments(wallet.pubkey, new Set(), CANONICAL);
      expect(await wallet.withOrigin(origin).listQuotes()).toEqual(expected);
    }
  }
});

it('rejects a URL without a server, a database of something else, and other arguments', async () => {
  const nowhere = 'postgres://somebody:a-password@127.0.0.1:1/npubcash';
  await expect(runOperatorCommand(database, ['import-npubcash', nowhere])).rejects.toThrow(
    /^Cannot connect to the npubcash database \((?!.*a-password)/,
  );
  await expect(runOperatorCommand(database, ['import-npubcash', databaseUrl])).rejects.toThrow(
    'This is not the database of an npubcash server',
  );
  expect(await runOperatorCommand(database, ['import-npubcash', 'npubcash.sqlite'])).toMatchObject({
    exitCode: 2,
  });
});

/** A terminal that closes during the import of quotes. */
class LeavingTerminal extends TestTerminal {
  override reportProgress(line: string): void {
    if (/^\d.* quotes/.test(line) && numberOf(line.split(' ')[0]) >= 1_000) {
      this.abort();
    }
  }
}

function newWallet(): TestWallet {
  return new TestWallet(service.publicOrigin);
}

/** Some payments share a moment, rows are not in the order of payment, and keys differ in case. */
async function addPayments({ pubkey }: TestWallet, howMany: number): Promise<void> {
  const spellings = [...CANONICAL.keys()];
  for (let index = 0; index < howMany; index += 1) {
    const second = (index * 37) % Math.ceil(howMany / 2);
    await old.addQuote({
      pubkey: index % 5 === 0 ? pubkey.toUpperCase() : pubkey,
      paidAtMs: LONG_AGO_MS + second * 1000 + (index % 3) * 250,
      amount: index + 1,
      mintUrl: spellings[index % spellings.length] ?? '',
      state: index % 4 === 0 ? 'ISSUED' : 'PAID',
      locked: index % 7 === 0,
      zapRequest: index % 6 === 0 ? '{"kind": 9734}' : null,
      misspeltZapRequest: index % 6 === 1 ? '{"kind":9734,"content":"⚡"}' : null,
    });
  }
}

async function addSkipped(reason: string, quote: Partial<NpubcashQuote> & { pubkey: string }) {
  const id = await old.addQuote({ paidAtMs: LONG_AGO_MS, ...quote });
  expectedSkips.set(`mint_quotes ${id}`, reason);
}

async function addSkippedUser(reason: string, user: Parameters<NpubcashDatabase['addUser']>[0]) {
  expectedSkips.set(`l_users ${await old.addUser(user)}`, reason);
}

async function runImport(...options: string[]): Promise<string> {
  const terminal = new TestTerminal();
  const result = await runOperatorCommand(database, ['import-npubcash', old.url, ...options], {
    terminal,
  });
  expect(result).toMatchObject({ exitCode: 0, stderr: '' });
  return terminal.output + result.stdout;
}

async function infoOf(wallet: TestWallet) {
  return (await wallet.get('/api/v2/user/info')).body.data.user;
}

async function discover(user: string) {
  return (await requestJson(service.url, `/.well-known/lnurlp/${user}`)).body;
}

async function expectEqualLists(): Promise<void> {
  const skippedIds = [...expectedSkips.keys()].map((row) => Number(row.split(' ')[1]));
  for (const wallet of recipients) {
    const before = await old.listPayments(wallet.pubkey, new Set(skippedIds), CANONICAL);
    expect(await wallet.listQuotes()).toEqual(before);
  }
}

async function newInvoice() {
  const { body } = await requestJson(mint.url, '/v1/mint/quote/bolt11', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ amount: 21, unit: 'sat' }),
  });
  return { mintUrl: `${mint.url}/`, quoteId: body.quote, request: body.request, paidAtMs: null };
}

/** The reasons by row. */
function skipsIn(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(/^skipped (.*): (\w+)$/gm)].map(([, row = '', reason = '']) => [row, reason]),
  );
}

function numberOf(text = ''): number {
  return Number(text.replaceAll(',', ''));
}
