import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Store } from '../../src/store.ts';
import { assignUsername } from '../helpers/names.ts';
import { waitForNotifications } from '../helpers/notification-barrier.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/nutpost-process.ts';
import { runOperatorCommand } from '../helpers/operator-command.ts';
import { createPreparedDatabase } from '../helpers/prepared-database.ts';
import { buildUnpaidQuote, FIRST_PAID_AT_MS, insertPayments } from '../helpers/quotes.ts';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import { requestJson, type TestWallet } from '../helpers/test-wallet.ts';

const NOW = '2026-08-01T12:00:00.000Z';
const NOW_MS = Date.parse(NOW);
const DAY_MS = 24 * 60 * 60_000;
const IN_30_DAYS = '2026-08-31T12:00:00.000Z';
/** The service applies a change after one second; a busy machine needs longer. */
const CHANGE_TIMEOUT = { timeout: 10_000 };

const UNAVAILABLE = { status: 'ERROR', reason: 'Recipient unavailable.' };

const world = useTestEnvironment();
let store: Store;
let wallet: TestWallet;
/** Unique per test. */
let name: string;
let nameCount = 0;

beforeAll(async () => {
  store = new Store(world.database.db);
});

beforeEach(() => {
  wallet = world.newWallet();
  nameCount += 1;
  name = `alice${nameCount}`;
});

