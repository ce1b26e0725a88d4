import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { Store } from '../../src/store/store.ts';
import { allHeard } from '../helpers/heard.ts';
import { giveName } from '../helpers/names.ts';
import { runNutpost } from '../helpers/nutpost-command.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { operate } from '../helpers/operator.ts';
import { createPlace } from '../helpers/place.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** `nutpost name`: what the operator sees of names, and does with them. */

const NOW = '2026-08-01T12:00:00.000Z';
const NOW_MS = Date.parse(NOW);
const DAY_MS = 24 * 60 * 60_000;
const IN_30_DAYS = '2026-08-31T12:00:00.000Z';

let world: World;
let store: Store;
let wallet: TestWallet;
/** Each test has its own. */
let name: string;

let names = 0;

beforeAll(async () => {
  world = await openWorld();
  store = new Store(world.database.db);
});

afterAll(() => world.close());

beforeEach(() => {
  wallet = world.newWallet();
  names += 1;
  name = `alice${names}`;
});

describe('a free name', () => {
  it('is shown as one, and is kept from everybody once it is reserved', async () => {
    expect(await nutpost('show', name)).toEqual(done(`${name} is free.\n`));
    expect(await nutpost('reserve', name.toUpperCase())).toEqual(
      done(`${name} is reserved now: nobody can have it.\n`),
    );
    expect(await nutpost('show', name)).toEqual(
      done(`${name} is reserved: nobody can have it.\n  Since         ${NOW} (0 s ago)\n`),
    );
    await expect(giveName(world.database, wallet.pubkey, name)).rejects.toThrow('is not free');
    expect(await hold()).toBe(false);
  });

  it('is reserved once, however often that is said, and free again at one word', async () => {
    await nutpost('reserve', name);
    expect(await nutpostAt(NOW_MS + DAY_MS, 'reserve', name)).toEqual(
      done(`${name} was reserved already (since ${NOW}): nothing was changed.\n`),
    );
    expect(await nutpost('release', name)).toEqual(
      done(`${name} is free now. A command had reserved it since ${NOW}.\n`),
    );
    expect(await nutpost('release', name)).toEqual(
      done(`${name} was free already: nothing was changed.\n`),
    );
    await giveName(world.database, wallet.pubkey, name);
    expect(await payable(name)).toBe(true);
  });
});

