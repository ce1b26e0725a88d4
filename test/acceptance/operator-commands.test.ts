import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openExistingDatabase } from '../../src/database/database.ts';
import { type Db, transaction } from '../../src/database/transaction.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { findUserByPubkey, saveUserSettings } from '../../src/recipients/user-store.ts';
import { claimUsername, findUsername, holdUsername } from '../../src/usernames/username-store.ts';
import { waitForNotificationDelivery } from '../helpers/database/database-notifications.ts';
import { createDatabaseWithAlice } from '../helpers/database/database-with-alice.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import {
  buildUnpaidQuote,
  FIRST_PAID_AT_MS,
  insertPaidQuotes,
} from '../helpers/recipients/quote-fixtures.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { useCommandTests } from '../helpers/service/use-command-tests.ts';

const NOW = '2026-08-01T12:00:00.000Z';
const NOW_MS = Date.parse(NOW);
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const IN_30_DAYS = '2026-08-31T12:00:00.000Z';
/** The service usually applies a change after one second. A busy machine needs longer. */
const CHANGE_TIMEOUT = { timeout: 10_000 };

const UNAVAILABLE = { status: 'ERROR', reason: 'Recipient unavailable.' };

const { environment, prepareTest, run, isPayable } = useCommandTests();
let db: Db;
let wallet: RecipientClient;
let name: string;

beforeEach(() => {
  ({ db, wallet, name } = prepareTest());
});