describe('nutpost name', () => {
  it('reserves and releases a free name', async () => {
    expect(await nutpost('name', 'show', name)).toEqual(success(`${name} is free.\n`));
    expect(await nutpost('name', 'reserve', name.toUpperCase())).toEqual(
      success(`${name} is now reserved.\n`),
    );
    expect(await nutpost('name', 'show', name)).toEqual(
      success(`${name} is reserved.\n  Since         ${NOW} (0 s ago)\n`),
    );
    await expect(assignUsername(world.database, wallet.pubkey, name)).rejects.toThrow(
      'is not free',
    );
    expect(await holdName()).toBe(false);
    expect(await nutpostAt(NOW_MS + DAY_MS, 'name', 'reserve', name)).toEqual(
      success(`${name} is already reserved (since ${NOW}).\n`),
    );
    expect(await nutpost('name', 'release', name)).toEqual(
      success(`${name} is now free. It was reserved since ${NOW}.\n`),
    );
    expect(await nutpost('name', 'release', name)).toEqual(success(`${name} is already free.\n`));
    await assignUsername(world.database, wallet.pubkey, name);
    expect(await isPayable(name)).toBe(true);
  });

  it.each(['reserve', 'release'])('does not %s a name in use without --in-use', async (action) => {
    await assignName(name);
    expect(await nutpost('name', action, name)).toEqual(
      failure(
        `${name} is in use by ${wallet.npub} since ${NOW}: nothing was changed.` +
          ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.\n`,
      ),
    );
    expect(await isPayable(name)).toBe(true);
  });

  it('takes a name from its owner with --in-use; the owner can still be paid by npub', async () => {
    await assignName(name);
    expect(await nutpost('name', 'release', name, '--in-use')).toEqual(
      success(
        `${name} is now free. It was taken away from ${wallet.npub}, who had it since ${NOW} and can` +
          ' now be paid by npub only.\n',
      ),
    );
    expect(await isPayable(name)).toBe(false);
    expect(await isPayable(wallet.npub)).toBe(true);
    const { user } = (await wallet.get('/api/v2/user/info')).body.data;
    expect(user).toEqual({ pubkey: wallet.pubkey, mintUrl: world.mint.url, lockQuote: false });
    const other = world.newWallet();
    await assignUsername(world.database, other.pubkey, name);
    expect(await lookUp(name)).toMatchObject({ names: { [name]: other.pubkey } });
  });

  it('releases a name only once if two operators release it concurrently', async () => {
    await assignName(name);
    const results = await Promise.all(
      [1, 2].map(() => nutpost('name', 'release', name, '--in-use', '--json')),
    );
    const outcomes = results.map(({ stdout }) => JSON.parse(stdout).outcome);
    expect(outcomes.filter((each) => each === 'released')).toHaveLength(1);
    expect(await store.usernames.find(name)).toBeNull();
  });

  it('shows how long a released name stays reserved for its former owner', async () => {
    await assignName(name);
    await assignName(`${name}later`);
    expect(await nutpost('name', 'show', name)).toEqual(
      success(`${name} was released: only its former owner can reclaim it, free of charge.
  Former owner  ${wallet.npub}
  Key           ${wallet.pubkey}
  Released      ${NOW} (0 s ago)
  Grace until   ${IN_30_DAYS} (in 30 days)
`),
    );
    const { stdout } = await nutpostAt(NOW_MS + 30 * DAY_MS, 'name', 'show', name);
    expect(stdout).toMatch(new RegExp(`^${name} is free\\.\n {2}Former owner {2}${wallet.npub}\n`));
    expect((await nutpost('name', 'release', name)).stdout).toContain(`${name} is now free. `);
    expect(await holdName()).toBe(true);
  });

  it('does not change a name while its purchase is in progress', async () => {
    await holdName();
    expect(await nutpost('name', 'show', name)).toEqual(
      success(`${name} is being bought.
  Buyer         ${wallet.npub}
  Key           ${wallet.pubkey}
  Since         ${NOW} (0 s ago)
  Purchase      p1
`),
    );
    for (const action of ['reserve', 'release']) {
      expect(await nutpost('name', action, name, '--in-use')).toEqual(
        failure(
          `${name} is being bought by ${wallet.npub} since ${NOW}: nothing was changed. Try again` +
            ' when the purchase has ended.\n',
        ),
      );
    }
    expect(await store.usernames.find(name)).toMatchObject({ status: 'pending', purchaseId: 'p1' });
  });

  it.each([
    ['postmaster', 'it is on the built-in list'],
    ['acme', 'it is in USERNAME_RESERVED'],
  ])('does not release the listed name %s', async (listed, why) => {
    const nutpostName = (...argv: string[]) =>
      runOperatorCommand(world.database, ['name', ...argv], { reservedNames: ['acme'] });
    expect(await nutpostName('show', listed)).toEqual(success(`${listed} is reserved: ${why}.\n`));
    expect(await nutpostName('reserve', listed)).toEqual(
      success(`${listed} is already reserved (${why}).\n`),
    );
    expect(await nutpostName('release', listed, '--in-use')).toEqual(
      failure(`${listed} stays reserved (${why}): no command can release it.\n`),
    );
  });

  it('prints JSON with --json', async () => {
    await assignName(name);
    const key = { npub: wallet.npub, pubkey: wallet.pubkey };
    const inUseStatus = { name, standing: 'in_use', key, since: NOW };
    for (const [argv, exitCode, expected] of [
      [['show', name], 0, { outcome: 'name', asOf: NOW, ...inUseStatus }],
      [['reserve', name], 1, { outcome: 'in_use', asOf: NOW, before: inUseStatus }],
      [['reserve', name, '--in-use'], 0, { outcome: 'reserved', asOf: NOW, before: inUseStatus }],
      [['show', name], 0, { outcome: 'name', asOf: NOW, name, standing: 'reserved', since: NOW }],
    ] as const) {
      const result = await nutpost('name', ...argv, '--json');
      expect(result).toMatchObject({ exitCode, stderr: '' });
      expect(JSON.parse(result.stdout)).toEqual(expected);
    }
  });
});

describe('the addresses of a blocked recipient', () => {
  beforeEach(() => assignUsername(world.database, wallet.pubkey, name));

  it.each([
    ['discovery', 'GET', ''],
    ['an invoice', 'GET', '?amount=21000'],
    ['an invalid amount', 'GET', '?amount=1'],
    ['a HEAD request', 'HEAD', ''],
  ])('respond to %s like an unknown name', async (_case, method, query) => {
    await nutpost('user', 'block', wallet.npub);
    const invoices = world.mint.quotes.size;
    const unknown = await discover(`unknown${nameCount}`, query, method);
    expect(unknown.status).toBe(200);
    for (const address of [wallet.npub, wallet.npub.toUpperCase(), name, name.toUpperCase()]) {
      expect(await discover(address, query, method)).toEqual(unknown);
    }
    expect(method === 'HEAD' ? UNAVAILABLE : JSON.parse(unknown.text)).toEqual(UNAVAILABLE);
    expect(await lookUp(name)).toEqual({ names: {}, relays: {} });
    expect(world.mint.quotes.size).toBe(invoices);
  });

  it('can be paid again after the recipient is unblocked', async () => {
    const addresses = async () => [
      await discover(wallet.npub),
      await discover(name),
      await lookUp(name),
    ];
    const before = await addresses();
    await nutpost('user', 'block', wallet.npub);
    await nutpost('user', 'unblock', name);
    expect(await addresses()).toEqual(before);
    expect((await world.requestInvoice(wallet, 21)).pr).toMatch(/^ln/);
  });
});

describe('a blocked recipient', () => {
  beforeEach(() => assignUsername(world.database, wallet.pubkey, name));

  it('still receives payments of earlier invoices', async () => {
    const socket = await wallet.openSocket();
    const { pr, verify } = await world.requestInvoice(wallet, 21);
    await nutpost('user', 'block', wallet.npub);
    world.mint.pay(pr);
    expect(await socket.nextMessage()).toMatchObject({ type: 'update' });
    await socket.close();
    expect(await wallet.listQuotes()).toMatchObject([{ amount: 21, state: 'PAID', request: pr }]);
    expect((await requestJson('', verify)).body).toMatchObject({ status: 'OK', settled: true, pr });
  });

  it('can sign in and change settings, and keeps the name', async () => {
    await nutpost('user', 'block', wallet.npub);
    await (await wallet.openSocket()).close();
    expect((await wallet.get('/api/v2/auth/nip98')).status).toBe(200);
    const { status, body } = await wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: true });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { data: { user: { name, lockQuote: true } } },
    });
  });
});

describe('nutpost user', () => {
  it('stores the reason and the time of a block; a later block replaces the reason only', async () => {
    const { pubkey, npub } = wallet;
    const laterMs = NOW_MS + DAY_MS;
    await nutpost('user', 'block', npub, '--reason', ' said to be a fraud ');
    expect((await store.users.findByPubkey(pubkey))?.block).toEqual({
      sinceMs: NOW_MS,
      reason: 'said to be a fraud',
    });
    expect(await nutpostAt(laterMs, 'user', 'block', npub)).toEqual(
      success(`${npub} is already blocked, since ${NOW}: said to be a fraud.\n`),
    );
    expect(await nutpostAt(laterMs, 'user', 'block', npub, '--reason', 'is one')).toEqual(
      success(`${npub} is already blocked, since ${NOW}: is one.\n`),
    );
    expect(await nutpostAt(laterMs, 'user', 'unblock', npub)).toEqual(
      success(`${npub} is unblocked; it was blocked since ${NOW}: is one.\n`),
    );
    expect(await nutpost('user', 'unblock', npub)).toEqual(success(`${npub} is not blocked.\n`));
  });

  it('does not block by a former name, but names its former owner', async () => {
    await assignName(name);
    await assignName(`${name}new`);
    expect(await nutpost('user', 'block', name)).toEqual(
      failure(
        `No user has the name ${name}. ${wallet.npub} had it before: use the npub if you mean that user.\n`,
      ),
    );
    expect((await store.users.findByPubkey(wallet.pubkey))?.block).toBeNull();
  });

  it('shows all stored data of a user', async () => {
    const { pubkey, npub } = wallet;
    const at = FIRST_PAID_AT_MS;
    const since = '2023-11-14T22:13:20.000Z';
    const assignment = { pubkey, nowMs: at, graceMs: 30 * DAY_MS };
    await store.transaction((tx) => tx.usernames.assign(`${name}old`, assignment));
    await store.transaction((tx) => tx.usernames.assign(`${name}new`, assignment));
    await store.usernames.hold(`${name}next`, { pubkey, purchaseId: 'p1', nowMs: at });
    await store.users.saveSettings(pubkey, { mintUrl: 'https://mint.example', lockQuotes: true });
    await insertPayments(world.database, pubkey, 3);
    await store.quotes.insert([buildUnpaidQuote(pubkey)]);
    await nutpostAt(at, 'user', 'block', npub, '--reason', 'asked for it');

    expect(await nutpostAt(at + 60_000, 'user', 'show', `${name}new`)).toEqual(
      success(`${name}new (${npub})
  Key           ${pubkey}
  Name          ${name}new, since ${since} (60 s ago)
  Buying        ${name}next, since ${since} (60 s ago); purchase p1
  Old name      ${name}old, reserved for this user until 2023-12-14T22:13:20.000Z (in 30 days)
  Mint          https://mint.example
  Locking       on
  Payments      3, the last at 2023-11-14T22:13:22.000Z (58 s ago)
  Open quotes   1 (not paid yet)
  Purchases     0
  Blocked       yes, since ${since}: asked for it
`),
    );
    const { stdout } = await nutpostAt(at + 60_000, 'user', 'show', npub, '--json');
    expect(JSON.parse(stdout)).toEqual({
      outcome: 'user',
      asOf: '2023-11-14T22:14:20.000Z',
      user: { npub, pubkey, name: `${name}new` },
      names: [
        { name: `${name}new`, status: 'in_use', since },
        { name: `${name}next`, status: 'pending', since, purchase: 'p1' },
        { name: `${name}old`, status: 'released', since, until: '2023-12-14T22:13:20.000Z' },
      ],
      mintUrl: 'https://mint.example',
      lockQuotes: true,
      paymentCount: 3,
      lastPaidAt: '2023-11-14T22:13:22.000Z',
      openQuoteCount: 1,
      hasMoreOpenQuotes: false,
      purchases: { open: 0, done: 0, undone: 0 },
      block: { since, reason: 'asked for it' },
    });
  });

  it('reports that an unknown key can be paid anyway', async () => {
    const { npub, pubkey } = wallet;
    expect(await nutpost('user', 'show', pubkey)).toEqual(
      failure(`The database has no data of ${npub}. The key can be paid anyway.\n`),
    );
  });
});

it('applies blocks and name releases to a service in another process within seconds', async () => {
  const prepared = await createPreparedDatabase();
  onTestFinished(() => prepared.remove());
  const env = { ...prepared.env, DEFAULT_MINT_URL: world.mint.url };
  const base = await new NutpostProcess('serve', env).waitUntilListening();
  const run = async (...argv: string[]) => {
    expect(await runNutpostCommand(argv, prepared.env)).toMatchObject({ code: 0, stderr: '' });
  };
  const discoverAt = async (address: string) =>
    (await requestJson(base, `/.well-known/lnurlp/${address}`)).body;
  const payRequest = expect.objectContaining({ tag: 'payRequest' });
  const waitForDiscovery = (address: string, expected: object) =>
    vi.waitFor(async () => expect(await discoverAt(address)).toEqual(expected), CHANGE_TIMEOUT);

  const { npub } = prepared.alice;
  expect(await discoverAt(npub)).toEqual(payRequest);
  await run('user', 'block', npub);
  await waitForDiscovery(npub, UNAVAILABLE);
  await run('user', 'unblock', 'alice');
  await waitForDiscovery('alice', payRequest);
  await run('name', 'release', 'alice', '--in-use');
  await waitForDiscovery('alice', UNAVAILABLE);
});

it.each([
  [['name']],
  [['name', 'show', 'alice', 'bob']],
  [['name', 'show', 'alice', '--in-use']],
  [['name', 'sell', 'alice']],
  [['name', 'reserve', 'al-ice']],
  [['name', 'reserve', 'npub1alice']],
  [['user']],
  [['user', 'show', ' ']],
  [['user', 'delete', 'alice']],
  [['user', 'show', 'alice', '--reason', 'why']],
  [['user', 'block', 'alice', '--reason', '']],
  [['user', 'block', 'alice', '--reason', 'two\nlines']],
  [['user', 'block', 'alice', '--reason', 'x'.repeat(501)]],
  [['user', 'block', 'npub1qqq']],
  // Not a valid key: not the x coordinate of a curve point.
  [['user', 'block', 'f'.repeat(64)]],
  [['trace']],
  [['trace', 'a', 'b']],
  [['trace', '--every', 'a']],
  [['treasury', 'withdraw', '--amount', '0']],
  [['treasury', 'withdraw', '--amount', '1.5']],
  [['treasury', 'withdraw', '--mint', 'no mint']],
  [['treasury', 'withdraw', 'more']],
  [['treasury', 'withdrawals', '--amount', '5']],
  [['treasury', 'token']],
  [['treasury', 'token', 'one', 'two']],
  [['treasury', 'spend']],
])('prints the usage of %j without changing anything', async (argv) => {
  const { exitCode, stdout, stderr } = await runOperatorCommand(world.database, argv);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain(`Usage: nutpost <command>\n\n  ${argv[0]} `);
});

function nutpost(...argv: string[]) {
  return nutpostAt(NOW_MS, ...argv);
}

function nutpostAt(nowMs: number, ...argv: string[]) {
  return runOperatorCommand(world.database, argv, { clock: () => nowMs });
}

function success(stdout: string) {
  return { exitCode: 0, stdout, stderr: '' };
}

function failure(stderr: string) {
  return { exitCode: 1, stdout: '', stderr };
}

/** Assigns a name to the wallet, which releases its previous one. */
async function assignName(newName: string): Promise<void> {
  const assignment = { pubkey: wallet.pubkey, nowMs: NOW_MS, graceMs: 30 * DAY_MS };
  await store.transaction((tx) => tx.usernames.assign(newName, assignment));
  await waitForNotifications(world.database);
}

/** Reserves the name like the start of a purchase. */
function holdName(): Promise<boolean> {
  return store.usernames.hold(name, { pubkey: wallet.pubkey, purchaseId: 'p1', nowMs: NOW_MS });
}

async function isPayable(address: string): Promise<boolean> {
  const { body } = await requestJson(world.origin, `/.well-known/lnurlp/${address}`);
  return body.tag === 'payRequest';
}

/** Returns the whole response without `date` and `x-request-id`. */
async function discover(address: string, query = '', method = 'GET') {
  const path = `/.well-known/lnurlp/${address}${query}`;
  const response = await requestJson(world.origin, path, { method });
  const headers = Object.fromEntries(response.headers);
  delete headers['date'];
  delete headers['x-request-id'];
  // As text, because the order of the fields must match too.
  return { status: response.status, headers, text: JSON.stringify(response.body) };
}

async function lookUp(username: string): Promise<unknown> {
  return (await requestJson(world.origin, `/.well-known/nostr.json?name=${username}`)).body;
}
