import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Store } from '../../src/store.ts';
import { allHeard } from '../helpers/heard.ts';
import { giveName } from '../helpers/names.ts';
import { NutpostProcess, runNutpost } from '../helpers/nutpost-process.ts';
import { operate } from '../helpers/operator.ts';
import { createPlace } from '../helpers/place.ts';
import { FIRST_PAID_AT_MS, keepPayments, unpaidQuote } from '../helpers/quotes.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { useWorld } from '../helpers/world.ts';

/** `nutpost name` and `nutpost user`, and what payers and recipients notice of them. */

const NOW = '2026-08-01T12:00:00.000Z';
const NOW_MS = Date.parse(NOW);
const DAY_MS = 24 * 60 * 60_000;
const IN_30_DAYS = '2026-08-31T12:00:00.000Z';
/** The service sees a change after one second; a busy machine takes longer. */
const SECONDS = { timeout: 10_000 };

const UNAVAILABLE = { status: 'ERROR', reason: 'Recipient unavailable.' };

const world = useWorld();
let store: Store;
let wallet: TestWallet;
/** Each test has its own. */
let name: string;
let names = 0;

beforeAll(async () => {
  store = new Store(world.database.db);
});

beforeEach(() => {
  wallet = world.newWallet();
  names += 1;
  name = `alice${names}`;
});

