import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { type Database, openDatabase } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createOperationsDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { createDataDir } from '../helpers/database/test-database.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  createTestConfig,
  TEST_JWT_SECRET,
  TEST_TREASURY_SECRET,
} from '../helpers/service/test-environment.ts';
import { NpubcashDatabase, type NpubcashQuote } from './npubcash/npubcash-database.ts';

/** Imports an npubcash database and compares what the HTTP API returns with the npubcash data. */

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;

/** A whole second, so long ago that the service no longer watches the payments of that time. */
const LONG_AGO_MS = Math.floor((Date.now() - 100 * DAY_MS) / 1000) * 1000;

/** Normalised URL by mint URL. The keys are different spellings of two mints. */
const NORMALISED_MINT_URLS = new Map([
  ['https://mint.example', 'https://mint.example'],
  ['https://Mint.Example/', 'https://mint.example'],
  ['https://mint.example:443', 'https://mint.example'],
  ['https://other.example/Bitcoin//', 'https://other.example/Bitcoin'],
]);

const LIST_LENGTHS = [0, 1, 2, 49, 50, 51, 130];

const cleanup = new AsyncDisposableStack();
/** The reason for which the import must skip a row, by the table and id of the row. */
const expectedSkips = new Map<string, string>();
const recipients: RecipientClient[] = [];
let mint: TestMint;
let npubcash: NpubcashDatabase;
let databaseUrl: string;
let database: Database;
let service: Service;

beforeAll(async () => {
  mint = await TestMint.start();
  cleanup.defer(() => mint.close());
  npubcash = await NpubcashDatabase.create();
  cleanup.defer(() => npubcash.close());
  const { url, drop } = await createOperationsDatabase();
  cleanup.defer(drop);
  databaseUrl = url;
  database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  cleanup.defer(() => database.close());
  service = await startService(createTestConfig(mint.url), {
    database,
    log: createLogger('silent'),
    pollIntervalMs: 0,
  });
  cleanup.defer(() => service.stop());
  for (const length of LIST_LENGTHS) {
    const wallet = newWallet();
    recipients.push(wallet);
    await addPayments(wallet, length);
  }
});

afterAll(() => cleanup.disposeAsync());

it('imports every payment list, skips invalid rows, and adds nothing when run again', async () => {
  const wallets = [newWallet(), newWallet()];
  // The import reads paid rows in the order of the public keys, and skips further rows of the same quote.
  const [wallet, walletWithHigherKey] = wallets.toSorted((a, b) =>
    a.pubkey < b.pubkey ? -1 : 1,
  ) as [RecipientClient, RecipientClient];
  recipients.push(wallet, walletWithHigherKey);
  const { pubkey } = wallet;
  // 32 bytes that are not a public key.
  await addSkippedQuote('bad_pubkey', { pubkey: '0'.repeat(64) });
  await addSkippedQuote('bad_pubkey', { pubkey: wallet.npub });
  await addSkippedQuote('bad_mint_url', { pubkey, mintUrl: 'mint.example' });
  await addSkippedQuote('bad_quote_id', { pubkey, quoteId: '' });
  await addSkippedQuote('other_unit', { pubkey, unit: 'usd' });
  await addSkippedQuote('bad_amount', { pubkey, amount: 0, request: 'lnbc1' });
  await addSkippedQuote('unknown_state', { pubkey, state: 'REFUNDED' });
  await addSkippedQuote('no_invoice', { pubkey, request: null, state: 'UNPAID', paidAtMs: null });
  const sameQuote = { pubkey, quoteId: randomUUID() };
  await addSkippedQuote('same_quote_twice', { ...sameQuote, state: 'UNPAID', paidAtMs: null });
  await addSkippedQuote('same_quote_twice', { ...sameQuote, paidAtMs: LONG_AGO_MS + 1 });
  const mintUrl = 'https://Mint.Example/';
  await npubcash.addQuote({ ...sameQuote, mintUrl, paidAtMs: LONG_AGO_MS });
  await addSkippedQuote('same_quote_twice', { ...sameQuote, pubkey: walletWithHigherKey.pubkey });

  const dryRunOutput = await runImport('--dry-run');
  const dryRun = JSON.parse(await runImport('--dry-run', '--json'));
  for (const recipient of recipients) {
    expect(await recipient.listPaidQuotes()).toEqual([]);
  }
  // The payments of all lists, and one payment that occurs in several rows.
  const paymentCount = LIST_LENGTHS.reduce((sum, length) => sum + length, 1);
  const { code, stdout } = await runNutpostCommand(['import-npubcash', npubcash.url], {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
  });
  expect(code).toBe(0);
  expect(dryRun).toMatchObject({ payments: { added: paymentCount, existing: 0 } });
  expect(stdout).toContain(`  Payments  ${paymentCount} new, 0 already here`);
  expect(dryRunOutput).toBe(
    stdout.replace('Imported:', 'An import would add (nothing was changed):'),
  );
  expect(parseSkips(stdout)).toEqual(expectedSkips);
  await expectImportedLists();

  const secondOutput = await runImport();
  expect(secondOutput).toContain(`  Payments  0 new, ${paymentCount} already here`);
  expect(parseSkips(secondOutput)).toEqual(expectedSkips);
  await expectImportedLists();
});

