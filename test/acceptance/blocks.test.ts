import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Store } from '../../src/store/store.ts';
import { Recipients } from '../../src/usecases/recipients.ts';
import { giveName } from '../helpers/names.ts';
import { operate } from '../helpers/operator.ts';
import { FIRST_PAID_AT_MS, keepPayments } from '../helpers/paid-quotes.ts';
import { costOf } from '../helpers/query-cost.ts';
import { unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** Recipients whom the operator has blocked, and `nutpost user`. */

const UNAVAILABLE = { status: 'ERROR', reason: 'Recipient unavailable.' };

const DAY_MS = 24 * 60 * 60_000;

let world: World;
let store: Store;
let wallet: TestWallet;
/** Of the wallet; each test has its own. */
let name: string;

let names = 0;

beforeAll(async () => {
  world = await openWorld();
  store = new Store(world.database.db);
});

afterAll(() => world.close());

beforeEach(async () => {
  wallet = world.newWallet();
  names += 1;
  name = `alice${names}`;
  await giveName(world.database, wallet.pubkey, name);
});

describe('payers of a blocked recipient', () => {
  it.each([
    ['discovery', 'GET', ''],
    ['an invoice', 'GET', '?amount=21000'],
    ['an amount that nobody takes', 'GET', '?amount=1'],
    ['the head alone', 'HEAD', ''],
  ])(
    'who ask for %s are told what they are told of an unknown name',
    async (_case, method, query) => {
      await nutpost('user', 'block', wallet.npub);
      const invoices = world.mint.quotes.size;
      const unknown = await pay(`nobody${names}`, query, method);
      expect(unknown.status).toBe(200);
      expect(await pay(wallet.npub, query, method)).toEqual(unknown);
      expect(await pay(wallet.npub.toUpperCase(), query, method)).toEqual(unknown);
      expect(await pay(name, query, method)).toEqual(unknown);
      expect(await pay(name.toUpperCase(), query, method)).toEqual(unknown);
      expect(method === 'HEAD' ? UNAVAILABLE : JSON.parse(unknown.text)).toEqual(UNAVAILABLE);
      expect(world.mint.quotes.size).toBe(invoices);
    },
  );

  it('find no key behind the name either', async () => {
    expect(await lookUp(name)).toEqual({ names: { [name]: wallet.pubkey }, relays: {} });
    await nutpost('user', 'block', name);
    expect(await lookUp(name)).toEqual({ names: {}, relays: {} });
  });

  it('find them again once they are unblocked, by both addresses', async () => {
    const before = [await pay(wallet.npub), await pay(name), await lookUp(name)];
    await nutpost('user', 'block', wallet.npub);
    await nutpost('user', 'unblock', name);
    expect([await pay(wallet.npub), await pay(name), await lookUp(name)]).toEqual(before);
    expect(JSON.parse((await pay(name)).text)).toMatchObject({ tag: 'payRequest' });
    expect((await world.askInvoice(wallet, 21)).pr).toMatch(/^ln/);
  });

  it('find everybody else as before', async () => {
    await nutpost('user', 'block', wallet.npub);
    const other = world.newWallet();
    expect((await world.askInvoice(other, 21)).pr).toMatch(/^ln/);
  });

  it('never had a chance where they were blocked before anybody had heard of them', async () => {
    const { npub, pubkey } = world.newWallet();
    const { exitCode } = await nutpost('user', 'block', pubkey);
    expect(exitCode).toBe(0);
    expect(JSON.parse((await pay(npub, '?amount=21000')).text)).toEqual(UNAVAILABLE);
  });

  it('are found in one query, as all others are', async () => {
    const byAddress = (address: string) =>
      costOf(world.database.db, async (db) =>
        new Recipients(
          new Store(db).users,
          { mintUrl: world.mint.url, lockQuotes: false },
          { isHearing: () => false, monotonicMs: () => 0 },
        ).byAddress(address),
      );
    // More than one query would be an error.
    for (const address of [wallet.npub, name, world.newWallet().npub]) {
      expect((await byAddress(address)).rows).toBeLessThanOrEqual(2);
    }
  });
});

describe('a blocked recipient', () => {
  it('gets what was under way, is told of it, and can collect it', async () => {
    const socket = await wallet.openSocket();
    const { pr, verify } = await world.askInvoice(wallet, 21);
    await nutpost('user', 'block', wallet.npub);
    world.mint.pay(pr);
    expect(await socket.next()).toMatchObject({ type: 'update' });
    await socket.close();
    const [quote] = await wallet.listQuotes();
    expect(quote).toMatchObject({ amount: 21, state: 'PAID', request: pr });
    const { body } = await request('', verify);
    expect(body).toMatchObject({ status: 'OK', settled: true, pr });
  });

  it('signs in, keeps the name and changes settings', async () => {
    await nutpost('user', 'block', wallet.npub);
    await (await wallet.openSocket()).close();
    expect((await wallet.get('/api/v2/auth/nip98')).status).toBe(200);
    expect((await wallet.get('/api/v2/user/info')).body.data.user).toMatchObject({ name });
    const { status, body } = await wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: true });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { data: { user: { name, lockQuote: true } } },
    });
    await nutpost('user', 'unblock', wallet.npub);
    await world.askInvoice(wallet, 21);
    expect([...world.mint.quotes.values()].at(-1)).toMatchObject({
      pubkey: expect.stringContaining(wallet.pubkey),
    });
  });
});