describe('nutpost name', () => {
  it('reserves and releases a free name', async () => {
    expect(await runNutpost('name', 'show', name)).toEqual(success(`${name} is free.\n`));
    expect(await runNutpost('name', 'reserve', name.toUpperCase())).toEqual(
      success(`${name} is now reserved.\n`),
    );
    expect(await runNutpost('name', 'show', name)).toEqual(
      success(`${name} is reserved.\n  Since         ${NOW} (0 s ago)\n`),
    );
    const { stdout } = await runNutpost('name', 'show', name, '--json');
    const reserved = { name, availability: 'reserved', status: 'reserved', statusSince: NOW };
    expect(JSON.parse(stdout)).toEqual({ outcome: 'found', now: NOW, ...reserved });
    await expect(assignUsername(environment.database, wallet.pubkey, name)).rejects.toThrow(
      'is not free',
    );
    expect(await runNutpostAt(NOW_MS + DAY_MS, 'name', 'reserve', name)).toEqual(
      success(`${name} is already reserved (since ${NOW}).\n`),
    );
    expect(await runNutpost('name', 'release', name)).toEqual(
      success(`${name} is now free. It was reserved since ${NOW}.\n`),
    );
    expect(await runNutpost('name', 'release', name)).toEqual(
      success(`${name} is already free.\n`),
    );
  });

  it.each(['reserve', 'release'])('does not %s a name in use without --in-use', async (action) => {
    await assignName(name);
    expect(await runNutpost('name', action, name)).toEqual(
      failure(
        `${name} is in use by ${wallet.npub} since ${NOW}: nothing was changed.` +
          ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.\n`,
      ),
    );
    expect(await isPayable(name)).toBe(true);
  });

  it('takes a name from its owner with --in-use, while the npub of the owner stays payable', async () => {
    await assignName(name);
    expect(await runNutpost('name', 'release', name, '--in-use')).toEqual(
      success(
        `${name} is now free. It was taken away from ${wallet.npub}, who had it since ${NOW} and can` +
          ' now be paid by npub only.\n',
      ),
    );
    expect(await isPayable(name)).toBe(false);
    expect(await isPayable(wallet.npub)).toBe(true);
    expect((await wallet.get('/api/v2/user/info')).body.data.user).not.toHaveProperty('name');
    const other = environment.newWallet();
    await assignUsername(environment.database, other.pubkey, name);
    expect(await lookUpNip05(name)).toMatchObject({ names: { [name]: other.pubkey } });
  });

  it('shows how long a released name stays reserved for its former owner', async () => {
    await assignName(name);
    await assignName(`${name}later`);
    expect(await runNutpost('name', 'show', name)).toEqual(
      success(`${name} was released: only its former owner can reclaim it, free of charge.
  Former owner  ${wallet.npub}
  Key           ${wallet.pubkey}
  Released      ${NOW} (0 s ago)
  Grace until   ${IN_30_DAYS} (in 30 days)
`),
    );
    const { stdout } = await runNutpostAt(NOW_MS + 30 * DAY_MS, 'name', 'show', name);
    expect(stdout).toMatch(new RegExp(`^${name} is free\\.\n {2}Former owner {2}${wallet.npub}\n`));
    expect((await runNutpost('name', 'release', name)).stdout).toContain(`${name} is now free. `);
    expect(await holdName()).toBe(true);
  });

  it('does not change a name while its purchase is in progress', async () => {
    await holdName();
    expect(await runNutpost('name', 'show', name)).toEqual(
      success(`${name} is being bought.
  Buyer         ${wallet.npub}
  Key           ${wallet.pubkey}
  Since         ${NOW} (0 s ago)
  Purchase      p1
`),
    );
    for (const action of ['reserve', 'release']) {
      expect(await runNutpost('name', action, name, '--in-use')).toEqual(
        failure(
          `${name} is being bought by ${wallet.npub} since ${NOW}: nothing was changed. Try again` +
            ' when the purchase has ended.\n',
        ),
      );
    }
    expect(await findUsername(db, name)).toMatchObject({ status: 'pending', purchaseId: 'p1' });
  });

  it.each([
    ['postmaster', 'it is on the built-in list'],
    ['acme', 'it is in USERNAME_RESERVED'],
  ])('does not release the always reserved name %s', async (reservedName, why) => {
    const runNutpostName = (...argv: string[]) =>
      run(['name', ...argv], {
        env: { USERNAME_RESERVED: 'acme' },
      });
    expect(await runNutpostName('show', reservedName)).toEqual(
      success(`${reservedName} is reserved: ${why}.\n`),
    );
    expect(await runNutpostName('reserve', reservedName)).toEqual(
      success(`${reservedName} is already reserved (${why}).\n`),
    );
    expect(await runNutpostName('release', reservedName, '--in-use')).toEqual(
      failure(`${reservedName} stays reserved (${why}): no command can release it.\n`),
    );
  });
});

describe('a blocked recipient', () => {
  beforeEach(() => assignUsername(environment.database, wallet.pubkey, name));

  it.each([
    ['GET', '?amount=21000'],
    ['HEAD', ''],
  ])('looks to a %s request like an unknown name', async (method, query) => {
    await runNutpost('user', 'block', wallet.npub);
    const quoteCountBefore = environment.mint.quotes.size;
    const unknownResponse = await discover(`unknown${name}`, query, method);
    expect(unknownResponse.status).toBe(200);
    for (const address of [wallet.npub, wallet.npub.toUpperCase(), name, name.toUpperCase()]) {
      expect(await discover(address, query, method)).toEqual(unknownResponse);
    }
    expect(JSON.parse(unknownResponse.text)).toEqual(method === 'HEAD' ? null : UNAVAILABLE);
    expect(await lookUpNip05(name)).toEqual({ names: {}, relays: {} });
    expect(environment.mint.quotes.size).toBe(quoteCountBefore);
  });

  it('can sign in and change settings, and keeps the name', async () => {
    await runNutpost('user', 'block', wallet.npub);
    expect((await wallet.get('/api/v2/auth/nip98')).status).toBe(200);
    const { body } = await wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: true });
    expect(body.data.user).toMatchObject({ name, lockQuote: true });
  });
});

describe('nutpost user', () => {
  it('keeps the time of the first block and the reason of the last', async () => {
    const { pubkey, npub } = wallet;
    const laterMs = NOW_MS + DAY_MS;
    await runNutpost('user', 'block', npub, '--reason', ' said to be a fraud ');
    expect(await runNutpostAt(laterMs, 'user', 'block', npub)).toEqual(
      success(`${npub} is already blocked, since ${NOW}: said to be a fraud.\n`),
    );
    expect(await runNutpostAt(laterMs, 'user', 'block', npub, '--reason', 'is one')).toEqual(
      success(`${npub} is already blocked, since ${NOW}: is one.\n`),
    );
    expect(await runNutpostAt(laterMs, 'user', 'unblock', npub)).toEqual(
      success(`${npub} is unblocked; it was blocked since ${NOW}: is one.\n`),
    );
    expect(await runNutpost('user', 'unblock', npub)).toEqual(success(`${npub} is not blocked.\n`));
    expect((await runNutpost('user', 'show', npub)).stdout).toContain(
      `  Blocked       no\n  Unblocked     ${new Date(laterMs).toISOString()} (in 24 h); it was blocked since ${NOW}: is one\n`,
    );
    // A later block has nothing to do with the earlier one.
    await runNutpostAt(laterMs + DAY_MS, 'user', 'block', npub);
    const { block } = (await findUserByPubkey(db, pubkey)) ?? {};
    expect(block).toEqual({ sinceMs: laterMs + DAY_MS, reason: null });
    // All blocks stay in the audit trail, and commands that changed nothing do not.
    const events = await db.selectFrom('audit_events').selectAll().orderBy('id').execute();
    const root = { actor_kind: 'command', actor: 'root', pubkey, name: null } as const;
    expect(events.filter((event) => event.pubkey === pubkey)).toMatchObject([
      { ...root, at: NOW_MS, action: 'user block', before: null },
      { ...root, action: 'user block', after: `{"sinceMs":${NOW_MS},"reason":"is one"}` },
      { ...root, action: 'user unblock', after: null },
      { ...root, action: 'user block', before: null },
    ]);
  });

  it('rejects a former name and reports its former owner', async () => {
    await assignName(name);
    await assignName(`${name}new`);
    expect(await runNutpost('user', 'block', name)).toEqual(
      failure(
        `No user has the name ${name}. ${wallet.npub} had it before: use the npub if you mean that user.\n`,
      ),
    );
    expect((await findUserByPubkey(db, wallet.pubkey))?.block).toBeNull();
  });

  it('shows all stored data of a user', async () => {
    const { pubkey, npub } = wallet;
    const startMs = FIRST_PAID_AT_MS;
    const startTime = '2023-11-14T22:13:20.000Z';
    const assignment = { pubkey, nowMs: startMs, graceMs: 30 * DAY_MS };
    await transaction(db, (tx) => claimUsername(tx, `${name}old`, assignment));
    await transaction(db, (tx) => claimUsername(tx, `${name}new`, assignment));
    await holdUsername(db, `${name}next`, { pubkey, purchaseId: 'p1', nowMs: startMs });
    await transaction(db, (tx) =>
      saveUserSettings(tx, pubkey, { mintUrl: 'https://mint.example', lockQuotes: true }),
    );
    await insertPaidQuotes(environment.database, pubkey, 3);
    await insertQuotes(db, [buildUnpaidQuote(pubkey)]);
    await runNutpostAt(startMs, 'user', 'block', npub, '--reason', 'asked for it');

    const { stdout } = await runNutpostAt(startMs + MINUTE_MS, 'user', 'show', npub, '--json');
    const username = { npub, pubkey, statusSince: startTime };
    expect(JSON.parse(stdout)).toEqual({
      outcome: 'found',
      now: '2023-11-14T22:14:20.000Z',
      npub,
      pubkey,
      name: `${name}new`,
      mintUrl: 'https://mint.example',
      lockQuotes: true,
      block: { since: startTime, reason: 'asked for it' },
      usernames: [
        { ...username, name: `${name}new`, status: 'in_use' },
        { ...username, name: `${name}next`, status: 'pending', purchaseId: 'p1' },
        {
          ...username,
          name: `${name}old`,
          status: 'released',
          graceEndsAt: '2023-12-14T22:13:20.000Z',
        },
      ],
      paymentCount: 3,
      lastPaidAt: '2023-11-14T22:13:22.000Z',
      openQuoteCount: 1,
      hasMoreOpenQuotes: false,
      purchases: { open: 0, completed: 0, failed: 0 },
    });
  });
});

it('applies blocks and name releases to a service in another process within seconds', async () => {
  const prepared = await createDatabaseWithAlice();
  onTestFinished(() => prepared.remove());
  const env = { ...prepared.env, DEFAULT_MINT_URL: environment.mint.url };
  const origin = await new NutpostProcess('serve', env).waitForUrl();
  const database = await openExistingDatabase(prepared.location);
  onTestFinished(() => database.close());
  const runCommand = async (...argv: string[]) => {
    expect(await runOperatorCommand(database, argv)).toMatchObject({ exitCode: 0, stderr: '' });
  };
  const discoverAt = async (address: string) =>
    (await requestJson(origin, `/.well-known/lnurlp/${address}`)).body;
  const payRequest = expect.objectContaining({ tag: 'payRequest' });
  const waitForDiscovery = (address: string, expected: object) =>
    vi.waitFor(async () => expect(await discoverAt(address)).toEqual(expected), CHANGE_TIMEOUT);

  const { npub } = prepared.alice;
  expect(await discoverAt(npub)).toEqual(payRequest);
  await runCommand('user', 'block', npub);
  await waitForDiscovery(npub, UNAVAILABLE);
  await runCommand('user', 'unblock', 'alice');
  await waitForDiscovery('alice', payRequest);
  await runCommand('name', 'release', 'alice', '--in-use');
  await waitForDiscovery('alice', UNAVAILABLE);
});

it.each([
  [['name', 'show', 'alice', '--in-use']],
  [['name', 'reserve', 'al-ice']],
  [['user', 'show', 'alice', '--reason', 'why']],
  [['user', 'block', 'alice', '--reason', 'two\nlines']],
  // Not a public key: this is not the x coordinate of a curve point.
  [['user', 'block', 'f'.repeat(64)]],
  [['trace', '--every', 'a']],
  [['treasury', 'withdraw', '--amount', '0']],
  [['treasury', 'spend']],
])('rejects the arguments %j with exit code 2 and prints the usage', async (argv) => {
  const { exitCode, stdout, stderr } = await run(argv);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain(`Usage: nutpost <command>\n\n  ${argv[0]} `);
});

function runNutpost(...argv: string[]) {
  return runNutpostAt(NOW_MS, ...argv);
}

function runNutpostAt(nowMs: number, ...argv: string[]) {
  return run(argv, { clock: () => nowMs });
}

function success(stdout: string) {
  return { exitCode: 0, stdout, stderr: '' };
}

function failure(stderr: string) {
  return { exitCode: 1, stdout: '', stderr };
}

async function assignName(newName: string): Promise<void> {
  const assignment = { pubkey: wallet.pubkey, nowMs: NOW_MS, graceMs: 30 * DAY_MS };
  await transaction(db, (tx) => claimUsername(tx, newName, assignment));
  await waitForNotificationDelivery(environment.database);
}

function holdName(): Promise<boolean> {
  return holdUsername(db, name, { pubkey: wallet.pubkey, purchaseId: 'p1', nowMs: NOW_MS });
}

async function discover(address: string, query = '', method = 'GET') {
  const path = `/.well-known/lnurlp/${address}${query}`;
  const response = await requestJson(environment.origin, path, { method });
  const headers = Object.fromEntries(response.headers);
  delete headers['date'];
  delete headers['x-request-id'];
  return { status: response.status, headers, text: JSON.stringify(response.body) };
}

async function lookUpNip05(username: string): Promise<unknown> {
  return (await requestJson(environment.origin, `/.well-known/nostr.json?name=${username}`)).body;
}
