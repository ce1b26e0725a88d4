import { beforeEach, describe, expect, it } from 'vitest';
import { type Db, transaction } from '../../src/database/transaction.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { saveUserSettings } from '../../src/recipients/user-store.ts';
import { holdUsername } from '../../src/usernames/username-store.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import {
  buildUnpaidQuote,
  FIRST_PAID_AT_MS,
  insertPaidQuotes,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { TEST_DEFAULT_MINT_URL } from '../helpers/service/run-operator-command.ts';
import { setLockQuotes, setMint } from '../helpers/service/test-environment.ts';
import { useCommandTests } from '../helpers/service/use-command-tests.ts';

const DAY_MS = 24 * 60 * 60_000;

const { environment, prepareTest, run: runCommand, isPayable } = useCommandTests();
let db: Db;
let wallet: RecipientClient;
let name: string;

beforeEach(() => {
  ({ db, wallet, name } = prepareTest());
});

describe('nutpost user list', () => {
  it('lists users page by page, each once', async () => {
    const keys = [wallet, environment.newWallet(), environment.newWallet()].map((w) => w.pubkey);
    const mintUrl = `https://mint${name}.example`;
    for (const pubkey of keys) {
      await transaction(db, (tx) => saveUserSettings(tx, pubkey, { mintUrl }));
    }
    const pages = [];
    for (let page: string | undefined, i = 0; i === 0 || page !== undefined; i += 1) {
      const more = page === undefined ? [] : ['--page', page];
      const { users, nextPage } = await runJson(
        ...['user', 'list', '--mint', mintUrl, '--limit', '2', ...more],
      );
      pages.push(users.map(({ pubkey }: { pubkey: string }) => pubkey));
      page = nextPage;
    }
    expect(pages).toEqual([keys.toSorted().slice(0, 2), keys.toSorted().slice(2)]);
  });

  it('filters by blocks, uncollected payments and the default mint', async () => {
    const collected = environment.newWallet();
    const blocked = environment.newWallet();
    await insertPaidQuotes(environment.database, wallet.pubkey, [
      { paidAtMs: FIRST_PAID_AT_MS, amountSat: 1_000, state: 'ISSUED' },
      { paidAtMs: FIRST_PAID_AT_MS + 1_000, amountSat: 21 },
    ]);
    await insertPaidQuotes(environment.database, collected.pubkey, [
      { paidAtMs: FIRST_PAID_AT_MS, state: 'ISSUED' },
    ]);
    await run('user', 'block', blocked.npub);
    const list = async (...options: string[]) => {
      const { users } = await runJson('user', 'list', '--limit', '9999', ...options);
      const pubkeys = new Set(users.map(({ pubkey }: { pubkey: string }) => pubkey));
      return [wallet, collected, blocked].map(({ pubkey }) => pubkeys.has(pubkey));
    };
    expect(await list()).toEqual([true, true, true]);
    expect(await list('--uncollected')).toEqual([true, false, false]);
    expect(await list('--blocked')).toEqual([false, false, true]);
    expect(await list('--mint', TEST_DEFAULT_MINT_URL)).toEqual([true, true, true]);
    expect(await list('--mint', 'https://other.example')).toEqual([false, false, false]);
    const { stdout } = await run('user', 'list', '--uncollected', '--limit', '9999');
    expect(stdout).toContain(
      `${wallet.npub}  2 payments, the last at 2023-11-14T22:13:21.000Z, 21 sat not collected, ${TEST_DEFAULT_MINT_URL}\n`,
    );
  });
});

describe('nutpost user export', () => {
  it('prints all data of one user as JSON', async () => {
    const other = environment.newWallet();
    const quoteIds = await insertPaidQuotes(environment.database, wallet.pubkey, 2);
    await insertPaidQuotes(environment.database, other.pubkey, 1);
    await assignUsername(environment.database, wallet.pubkey, name);
    const terminal = new FakeTerminal();
    const { exitCode, stdout } = await runCommand(['user', 'export', name], { terminal });
    expect(exitCode).toBe(0);
    const exported = JSON.parse(terminal.output + stdout);
    expect(exported).toMatchObject({
      pubkey: wallet.pubkey,
      users: [{ pubkey: wallet.pubkey, name, paid_count: 2 }],
      usernames: [{ name, status: 'in_use' }],
      quotes: quoteIds.map((quote_id) => ({ quote_id, pubkey: wallet.pubkey })),
      notifications: [],
    });
    expect(exported.quotes).toHaveLength(2);
  });
});