describe('nutpost name', () => {
  it('reserves a free name, and releases it', async () => {
    expect(await nutpost('name', 'show', name)).toEqual(done(`${name} is free.\n`));
    expect(await nutpost('name', 'reserve', name.toUpperCase())).toEqual(
      done(`${name} is now reserved.\n`),
    );
    expect(await nutpost('name', 'show', name)).toEqual(
      done(`${name} is reserved.\n  Since         ${NOW} (0 s ago)\n`),
    );
    await expect(giveName(world.database, wallet.pubkey, name)).rejects.toThrow('is not free');
    expect(await holdName()).toBe(false);
    expect(await nutpostAt(NOW_MS + DAY_MS, 'name', 'reserve', name)).toEqual(
      done(`${name} is already reserved (since ${NOW}).\n`),
    );
    expect(await nutpost('name', 'release', name)).toEqual(
      done(`${name} is now free. It had been reserved since ${NOW}.\n`),
    );
    expect(await nutpost('name', 'release', name)).toEqual(done(`${name} is already free.\n`));
    await giveName(world.database, wallet.pubkey, name);
    expect(await payable(name)).toBe(true);
  });

  it.each(['reserve', 'release'])('does not %s a name in use without --in-use', async (action) => {
    await takeName(name);
    expect(await nutpost('name', action, name)).toEqual(
      failed(
        `${name} is in use by ${wallet.npub} since ${NOW}: nothing was changed.` +
          ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.\n`,
      ),
    );
    expect(await payable(name)).toBe(true);
  });

  it('takes a name away with --in-use: it is free, and its owner is paid by npub', async () => {
    await takeName(name);
    expect(await nutpost('name', 'release', name, '--in-use')).toEqual(
      done(
        `${name} is now free. It was taken away from ${wallet.npub}, who had it since ${NOW} and can` +
          ' be paid by npub only.\n',
      ),
    );
    expect(await payable(name)).toBe(false);
    expect(await payable(wallet.npub)).toBe(true);
    const { user } = (await wallet.get('/api/v2/user/info')).body.data;
    expect(user).toEqual({ pubkey: wallet.pubkey, mintUrl: world.mint.url, lockQuote: false });
    const other = world.newWallet();
    await giveName(world.database, other.pubkey, name);
    expect(await lookUp(name)).toMatchObject({ names: { [name]: other.pubkey } });
  });

  it('takes a name away once if two operators do so at the same time', async () => {
    await takeName(name);
    const endings = await Promise.all(
      [1, 2].map(() => nutpost('name', 'release', name, '--in-use', '--json')),
    );
    const outcomes = endings.map(({ stdout }) => JSON.parse(stdout).outcome);
    expect(outcomes.filter((each) => each === 'released')).toHaveLength(1);
    expect(await store.usernames.find(name)).toBeNull();
  });

  it('shows a released name with the time for which it is kept for its owner', async () => {
    await takeName(name);
    await takeName(`${name}later`);
    expect(await nutpost('name', 'show', name)).toEqual(
      done(`${name} was released: only its former owner can have it, free of charge.
  Former owner  ${wallet.npub}
  Key           ${wallet.pubkey}
  Given up      ${NOW} (0 s ago)
  Kept until    ${IN_30_DAYS} (in 30 days)
`),
    );
    const { stdout } = await nutpostAt(NOW_MS + 30 * DAY_MS, 'name', 'show', name);
    expect(stdout).toMatch(new RegExp(`^${name} is free\\.\n {2}Former owner {2}${wallet.npub}\n`));
    expect((await nutpost('name', 'release', name)).stdout).toContain(`${name} is now free. `);
    expect(await holdName()).toBe(true);
  });

  it('leaves a name that is being bought to its purchase', async () => {
    await holdName();
    expect(await nutpost('name', 'show', name)).toEqual(
      done(`${name} is being bought.
  Buyer         ${wallet.npub}
  Key           ${wallet.pubkey}
  Since         ${NOW} (0 s ago)
  Purchase      p1
`),
    );
    for (const action of ['reserve', 'release']) {
      expect(await nutpost('name', action, name, '--in-use')).toEqual(
        failed(
          `${name} is being bought by ${wallet.npub} since ${NOW}: nothing was changed. Try again` +
            ' when the purchase has ended.\n',
        ),
      );
    }
    expect(await store.usernames.find(name)).toMatchObject({ status: 'pending', purchase: 'p1' });
  });

  it.each([
    ['postmaster', 'it is on the built-in list'],
    ['acme', 'it is in USERNAME_RESERVED'],
  ])('releases no name on a list: %s', async (listed, why) => {
    const nutpostName = (...argv: string[]) =>
      operate(world.database, ['name', ...argv], { reservedNames: ['acme'] });
    expect(await nutpostName('show', listed)).toEqual(done(`${listed} is reserved: ${why}.\n`));
    expect(await nutpostName('reserve', listed)).toEqual(
      done(`${listed} is already reserved (${why}).\n`),
    );
    expect(await nutpostName('release', listed, '--in-use')).toEqual(
      failed(`${listed} stays reserved (${why}): no command can release it.\n`),
    );
  });

  it('prints JSON for programs', async () => {
    await takeName(name);
    const key = { npub: wallet.npub, pubkey: wallet.pubkey };
    const inUse = { name, standing: 'in_use', key, since: NOW };
    for (const [argv, exitCode, expected] of [
      [['show', name], 0, { outcome: 'name', asOf: NOW, ...inUse }],
      [['reserve', name], 1, { outcome: 'in_use', asOf: NOW, before: inUse }],
      [['reserve', name, '--in-use'], 0, { outcome: 'reserved', asOf: NOW, before: inUse }],
      [['show', name], 0, { outcome: 'name', asOf: NOW, name, standing: 'reserved', since: NOW }],
    ] as const) {
      const ending = await nutpost('name', ...argv, '--json');
      expect(ending).toMatchObject({ exitCode, stderr: '' });
      expect(JSON.parse(ending.stdout)).toEqual(expected);
    }
  });
});

describe('payers of a blocked recipient', () => {
  beforeEach(() => giveName(world.database, wallet.pubkey, name));

  it.each([
    ['discovery', 'GET', ''],
    ['an invoice', 'GET', '?amount=21000'],
    ['an invalid amount', 'GET', '?amount=1'],
    ['the head alone', 'HEAD', ''],
  ])('get the same response to %s as for an unknown name', async (_case, method, query) => {
    await nutpost('user', 'block', wallet.npub);
    const invoices = world.mint.quotes.size;
    const unknown = await discover(`nobody${names}`, query, method);
    expect(unknown.status).toBe(200);
    for (const address of [wallet.npub, wallet.npub.toUpperCase(), name, name.toUpperCase()]) {
      expect(await discover(address, query, method)).toEqual(unknown);
    }
    expect(method === 'HEAD' ? UNAVAILABLE : JSON.parse(unknown.text)).toEqual(UNAVAILABLE);
    expect(await lookUp(name)).toEqual({ names: {}, relays: {} });
    expect(world.mint.quotes.size).toBe(invoices);
  });

  it('can pay both addresses again after the recipient is unblocked', async () => {
    const addresses = async () => [
      await discover(wallet.npub),
      await discover(name),
      await lookUp(name),
    ];
    const before = await addresses();
    await nutpost('user', 'block', wallet.npub);
    await nutpost('user', 'unblock', name);
    expect(await addresses()).toEqual(before);
    expect((await world.askInvoice(wallet, 21)).pr).toMatch(/^ln/);
  });
});

describe('a blocked recipient', () => {
  beforeEach(() => giveName(world.database, wallet.pubkey, name));

  it('receives payments of earlier invoices', async () => {
    const socket = await wallet.openSocket();
    const { pr, verify } = await world.askInvoice(wallet, 21);
    await nutpost('user', 'block', wallet.npub);
    world.mint.pay(pr);
    expect(await socket.next()).toMatchObject({ type: 'update' });
    await socket.close();
    expect(await wallet.listQuotes()).toMatchObject([{ amount: 21, state: 'PAID', request: pr }]);
    expect((await request('', verify)).body).toMatchObject({ status: 'OK', settled: true, pr });
  });

  it('can sign in, keeps the name and can change settings', async () => {
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
  it('keeps the reason and the time of a block, and takes a better reason later', async () => {
    const { pubkey, npub } = wallet;
    const laterMs = NOW_MS + DAY_MS;
    await nutpost('user', 'block', npub, '--reason', ' said to be a fraud ');
    expect((await store.users.find(pubkey))?.block).toEqual({
      sinceMs: NOW_MS,
      reason: 'said to be a fraud',
    });
    expect(await nutpostAt(laterMs, 'user', 'block', npub)).toEqual(
      done(`${npub} is already blocked, since ${NOW}: said to be a fraud.\n`),
    );
    expect(await nutpostAt(laterMs, 'user', 'block', npub, '--reason', 'is one')).toEqual(
      done(`${npub} is already blocked, since ${NOW}: is one.\n`),
    );
    expect(await nutpostAt(laterMs, 'user', 'unblock', npub)).toEqual(
      done(`${npub} can be paid again; it was blocked since ${NOW}: is one.\n`),
    );
    expect(await nutpost('user', 'unblock', npub)).toEqual(done(`${npub} is not blocked.\n`));
  });

  it('blocks nobody by a former name, and says whose it was', async () => {
    await takeName(name);
    await takeName(`${name}new`);
    expect(await nutpost('user', 'block', name)).toEqual(
      failed(
        `No user has the name ${name}. ${wallet.npub} had it before: give the npub if you mean that user.\n`,
      ),
    );
    expect((await store.users.find(wallet.pubkey))?.block).toBeNull();
  });

  it('shows all that is stored of a user', async () => {
    const { pubkey, npub } = wallet;
    const at = FIRST_PAID_AT_MS;
    const since = '2023-11-14T22:13:20.000Z';
    const claim = { pubkey, nowMs: at, graceMs: 30 * DAY_MS };
    await store.transaction((tx) => tx.usernames.take(`${name}old`, claim));
    await store.transaction((tx) => tx.usernames.take(`${name}new`, claim));
    await store.usernames.hold(`${name}next`, { pubkey, purchase: 'p1', nowMs: at });
    await store.users.save(pubkey, { mintUrl: 'https://mint.example', lockQuotes: true });
    await keepPayments(world.database, pubkey, 3);
    await store.quotes.insert([unpaidQuote(pubkey)]);
    await nutpostAt(at, 'user', 'block', npub, '--reason', 'asked for it');

    expect(await nutpostAt(at + 60_000, 'user', 'show', `${name}new`)).toEqual(
      done(`${name}new (${npub})
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

  it('says of an unknown key that it can be paid all the same', async () => {
    const { npub, pubkey } = wallet;
    expect(await nutpost('user', 'show', pubkey)).toEqual(
      failed(`Nothing is stored about ${npub}. It can be paid all the same.\n`),
    );
  });
});

it('a service in another process applies a block and the release of a name within seconds', async () => {
  const place = await createPlace();
  onTestFinished(() => place.remove());
  const env = { ...place.env, DEFAULT_MINT_URL: world.mint.url };
  const base = await new NutpostProcess('serve', env).listening();
  const run = async (...argv: string[]) => {
    expect(await runNutpost(argv, place.env)).toMatchObject({ code: 0, stderr: '' });
  };
  const discovery = async (address: string) =>
    (await request(base, `/.well-known/lnurlp/${address}`)).body;
  const payRequest = expect.objectContaining({ tag: 'payRequest' });
  const becomes = (address: string, expected: object) =>
    vi.waitFor(async () => expect(await discovery(address)).toEqual(expected), SECONDS);

  const { npub } = place.alice;
  expect(await discovery(npub)).toEqual(payRequest);
  await run('user', 'block', npub);
  await becomes(npub, UNAVAILABLE);
  await run('user', 'unblock', 'alice');
  await becomes('alice', payRequest);
  await run('name', 'release', 'alice', '--in-use');
  await becomes('alice', UNAVAILABLE);
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
  // Not the x coordinate of a point on the curve: there is no such key.
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
])('%j prints the usage and changes nothing', async (argv) => {
  const { exitCode, stdout, stderr } = await operate(world.database, argv);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain(`Usage: nutpost <command>\n\n  ${argv[0]} `);
});

function nutpost(...argv: string[]) {
  return nutpostAt(NOW_MS, ...argv);
}

function nutpostAt(nowMs: number, ...argv: string[]) {
  return operate(world.database, argv, { clock: () => nowMs });
}

function done(stdout: string) {
  return { exitCode: 0, stdout, stderr: '' };
}

function failed(stderr: string) {
  return { exitCode: 1, stdout: '', stderr };
}

/** Gives the wallet a name; its previous one is released. */
async function takeName(wanted: string): Promise<void> {
  const claim = { pubkey: wallet.pubkey, nowMs: NOW_MS, graceMs: 30 * DAY_MS };
  await store.transaction((tx) => tx.usernames.take(wanted, claim));
  await allHeard(world.database);
}

/** Holds the name, as the start of a purchase does. */
function holdName(): Promise<boolean> {
  return store.usernames.hold(name, { pubkey: wallet.pubkey, purchase: 'p1', nowMs: NOW_MS });
}

async function payable(address: string): Promise<boolean> {
  const { body } = await request(world.base, `/.well-known/lnurlp/${address}`);
  return body.tag === 'payRequest';
}

/** The whole response, except for its time and its id. */
async function discover(address: string, query = '', method = 'GET') {
  const path = `/.well-known/lnurlp/${address}${query}`;
  const answer = await request(world.base, path, { method });
  const headers = Object.fromEntries(answer.headers);
  delete headers['date'];
  delete headers['x-request-id'];
  // As text, so that the order of its fields counts too.
  return { status: answer.status, headers, text: JSON.stringify(answer.body) };
}

async function lookUp(of: string): Promise<unknown> {
  return (await request(world.base, `/.well-known/nostr.json?name=${of}`)).body;
}