describe('nutpost user block', () => {
  it('finds whom it is about by npub, key, name and address', async () => {
    for (const text of [wallet.npub, wallet.pubkey, name.toUpperCase(), `${name}@pay.example`]) {
      expect(await nutpost('user', 'block', text)).toEqual(
        done(`${name} (${wallet.npub}) is blocked: payers are told "Recipient unavailable."\n`),
      );
      expect((await nutpost('user', 'unblock', text)).exitCode).toBe(0);
    }
  });

  it('keeps the reason and the time, and takes a better reason later', async () => {
    const at = Date.parse('2026-08-01T12:00:00.000Z');
    const { pubkey, npub } = world.newWallet();
    await nutpostAt(at, 'user', 'block', npub, '--reason', ' said to be a fraud ');
    expect(await store.blocks.find(pubkey)).toEqual({ sinceMs: at, reason: 'said to be a fraud' });
    expect(await nutpostAt(at + DAY_MS, 'user', 'block', npub)).toEqual(
      done(`${npub} was blocked already, since 2026-08-01T12:00:00.000Z: said to be a fraud.\n`),
    );
    expect(await nutpostAt(at + DAY_MS, 'user', 'block', npub, '--reason', 'is one')).toEqual(
      done(`${npub} was blocked already, since 2026-08-01T12:00:00.000Z: is one.\n`),
    );
    expect(await nutpostAt(at + DAY_MS, 'user', 'unblock', npub)).toEqual(
      done(
        `${npub} can be paid again; they were blocked since 2026-08-01T12:00:00.000Z: is one.\n`,
      ),
    );
    expect(await nutpost('user', 'unblock', npub)).toEqual(
      done(`${npub} was not blocked: nothing was changed.\n`),
    );
  });

  it('blocks nobody by a name that is not in use, and says whose it was', async () => {
    await giveName(world.database, wallet.pubkey, `${name}new`);
    expect(await nutpost('user', 'block', name)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `Nobody has the name ${name}; ${wallet.npub} had it before: give that npub if you mean them.\n`,
    });
    expect(await nutpost('user', 'unblock', 'unheardof')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'Nobody has the name unheardof.\n',
    });
    expect(await store.blocks.find(wallet.pubkey)).toBeNull();
  });

  it('tells programs what it did', async () => {
    const at = Date.parse('2026-08-01T12:00:00.000Z');
    const { npub, pubkey } = wallet;
    const asOf = new Date(at).toISOString();
    const user = { npub, pubkey, name };
    const block = { since: asOf, reason: 'spam' };
    for (const [argv, expected] of [
      [['block', name, '--reason', 'spam'], { outcome: 'blocked', asOf, user, block }],
      [['block', npub], { outcome: 'already_blocked', asOf, user, block }],
      [['unblock', npub], { outcome: 'unblocked', asOf, user, block }],
      [['unblock', npub], { outcome: 'not_blocked', asOf, user }],
    ] as const) {
      const { exitCode, stdout } = await nutpostAt(at, 'user', ...argv, '--json');
      expect({ exitCode, said: JSON.parse(stdout) }).toEqual({ exitCode: 0, said: expected });
    }
    const { exitCode, stdout } = await nutpost('user', 'block', 'unheardof', '--json');
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toEqual({ outcome: 'name_not_in_use', name: 'unheardof' });
  });
});