describe('nutpost user delete', () => {
  it('changes nothing without --apply, and keeps what open payments need', async () => {
    const { mint, database } = environment;
    await insertPaidQuotes(database, wallet.pubkey, [
      { paidAtMs: FIRST_PAID_AT_MS, state: 'ISSUED' },
      { paidAtMs: FIRST_PAID_AT_MS + 1_000, amountSat: 42 },
      { paidAtMs: FIRST_PAID_AT_MS + 2_000, state: 'ISSUED' },
      { paidAtMs: FIRST_PAID_AT_MS + 3_000, amountSat: 43 },
    ]);
    await insertQuotes(db, [buildUnpaidQuote(wallet.pubkey)]);
    await db.updateTable('quotes').set({ watch_until: null }).execute();
    await assignUsername(database, wallet.pubkey, name);
    await setMint(wallet, mint.url);
    const openInvoice = await environment.requestInvoice(wallet, 44);

    const before = await wallet.listPaidQuotes();
    expect((await run('user', 'delete', name)).stdout).toContain('nothing was changed');
    expect(await wallet.listPaidQuotes()).toEqual(before);
    expect(await isPayable(name)).toBe(true);

    expect(await runJson('user', 'delete', name, '--apply')).toMatchObject({
      outcome: 'deleted',
      deletedQuotes: 3,
      keptQuotes: 3,
      keptSat: 85,
      keptBlock: false,
    });
    expect(await isPayable(name)).toBe(false);
    expect((await runJson('name', 'show', name)).availability).toBe('free');
    const { body } = await wallet.get('/api/v2/wallet/quotes');
    expect(body.metadata.total).toBe(2);
    expect(body.data.quotes).toEqual(before.filter(({ state }) => state === 'PAID'));

    const socket = await wallet.openSocket();
    mint.pay(openInvoice.pr);
    await socket.nextMessage();
    await socket.close();
    const amounts = (await wallet.listPaidQuotes()).map(({ amount }) => amount);
    expect(amounts).toEqual([44, 43, 42]);
  });

  it('deletes everything of a user without open payments, except a block', async () => {
    const quotes = [{ paidAtMs: FIRST_PAID_AT_MS, state: 'ISSUED' as const }];
    await insertPaidQuotes(environment.database, wallet.pubkey, quotes);
    await run('user', 'block', wallet.npub, '--reason', 'fraud');
    expect(await runJson('user', 'delete', wallet.npub, '--apply')).toMatchObject({
      deletedQuotes: 1,
      keptQuotes: 0,
      keptBlock: true,
    });
    expect(await isPayable(wallet.npub)).toBe(false);
    await run('user', 'unblock', wallet.npub);
    await run('user', 'delete', wallet.npub, '--apply');
    expect((await run('user', 'show', wallet.npub)).stderr).toContain('has no data');
  });

  it('exits with 1 if there is nothing to delete', async () => {
    for (const options of [[], ['--apply']]) {
      const { exitCode, stderr } = await run('user', 'delete', wallet.npub, ...options);
      expect({ exitCode, stderr }).toEqual({
        exitCode: 1,
        stderr: `The database has no data of ${wallet.npub}: nothing was deleted.\n`,
      });
    }
    expect((await runJson('audit', wallet.npub)).events).toEqual([]);
  });

  it('does not delete a user who is buying a username', async () => {
    const { pubkey, npub } = wallet;
    const purchaseId = `purchase${name}`;
    await holdUsername(db, name, { pubkey, purchaseId, nowMs: Date.now() });
    await db
      .insertInto('username_purchases')
      .values({
        ...{ id: purchaseId, pubkey, name, price_sat: 5, paid_sat: 5, state: 'open' },
        ...{ mint_url: UNREACHABLE_MINT_URL, created_at: 1, sealed_proofs: '', outputs: '[]' },
        next_attempt_at: Number.MAX_SAFE_INTEGER,
      })
      .execute();
    const { exitCode, stderr } = await run('user', 'delete', npub, '--apply');
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: expect.stringContaining('nothing was deleted'),
    });
    expect((await runJson('name', 'show', name)).availability).toBe('pending');
  });
});

describe('nutpost user set-mint', () => {
  it('moves future payments of a user to another mint, which must be one', async () => {
    const newMint = await startTestMint();
    expect(await run('user', 'set-mint', wallet.npub, UNREACHABLE_MINT_URL)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('Not changed: Could not get mint info'),
    });
    const { exitCode, stdout } = await run('user', 'set-mint', wallet.npub, `${newMint.url}/`);
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: expect.stringContaining(`receives at ${newMint.url} now`),
    });
    await environment.requestInvoice(wallet, 21);
    expect(newMint.quotes.size).toBe(1);
  });

  it('refuses a mint that cannot lock the quotes of a user who locks them', async () => {
    await setLockQuotes(wallet, true);
    const newMint = await startTestMint({ supportsLocking: false });
    expect((await run('user', 'set-mint', wallet.npub, newMint.url)).stderr).toContain(
      'Mint does not support locking',
    );
  });
});