it('lists an imported payment with the time of the import if the list already has a newer payment', async () => {
  const wallet = newWallet();
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  mint.pay((await requestJson(service.url, path)).body.pr);
  await expect.poll(() => wallet.listPaidQuotes()).toHaveLength(1);
  const [{ paidAt } = {}] = await wallet.listPaidQuotes();
  const { pubkey } = wallet;
  const [earlierQuoteId, undatedQuoteId] = [randomUUID(), randomUUID()];
  await npubcash.addQuote({ pubkey, paidAtMs: LONG_AGO_MS, quoteId: earlierQuoteId });
  await npubcash.addQuote({ pubkey, paidAtMs: null, quoteId: undatedQuoteId });
  const socket = await wallet.openSocket();
  onTestFinished(() => socket.close());
  expect(await runImport()).toContain('2 payments listed as paid now');
  expect(await socket.nextMessage()).toMatchObject({ type: 'update' });
  // A wallet requests only payments that are later than the newest payment it knows.
  const list = await wallet.listPaidQuotes();
  const newPayments = list.filter((quote) => Number(quote['paidAt']) > Number(paidAt));
  expect(newPayments.map(({ quoteId }) => quoteId)).toEqual([undatedQuoteId, earlierQuoteId]);
});

it('watches imported invoices that may still be paid or may be paid without a record in npubcash', async () => {
  const wallet = newWallet();
  const { pubkey } = wallet;
  const addInvoice = async (state: string, ageMs: number) => {
    const invoice = await createMintInvoice();
    await npubcash.addQuote({ ...invoice, pubkey, state, createdAtMs: Date.now() - ageMs });
    return invoice;
  };
  const open = await addInvoice('UNPAID', 0);
  const expired = await addInvoice('EXPIRED', 2 * HOUR_MS);
  const missed = await addInvoice('UNPAID', 3 * DAY_MS);
  await npubcash.addQuote({ pubkey, state: 'EXPIRED', createdAtMs: LONG_AGO_MS });
  mint.pay(expired.request);
  mint.pay(missed.request);
  const stdout = await runImport();
  expect(stdout).toContain('  Invoices  4 new');
  expect(stdout).toContain('3 quotes watched from now on.');
  await expect.poll(() => wallet.listPaidQuotes()).toHaveLength(2);
  mint.pay(open.request);
  await expect.poll(() => wallet.listPaidQuotes()).toHaveLength(3);
});