describe('nutpost user show', () => {
  it('tells all that is kept of a user', async () => {
    const { pubkey, npub } = world.newWallet();
    const at = FIRST_PAID_AT_MS;
    const graceMs = 30 * DAY_MS;
    const claim = { pubkey, nowMs: at, graceMs };
    await store.transaction((tx) => tx.usernames.take(`${name}old`, claim));
    await store.transaction((tx) => tx.usernames.take(`${name}new`, claim));
    await store.usernames.hold(`${name}next`, { pubkey, purchase: 'p1', nowMs: at });
    await store.users.save(pubkey, { mintUrl: 'https://mint.example', lockQuotes: true });
    await keepPayments(world.database, pubkey, 3);
    await store.quotes.insert(unpaidQuote(pubkey));
    await nutpostAt(at, 'user', 'block', npub, '--reason', 'asked for it');

    const minuteLater = at + 60_000;
    expect(await nutpostAt(minuteLater, 'user', 'show', `${name}new`)).toEqual(
      done(`${name}new (${npub})
  Key          ${pubkey}
  Name         ${name}new, since 2023-11-14T22:13:20.000Z (60 s ago)
  Buying       ${name}next, since 2023-11-14T22:13:20.000Z (60 s ago); purchase p1
  Old name     ${name}old, which nobody else can have until 2023-12-14T22:13:20.000Z (in 30 days)
  Mint         https://mint.example
  Locking      on
  Payments     3, the last at 2023-11-14T22:13:22.000Z (58 s ago)
  Open quotes  1 (not paid yet)
  Purchases    0
  Blocked      yes, since 2023-11-14T22:13:20.000Z: asked for it
`),
    );
    const { stdout } = await nutpostAt(minuteLater, 'user', 'show', npub, '--json');
    expect(JSON.parse(stdout)).toEqual({
      outcome: 'user',
      asOf: '2023-11-14T22:14:20.000Z',
      user: { npub, pubkey, name: `${name}new` },
      names: [
        { name: `${name}new`, status: 'in_use', since: '2023-11-14T22:13:20.000Z' },
        {
          name: `${name}next`,
          status: 'pending',
          since: '2023-11-14T22:13:20.000Z',
          purchase: 'p1',
        },
        {
          name: `${name}old`,
          status: 'released',
          since: '2023-11-14T22:13:20.000Z',
          until: '2023-12-14T22:13:20.000Z',
        },
      ],
      mintUrl: 'https://mint.example',
      lockQuotes: true,
      paymentCount: 3,
      lastPaidAt: '2023-11-14T22:13:22.000Z',
      openQuoteCount: 1,
      hasMoreOpenQuotes: false,
      purchases: { open: 0, done: 0, undone: 0 },
      block: { since: '2023-11-14T22:13:20.000Z', reason: 'asked for it' },
    });
  });

  it('says of who chose nothing that the defaults apply', async () => {
    const { npub, pubkey } = world.newWallet();
    await world.database.db.insertInto('users').values({ pubkey }).execute();
    const { stdout } = await nutpost('user', 'show', npub);
    expect(stdout).toBe(`${npub}
  Key          ${pubkey}
  Mint         (the default of this service)
  Locking      (the default of this service)
  Payments     0
  Open quotes  0 (not paid yet)
  Purchases    0
  Blocked      no
`);
  });

  it('says of whom nothing is known that they can be paid all the same', async () => {
    const { npub, pubkey } = world.newWallet();
    expect(await nutpost('user', 'show', pubkey)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `Nothing is kept of ${npub}: it can be paid by its npub, and was not yet.\n`,
    });
    const { exitCode, stdout } = await nutpost('user', 'show', pubkey, '--json');
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toEqual({ outcome: 'unknown_key', user: { npub, pubkey } });
  });

  it('shows a key that is known by its block alone', async () => {
    const { npub } = world.newWallet();
    await nutpost('user', 'block', npub);
    const { exitCode, stdout } = await nutpost('user', 'show', npub);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^ {2}Blocked {6}yes, since \S+, for no reason that was given$/m);
  });
});

describe('a command that cannot be understood', () => {
  /** No point on the curve has this x: nobody can sign for it. */
  const NO_KEY = 'f'.repeat(64);

  it.each([
    [['user']],
    [['user', 'show']],
    [['user', 'show', ' ']],
    [['user', 'show', 'alice', 'bob']],
    [['user', 'delete', 'alice']],
    [['user', 'show', 'alice', '--reason', 'why']],
    [['user', 'block', 'alice', '--reason', '']],
    [['user', 'block', 'alice', '--reason', 'two\nlines']],
    [['user', 'block', 'alice', '--reason', 'x'.repeat(501)]],
    [['user', 'block', 'al']],
    [['user', 'block', 'npub1qqq']],
    [['user', 'block', NO_KEY]],
  ])('such as %j is answered by its usage, and changes nothing', async (argv) => {
    const { exitCode, stdout, stderr } = await nutpost(...argv);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toContain('Usage: nutpost <command>\n\n  user show <npub | key | name>\n');
  });
});

function done(stdout: string) {
  return { exitCode: 0, stdout, stderr: '' };
}

function nutpost(...argv: string[]) {
  return operate(world.database, argv);
}

function nutpostAt(nowMs: number, ...argv: string[]) {
  return operate(world.database, argv, { clock: () => nowMs });
}

/** The whole answer, but for its time. */
async function pay(address: string, query = '', method = 'GET') {
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