describe('a name in use', () => {
  beforeEach(() => use(name));

  it('is shown with its owner', async () => {
    expect(await nutpost('show', name)).toEqual(
      done(`${name} is in use.
  Owner         ${wallet.npub}
  Key           ${wallet.pubkey}
  Since         ${NOW} (0 s ago)
`),
    );
  });

  it.each(['reserve', 'release'])(
    'is not to be had by %s alone, which says how',
    async (action) => {
      expect(await nutpost(action, name)).toEqual({
        exitCode: 1,
        stdout: '',
        stderr:
          `${name} is in use by ${wallet.npub} since ${NOW}: nothing was changed.` +
          ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.\n`,
      });
      expect(await payable(name)).toBe(true);
    },
  );

  it('is taken away where that is said: it is free, and its owner is paid by npub', async () => {
    expect(await nutpost('release', name, '--in-use')).toEqual(
      done(
        `${name} is free now. It was taken away from ${wallet.npub}, who had it since ${NOW} and is` +
          ' paid by npub alone now.\n',
      ),
    );
    expect(await payable(name)).toBe(false);
    expect(await payable(wallet.npub)).toBe(true);
    const { user } = (await wallet.get('/api/v2/user/info')).body.data;
    expect(user).toEqual({
      pubkey: wallet.pubkey,
      mintUrl: world.mint.url,
      lockQuote: false,
    });
    const other = world.newWallet();
    await giveName(world.database, other.pubkey, name);
    const { body } = await request(world.base, `/.well-known/nostr.json?name=${name}`);
    expect(body.names).toEqual({ [name]: other.pubkey });
  });

  it('is taken away and reserved in one step, so that nobody can have it in between', async () => {
    expect(await nutpost('reserve', name, '--in-use')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        new RegExp(`^${name} is reserved now: .+ taken away from ${wallet.npub}, who had it`),
      ),
    });
    expect(await payable(name)).toBe(false);
    expect(await store.usernames.find(name)).toMatchObject({ status: 'reserved', pubkey: null });
  });

  it('is taken away once by two operators at the same time', async () => {
    const endings = await Promise.all([
      nutpost('release', name, '--in-use', '--json'),
      nutpost('release', name, '--in-use', '--json'),
    ]);
    const outcomes = endings.map(({ stdout }) => JSON.parse(stdout).outcome);
    expect(outcomes.filter((each) => each === 'released')).toHaveLength(1);
    expect(['already_free', 'overtaken']).toContain(outcomes.find((each) => each !== 'released'));
    expect(await store.usernames.find(name)).toBeNull();
  });
});

describe('a name that its owner left for another', () => {
  let later: string;

  beforeEach(async () => {
    later = `${name}later`;
    await use(name);
    await use(later);
  });

  it('is shown with its grace, and as free when that is over', async () => {
    expect(await nutpost('show', name)).toEqual(
      done(`${name} is in its grace: only its former owner can have it, free of charge.
  Former owner  ${wallet.npub}
  Key           ${wallet.pubkey}
  Given up      ${NOW} (0 s ago)
  Kept until    ${IN_30_DAYS} (in 30 days)
`),
    );
    const { stdout } = await nutpostAt(NOW_MS + 30 * DAY_MS, 'show', name);
    expect(stdout).toMatch(new RegExp(`^${name} is free\\.\n {2}Former owner {2}${wallet.npub}\n`));
  });

  it('can be had by others before, once it is released', async () => {
    expect(await hold()).toBe(false);
    expect(await nutpost('release', name)).toEqual(
      done(
        `${name} is free now. ${wallet.npub}, who had it before, could have taken it back until` +
          ` ${IN_30_DAYS}.\n`,
      ),
    );
    expect(await hold()).toBe(true);
    expect(await payable(later)).toBe(true);
  });

  it('can be had by nobody any more, once it is reserved', async () => {
    expect((await nutpost('reserve', name)).stdout).toContain(`${name} is reserved now: nobody`);
    await expect(giveName(world.database, wallet.pubkey, name)).rejects.toThrow('is not free');
    expect(await payable(later)).toBe(true);
  });

  it('is reserved like any free one when its grace is over', async () => {
    expect(await nutpostAt(NOW_MS + 30 * DAY_MS, 'reserve', name)).toEqual(
      done(`${name} is reserved now: nobody can have it.\n`),
    );
    expect(await store.usernames.find(name)).toMatchObject({ status: 'reserved', pubkey: null });
  });
});

describe('a name that is being bought', () => {
  it('is shown with its purchase, and left to it whatever is said', async () => {
    await hold();
    expect(await nutpost('show', name)).toEqual(
      done(`${name} is being bought.
  Buyer         ${wallet.npub}
  Key           ${wallet.pubkey}
  Since         ${NOW} (0 s ago)
  Purchase      p1
`),
    );
    for (const argv of [
      ['reserve', name],
      ['reserve', name, '--in-use'],
      ['release', name],
      ['release', name, '--in-use'],
    ] as const) {
      expect(await nutpost(...argv)).toEqual({
        exitCode: 1,
        stdout: '',
        stderr:
          `${name} is being bought by ${wallet.npub} since ${NOW}: nothing was changed. A purchase` +
          ' comes to its end by itself: try again then.\n',
      });
    }
    expect(await store.usernames.find(name)).toMatchObject({ status: 'pending', purchase: 'p1' });
  });
});

describe('a name on a list', () => {
  const BUILT_IN = 'it is on the list that nutpost brings along';
  const SETTING = 'it is in USERNAME_RESERVED';

  it('is reserved, and no command releases it', async () => {
    for (const [listed, why] of [
      ['postmaster', BUILT_IN],
      [name, SETTING],
    ] as const) {
      const reservedNames = [name];
      const on = (...argv: string[]) => nutpostWith(reservedNames, ...argv);
      expect(await on('show', listed)).toEqual(
        done(`${listed} is reserved: nobody can have it, for ${why}.\n`),
      );
      expect(await on('reserve', listed)).toEqual(
        done(`${listed} was reserved already (${why}): nothing was changed.\n`),
      );
      expect(await on('release', listed, '--in-use')).toEqual({
        exitCode: 1,
        stdout: '',
        stderr: `${listed} stays reserved (${why}): no command can release it.\n`,
      });
    }
  });

  it('that somebody has had since before is shown with both', async () => {
    await use(name);
    const { stdout } = await nutpostWith([name], 'show', name);
    expect(stdout).toContain(`${name} is in use.\n  Owner         ${wallet.npub}\n`);
    expect(stdout).toContain(`  Once free     nobody can have it, for ${SETTING}\n`);
    expect(await nutpostWith([name], 'release', name, '--in-use')).toEqual(
      done(
        `${name} stays reserved, for ${SETTING}. It was taken away from ${wallet.npub}, who had it` +
          ` since ${NOW} and is paid by npub alone now.\n`,
      ),
    );
    expect(await payable(name)).toBe(false);
  });

  it('that a command reserved too stays reserved when that is released', async () => {
    await nutpost('reserve', name);
    expect(await nutpostWith([name], 'release', name)).toEqual(
      done(`${name} stays reserved, for ${SETTING}. A command had reserved it since ${NOW}.\n`),
    );
    expect(await store.usernames.find(name)).toBeNull();
  });
});

it('programs are told the same', async () => {
  await use(name);
  const key = { npub: wallet.npub, pubkey: wallet.pubkey };
  const inUse = { name, standing: 'in_use', key, since: NOW };
  for (const [argv, exitCode, expected] of [
    [['show', name], 0, { outcome: 'name', asOf: NOW, ...inUse }],
    [['reserve', name], 1, { outcome: 'in_use', asOf: NOW, before: inUse }],
    [['reserve', name, '--in-use'], 0, { outcome: 'reserved', asOf: NOW, before: inUse }],
    [['show', name], 0, { outcome: 'name', asOf: NOW, name, standing: 'reserved', since: NOW }],
    [
      ['show', 'admin'],
      0,
      { outcome: 'name', asOf: NOW, name: 'admin', standing: 'reserved', list: 'built_in' },
    ],
  ] as const) {
    const ending = await nutpost(...argv, '--json');
    expect(ending).toMatchObject({ exitCode, stderr: '' });
    expect(JSON.parse(ending.stdout)).toEqual(expected);
  }
});

it.each([
  [['name']],
  [['name', 'show']],
  [['name', 'show', 'alice', 'bob']],
  [['name', 'show', 'alice', '--in-use']],
  [['name', 'sell', 'alice']],
  [['name', 'reserve', 'al']],
  [['name', 'reserve', 'al-ice']],
  [['name', 'reserve', 'npub1alice']],
  [['name', 'reserve', 'alice', '--every']],
])('%j is not understood, and answered by the usage', async (argv) => {
  const { exitCode, stdout, stderr } = await operate(world.database, argv);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toContain('Usage: nutpost <command>\n\n  name show <name>\n');
});

describe('as processes of their own', { timeout: 180_000 }, () => {
  it('the commands work beside the running service and without it', async () => {
    const mint = await TestMint.start();
    onTestFinished(() => mint.close());
    const { env, alice, remove } = await createPlace();
    onTestFinished(remove);
    const settings = { ...env, DEFAULT_MINT_URL: mint.url, USERNAME_PRICE_SAT: '0' };
    const service = new NutpostProcess('serve', { ...settings, USERNAME_RESERVED: 'acme' });
    const base = await service.listening();
    const discover = async (user: string) =>
      (await request(base, `/.well-known/lnurlp/${user}`)).body;

    expect(await discover('alice')).toMatchObject({ tag: 'payRequest' });
    expect(await runNutpost(['user', 'block', 'alice', '--reason', 'a test'], env)).toEqual({
      code: 0,
      stdout: `alice (${alice.npub}) is blocked: payers are told "Recipient unavailable."\n`,
      stderr: '',
    });
    expect(await discover('alice')).toEqual({ status: 'ERROR', reason: 'Recipient unavailable.' });
    expect(await runNutpost(['name', 'release', 'alice'], env)).toMatchObject({
      code: 1,
      stdout: '',
    });
    await runNutpost(['user', 'unblock', alice.npub], env);
    expect(await discover('alice')).toMatchObject({ tag: 'payRequest' });
    expect(await runNutpost(['name', 'show', 'acme'], { ...settings, ...reservedOn(env) })).toEqual(
      {
        code: 0,
        stdout: 'acme is reserved: nobody can have it, for it is in USERNAME_RESERVED.\n',
        stderr: '',
      },
    );

    await service.stop();
    expect(await runNutpost(['name', 'reserve', 'alice', '--in-use'], env)).toMatchObject({
      code: 0,
    });
    const { stdout } = await runNutpost(['name', 'show', 'alice'], env);
    expect(stdout).toMatch(
      /^alice is reserved: nobody can have it\.\n {2}Since {9}\S+ \(\d+ s ago\)\n$/,
    );
    expect((await runNutpost(['user', 'show', alice.npub], env)).stdout).toMatch(
      new RegExp(`^${alice.npub}\n  Key          ${alice.pubkey}\n  Mint`),
    );
  });
});

/** A database of its own with Alice, who has a name; what a service and commands are told of it. */
/** A command that the service runs goes by the service's settings; one on a server by its own. */
function reservedOn(env: Record<string, string>): Record<string, string> {
  return env['DATABASE_URL'] === undefined ? env : { ...env, USERNAME_RESERVED: 'acme' };
}

function done(stdout: string) {
  return { exitCode: 0, stdout, stderr: '' };
}

function nutpost(...argv: string[]) {
  return nutpostAt(NOW_MS, ...argv);
}

function nutpostAt(nowMs: number, ...argv: string[]) {
  return operate(world.database, ['name', ...argv], { clock: () => nowMs });
}

function nutpostWith(reservedNames: readonly string[], ...argv: string[]) {
  return operate(world.database, ['name', ...argv], { clock: () => NOW_MS, reservedNames });
}

/** Gives the wallet a name; the one before is in its grace then. */
async function use(wanted: string): Promise<void> {
  const claim = { nowMs: NOW_MS, graceMs: 30 * DAY_MS };
  await store.transaction((tx) => tx.usernames.take(wanted, { pubkey: wallet.pubkey, ...claim }));
  await allHeard(world.database);
}

/** As a purchase begins. */
function hold(): Promise<boolean> {
  return store.usernames.hold(name, { pubkey: wallet.pubkey, purchase: 'p1', nowMs: NOW_MS });
}

async function payable(address: string): Promise<boolean> {
  const { body } = await request(world.base, `/.well-known/lnurlp/${address}`);
  return body.tag === 'payRequest';
}