it('imports names, settings and blocks, and a second import keeps changes made since then', async () => {
  const [alice, bob, blocked, uppercaseUser] = [newWallet(), newWallet(), newWallet(), newWallet()];
  const impostor = newWallet();
  await addSkippedUser('name_taken', { pubkey: blocked.pubkey, name: 'ALICE' });
  await npubcash.addUser({ pubkey: alice.pubkey, name: 'alice', mint_url: `${mint.url}/` });
  await npubcash.addUser({ pubkey: bob.pubkey, mint_url: mint.url, lock_quote: true });
  await npubcash.addUser({ pubkey: impostor.pubkey, name: 'satoshi' });
  await npubcash.addUser({ pubkey: uppercaseUser.pubkey.toUpperCase(), name: 'Loud' });
  const uppercasePubkey = uppercaseUser.pubkey.toUpperCase();
  await addSkippedUser('has_another_name', { pubkey: uppercasePubkey, name: 'Second' });
  await addSkippedUser('bad_name', { pubkey: newWallet().pubkey, name: 'no spaces' });
  await addSkippedUser('bad_mint_url', { pubkey: newWallet().pubkey, mint_url: 'nowhere' });
  await addSkippedUser('bad_pubkey', { pubkey: 'nobody' });
  await npubcash.blockRecipient(blocked.pubkey);
  const listAuditedImports = async () => {
    const { stdout } = await runOperatorCommand(database, ['audit', '--limit', '999', '--json']);
    const { events } = JSON.parse(stdout);
    return events.filter(({ action }: { action: string }) => action === 'import-npubcash');
  };
  const earlierImports = await listAuditedImports();
  for (const output of [await runImport('--dry-run'), await runImport()]) {
    for (const line of ['Users     7 new, 1 already', 'Names     3 new, 0', 'Blocks    1 new, 0']) {
      expect(output).toContain(line);
    }
    expect(parseSkips(output)).toEqual(expectedSkips);
  }
  expect(await listAuditedImports()).toEqual([
    expect.objectContaining({ after: { server: new URL(npubcash.url).host } }),
    ...earlierImports,
  ]);

  expect(await fetchUserInfo(alice)).toMatchObject({ name: 'alice', mintUrl: mint.url });
  expect(await fetchUserInfo(uppercaseUser)).toMatchObject({ name: 'loud' });
  expect(await fetchUserInfo(bob)).toMatchObject({ mintUrl: mint.url, lockQuote: true });
  expect(await fetchLnurlResponse(blocked.npub)).toMatchObject({ status: 'ERROR' });

  await bob.send('PATCH', '/api/v2/user/lock', { lockQuotes: false });
  await runOperatorCommand(database, ['user', 'unblock', blocked.npub]);
  await runOperatorCommand(database, ['name', 'release', 'satoshi', '--in-use']);
  const secondOutput = await runImport();
  for (const text of ['Users     0 new', 'Names     0 new', 'Blocks    0 new', 'name_released: ']) {
    expect(secondOutput).toContain(text);
  }
  expect(await fetchUserInfo(impostor)).not.toHaveProperty('name');
  expect(await fetchUserInfo(bob)).toMatchObject({ lockQuote: false });
  expect(await fetchLnurlResponse(blocked.npub)).toMatchObject({ tag: 'payRequest' });
});

it('reports the proofs that it does not import, without their secrets', async () => {
  await npubcash.addProofs();
  const stdout = await runImport();
  expect(stdout).toContain('proofs: 2 rows, 10 sat, UNSPENT (your earnings');
  expect(stdout).not.toMatch(/secret-of-a-proof|another-secret/);
});

describe('import of many payments', () => {
  const paymentsPerRecipient = 700;
  const wallets = Array.from({ length: 3 }, () => new RecipientClient('http://localhost'));
  let largeNpubcash: NpubcashDatabase;

  beforeAll(async () => {
    largeNpubcash = await NpubcashDatabase.create();
    cleanup.defer(() => largeNpubcash.close());
    const pubkeys = wallets.map(({ pubkey }) => pubkey);
    await largeNpubcash.addManyPayments(pubkeys, paymentsPerRecipient, LONG_AGO_MS);
  });

  it('continues after an interruption without missing, duplicate or misordered payments', async () => {
    const terminal = new InterruptingTerminal();
    await expect(
      runOperatorCommand(database, ['import-npubcash', largeNpubcash.url], { terminal }),
    ).rejects.toThrow();
    const { stdout } = await runOperatorCommand(database, ['import-npubcash', largeNpubcash.url]);
    const [, secondRunCount, firstRunCount] =
      /Payments {2}([\d,]+) new, ([\d,]+) already/.exec(stdout) ?? [];
    expect([parseCount(firstRunCount), parseCount(secondRunCount)]).not.toContain(0);
    expect(parseCount(firstRunCount) + parseCount(secondRunCount)).toBe(
      wallets.length * paymentsPerRecipient,
    );
    await expectPaymentLists(service.publicOrigin);
  });

  it('writes to the SQLite database of a running service', async () => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const config = createTestConfig(mint.url, { DATA_DIR: dataDir });
    const sqliteService = await startService(config, { log: createLogger('silent') });
    onTestFinished(() => sqliteService.stop());
    const { code } = await runNutpostCommand(['import-npubcash', largeNpubcash.url], {
      DATA_DIR: dataDir,
    });
    expect(code).toBe(0);
    await expectPaymentLists(sqliteService.publicOrigin);
  });

  async function expectPaymentLists(origin: string): Promise<void> {
    for (const wallet of wallets) {
      const { pubkey } = wallet;
      const expected = await largeNpubcash.listPayments(pubkey, new Set(), NORMALISED_MINT_URLS);
      expect(await wallet.withOrigin(origin).listPaidQuotes()).toEqual(expected);
    }
  }
});