describe('nutpost stats', () => {
  it('counts payments, sats, recipients and mints by day and by month', async () => {
    const other = environment.newWallet();
    const startMs = Date.parse('2032-01-31T23:59:59.999Z');
    await insertPaidQuotes(environment.database, wallet.pubkey, [
      { paidAtMs: startMs, amountSat: 10 },
      { paidAtMs: startMs + 1, amountSat: 20 },
    ]);
    await insertPaidQuotes(environment.database, other.pubkey, [
      { paidAtMs: startMs + 2, amountSat: 1_000 },
    ]);
    const nowMs = startMs + DAY_MS;
    const runStats = async (...options: string[]) => {
      const argv = ['stats', ...options];
      return (await runCommand(argv, { clock: () => nowMs })).stdout;
    };
    expect(await runStats('--csv')).toBe(
      'period,payments,sat,recipients,mints\n2032-01-31,1,10,1,1\n2032-02-01,2,1020,2,1\n',
    );
    expect(await runStats('--by', 'month', '--csv')).toContain(
      '\n2032-01,1,10,1,1\n2032-02,2,1020,2,1\n',
    );
    expect(await runStats('--since', '2032-01-01')).toMatch(
      /^period +payments +sat +recipients +mints\n2032-01-31 .*\n2032-02-01 .*\ntotal +3 +1,030 +2 +1\n$/,
    );
    expect(await runStats('--since', '2033-01-01', '--csv')).toBe(
      'period,payments,sat,recipients,mints\n',
    );
  });
});

describe('nutpost name assign', () => {
  it('gives a key a free or reserved name, and its old name a grace period', async () => {
    expect(await run('name', 'assign', name.toUpperCase(), wallet.npub)).toMatchObject({
      exitCode: 0,
      stdout: `${name} (${wallet.npub}) has the name.\n`,
    });
    expect(await isPayable(name)).toBe(true);
    await run('name', 'reserve', `${name}new`);
    expect(await run('name', 'assign', `${name}new`, wallet.pubkey)).toMatchObject({ exitCode: 0 });
    expect(await isPayable(`${name}new`)).toBe(true);
    expect((await runJson('name', 'show', name)).availability).toBe('in_grace');
    expect((await runJson('audit', `${name}new`)).events[0]).toMatchObject({
      action: 'name assign',
      before: { name },
      after: { name: `${name}new` },
    });
    expect(await run('name', 'assign', `${name}new`, wallet.npub)).toMatchObject({ exitCode: 0 });
  });

  it.each([
    ['a name in use', () => name, 'belongs to npub1'],
    ['a key in hex', () => '0123456789abcdef'.repeat(4), 'looks like a key'],
    ['a name like an npub', () => 'npubi2', 'looks like a key'],
    ['an invalid name', () => 'al-ice', 'is not a valid name'],
  ])('refuses %s', async (_what, getName, problem) => {
    await assignUsername(environment.database, environment.newWallet().pubkey, name);
    expect(await run('name', 'assign', getName(), wallet.npub)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(new RegExp(`${problem}.*\\nNothing was changed.\n$`)),
    });
    expect((await wallet.get('/api/v2/user/info')).body.data.user).not.toHaveProperty('name');
  });

  it('assigns all lines of a CSV file, or none, and only with --apply', async () => {
    const other = environment.newWallet();
    const line = `"${name}", ${wallet.npub}\r\n`;
    const assign = (csv: string, ...options: string[]) =>
      runCommand(['name', 'assign', '--csv', '-', ...options], {
        terminal: new FakeTerminal(csv),
      });
    const valid = `\uFEFFname,npub\r\n${line}${name}b,${other.npub}`;
    expect(await assign(valid)).toEqual({
      exitCode: 0,
      stdout:
        `${name} (${wallet.npub}) has the name.\n${name}b (${other.npub}) has the name.\n` +
        'Nothing was changed yet: --apply does it.\n',
      stderr: '',
    });
    expect(await isPayable(name)).toBe(false);
    // Two keys cannot have the same name.
    const twice = `name,npub\n${line}${name},${other.npub}`;
    expect(await assign(twice, '--apply')).toMatchObject({ exitCode: 1 });
    await expect(assign(`name,npub\n${name}`, '--apply')).rejects.toThrow('Line 2 does not fit');
    await expect(assign(`nom,npub\n${line}`, '--apply')).rejects.toThrow('Line 1 does not fit');
    expect(await isPayable(name)).toBe(false);
    expect(await assign(valid, '--apply')).toMatchObject({ exitCode: 0 });
    expect(await isPayable(name)).toBe(true);
    expect(await isPayable(`${name}b`)).toBe(true);
  });
});

it.each([
  [['user']],
  [['name', 'assign', 'alice']],
  [['name', 'assign', 'alice', '--csv', '-']],
  [['user', 'list', 'alice']],
  [['user', 'list', '--page', 'alice']],
  [['user', 'show', 'alice', '--apply']],
  [['user', 'set-mint', 'alice']],
  [['user', 'set-mint', 'alice', 'https://mint.example', 'https://other.example']],
  [['stats', '--by', 'year']],
  [['stats', '--since', '2026-02-31']],
  [['audit', '--since', '2026-02-30T12:00']],
  [['audit', '--page', '1-2']],
  [['trace', 'alice', '--amount', '-1']],
])('rejects the arguments %j with exit code 2 and prints the usage', async (argv) => {
  const { exitCode, stdout, stderr } = await run(...argv);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain(`Usage: nutpost <command>\n\n  ${argv[0]} `);
});

function run(...argv: string[]) {
  return runCommand(argv);
}

async function runJson(...argv: string[]) {
  return JSON.parse((await run(...argv, '--json')).stdout);
}