it('rejects an unreachable server, a database of another program, and an argument that is no URL', async () => {
  const unreachableUrl = 'postgres://npubcash:a-password@127.0.0.1:1/npubcash';
  const importFrom = (url: string) => runOperatorCommand(database, ['import-npubcash', url]);
  await expect(importFrom(unreachableUrl)).rejects.toThrow(
    /^Cannot connect to the npubcash database \((?!.*a-password)/,
  );
  await expect(importFrom(databaseUrl)).rejects.toThrow('This is not the database of an npubcash');
  expect(await importFrom('npubcash.sqlite')).toMatchObject({ exitCode: 2 });
});

/** Interrupts the command when it reports that it has imported 1,000 quotes. */
class InterruptingTerminal extends FakeTerminal {
  override reportProgress(line: string): void {
    if (/^\d.* quotes/.test(line) && parseCount(line.split(' ')[0]) >= 1_000) {
      throw new Error('interrupted');
    }
  }
}

function newWallet(): RecipientClient {
  return new RecipientClient(service.publicOrigin);
}

/**
 * Adds payments to one recipient. Some have the same time, the rows are not sorted by time, and the public key is in
 * upper or lower case.
 */
async function addPayments({ pubkey }: RecipientClient, count: number): Promise<void> {
  const spellings = [...NORMALISED_MINT_URLS.keys()];
  for (let index = 0; index < count; index += 1) {
    const second = (index * 37) % Math.ceil(count / 2);
    await npubcash.addQuote({
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

async function addSkippedQuote(reason: string, quote: Partial<NpubcashQuote> & { pubkey: string }) {
  const id = await npubcash.addQuote({ paidAtMs: LONG_AGO_MS, ...quote });
  expectedSkips.set(`mint_quotes ${id}`, reason);
}

async function addSkippedUser(reason: string, user: Parameters<NpubcashDatabase['addUser']>[0]) {
  expectedSkips.set(`l_users ${await npubcash.addUser(user)}`, reason);
}

async function runImport(...options: string[]): Promise<string> {
  const terminal = new FakeTerminal();
  const argv = ['import-npubcash', npubcash.url, ...options];
  const result = await runOperatorCommand(database, argv, { terminal });
  expect(result).toMatchObject({ exitCode: 0, stderr: '' });
  return terminal.output + result.stdout;
}

async function fetchUserInfo(wallet: RecipientClient) {
  return (await wallet.get('/api/v2/user/info')).body.data.user;
}

async function fetchLnurlResponse(user: string) {
  return (await requestJson(service.url, `/.well-known/lnurlp/${user}`)).body;
}

async function expectImportedLists(): Promise<void> {
  const skippedIds = new Set([...expectedSkips.keys()].map((row) => Number(row.split(' ')[1])));
  for (const wallet of recipients) {
    const { pubkey } = wallet;
    const expected = await npubcash.listPayments(pubkey, skippedIds, NORMALISED_MINT_URLS);
    expect(await wallet.listPaidQuotes()).toEqual(expected);
  }
}

async function createMintInvoice() {
  const { body } = await requestJson(mint.url, '/v1/mint/quote/bolt11', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ amount: 21, unit: 'sat' }),
  });
  return { mintUrl: `${mint.url}/`, quoteId: body.quote, request: body.request, paidAtMs: null };
}

function parseSkips(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(/^skipped (.*): (\w+)$/gm)].map(([, row = '', reason = '']) => [row, reason]),
  );
}

function parseCount(text = ''): number {
  return Number(text.replaceAll(',', ''));
}
