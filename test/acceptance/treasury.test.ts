import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { CommandResult } from '../../src/commands/command.ts';
import { readCommand } from '../../src/commands/commands.ts';
import { createDataDir } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { startLnurlServer } from '../helpers/lnurl-server.ts';
import { runNutpost } from '../helpers/nutpost-command.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { npubcashImport } from '../helpers/operator.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { type TreasuryProcess, TreasuryWorld } from '../helpers/treasury.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** `nutpost treasury`: what the operator's names earned, and how it is taken out. */

const NAME_PATH = '/api/v2/user/username';

/** Each start of the embedded database takes seconds. */
const SOME_STARTS_MS = 180_000;

const SECRETS = /cashuB|"secret"|"C"/;

let world: World;
let money: TreasuryWorld;
let process: TreasuryProcess;

beforeAll(async () => {
  world = await openWorld({ mint: { inputFeePpk: 1_000 } });
});

beforeEach(async () => {
  await world.database.db.deleteFrom('treasury_proofs').execute();
  await world.database.db.deleteFrom('treasury_withdrawals').execute();
  money = TreasuryWorld.at(world.mint, world.database);
  process = money.start();
});

afterAll(() => world.close());

describe('nutpost treasury', () => {
  it('says that there is nothing where nothing was earned', async () => {
    const { exitCode, stdout } = await run();
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: 'Nothing can be withdrawn.\n0 names sold, for 0 sat before the fees of mints\n',
    });
    expect(await run('withdraw')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'There is nothing to withdraw there.\n',
    });
  });

  it('counts what can be withdrawn, what waits and which tokens are out', async () => {
    await money.earn(21, 1_000);
    await run('withdraw', '--amount', '16');
    world.mint.switches.meltPayment = 'pending';
    const lnurl = await startLnurlServer();
    await run('withdraw', '--to', lnurl.address, '--amount', '300');
    world.mint.switches.meltPayment = 'paid';

    const { stdout } = await run();
    expect(stdout).toContain(`Can be withdrawn\n  493 sat at ${world.mint.url}, in 7 proofs`);
    expect(stdout).toMatch(/Under way\n {2}withdrawal [0-9a-f-]{36}, 300 sat to operator@127/);
    expect(stdout).toMatch(/tried once in vain: the payment is under way; looked at again at 20/);
    expect(stdout).toMatch(/not redeemed\n {2}[0-9a-f-]{36} {2}16 sat, made .*: nobody has redeem/);
    expect(stdout).not.toMatch(SECRETS);

    const json = JSON.parse((await run('--json')).stdout);
    expect(json).toMatchObject({
      balances: [{ mintUrl: world.mint.url, amountSat: 493, proofCount: 7 }],
      names: { namesSold: 0, paidSat: 0 },
      openPurchases: [],
      openWithdrawals: [{ kind: 'lightning', state: 'open', amountSat: 300, to: lnurl.address }],
      tokens: [{ kind: 'token', amountSat: 16, feeSat: 0, token: 'unredeemed' }],
    });
    const [melt] = [...world.mint.meltQuotes.values()];
    expect(JSON.stringify(json)).not.toContain(melt?.id);
    expect(JSON.stringify(json)).not.toMatch(SECRETS);
  });

  it('names a purchase that waits for its mint, and since when', async () => {
    const { store } = process;
    await store.purchases.open({
      id: 'a-purchase',
      pubkey: '0'.repeat(64),
      name: 'waiting',
      priceSat: 21,
      paidSat: 23,
      mintUrl: world.mint.url,
      createdAtMs: money.clock.now(),
      token: 'sealed',
      plan: { keysetId: 'any', amounts: [] },
      driver: 'somebody',
    });
    const { stdout } = await run();
    expect(stdout).toContain('  purchase a-purchase of waiting for 23 sat\n    since 20');
    await world.database.db.deleteFrom('username_purchases').execute();
  });
});

describe('a withdrawal', () => {
  it('prints a token alone on standard output, which a wallet takes', async () => {
    await money.earn(21);
    const { exitCode, stdout, stderr } = await run('withdraw', '--amount', '10');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^cashuB[\w-]+=*\n$/);
    // 16 is given for 8, 2, 4 and 1: the fee for one proof is 1 sat.
    expect(stderr).toMatch(/^A token of 10 sat, with a fee of 1 sat; 10 sat left\. /);
    expect(await money.redeem(stdout.trim())).toBe(10 - 2);
    const rest = await run('withdraw');
    expect(await money.redeem(rest.stdout.trim())).toBe(10 - 4);
    expect((await run()).stdout).toContain('Nothing can be withdrawn.');
  });

  it('can be printed again, and is listed with what became of it', async () => {
    await money.earn(21);
    const { stdout: token, stderr } = await run('withdraw');
    const id = /nutpost treasury token ([0-9a-f-]{36})/.exec(stderr)?.[1] ?? '';
    expect(await run('token', id)).toEqual({
      exitCode: 0,
      stdout: token,
      stderr: 'A token of 21 sat: nobody has redeemed it.\n',
    });
    expect((await run('withdrawals')).stdout).toContain(`${id}  token of 21 sat: nobody has`);
    await money.redeem(token.trim());
    expect((await run('withdrawals')).stdout).toContain(`${id}  token of 21 sat: somebody has`);
    expect(await run('token', id)).toMatchObject({ exitCode: 1, stdout: '' });
    expect(await run('reclaim', id)).toMatchObject({ exitCode: 1, stdout: '' });
    expect(await run('token', 'none')).toMatchObject({ exitCode: 1, stdout: '' });
  });

  it('that nobody redeemed can be taken back, less the fee', async () => {
    await money.earn(21);
    const { stdout: token, stderr } = await run('withdraw');
    const id = /nutpost treasury token ([0-9a-f-]{36})/.exec(stderr)?.[1] ?? '';
    expect((await run('reclaim', id)).stdout).toBe(
      '18 sat are back in the treasury, with a fee of 3 sat; the token is worth nothing any more.\n',
    );
    await expect(money.redeem(token.trim())).rejects.toThrow();
    expect((await run('token', id)).stderr).toBe('There is no token: undone: taken back.\n');
  });

  it('that is under way tells how to print its token later', async () => {
    await money.earn(64);
    process = money.start({ answerWithinMs: 0 });
    const hold = world.mint.hold('POST /v1/swap', 'before');
    const { exitCode, stderr, stdout } = await run('withdraw', '--amount', '5');
    await hold.reached;
    hold.release();
    await process.settle.idle();
    expect(exitCode).toBe(1);
    const id = /`nutpost treasury token ([0-9a-f-]{36})` prints it then\./.exec(
      stderr + stdout,
    )?.[1];
    expect(await run('token', id ?? '')).toMatchObject({ exitCode: 0 });
  });

  it('of more than there is is refused in clear words', async () => {
    await money.earn(21);
    expect(await run('withdraw', '--amount', '19')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr:
        'There is not enough: 19 sat are needed with all fees, and what can be withdrawn is worth' +
        ' 18 sat after the fee of the mint.\n',
    });
  });

  it('asks which mint is meant where there are several', async () => {
    await money.earn(21);
    const other = await TreasuryWorld.open(world.database);
    await other.earn(8);
    const { exitCode, stderr } = await run('withdraw');
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`  ${other.mint.url}  8 sat\n`);
    const { stdout } = await run('withdraw', '--mint', `${other.mint.url}/`);
    expect(await other.redeem(stdout.trim())).toBe(8);
  });
});

describe('a payment to a Lightning address', () => {
  it('reaches a recipient of this very service, whose wallet sees it', async () => {
    await money.earn(100);
    const wallet = world.newWallet();
    const address = `${wallet.npub}@${new URL(world.base).host}`;
    const { exitCode, stdout } = await run('withdraw', '--to', address, '--amount', '42');
    expect(stdout).toContain(`42 sat paid to ${address}, with a fee of 1 sat; 21 sat came back`);
    expect(exitCode).toBe(0);
    expect([...world.mint.quotes.values()].at(-1)).toMatchObject({ amountSat: 42, state: 'PAID' });
    expect((await run()).stdout).toContain('57 sat at');
  });

  it('is all there is, but for the fees, where no amount is said', async () => {
    await money.earn(100);
    const wallet = world.newWallet();
    const address = `${wallet.npub}@${new URL(world.base).host}`;
    expect((await run('withdraw', '--to', address, '--json')).stdout).toContain('"amountSat": 97');
    expect((await run()).stdout).toContain('Nothing can be withdrawn.');
  });

  it('that came to nothing is told with what came back, and with one full stop', async () => {
    await money.earn(100);
    world.mint.switches.meltPayment = 'failed';
    onTestFinished(() => {
      world.mint.switches.meltPayment = 'paid';
    });
    const { address } = await startLnurlServer();
    const { exitCode, stderr } = await run('withdraw', '--to', address, '--amount', '50');
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^It came to nothing: [^.]+\. 64 sat are back in the treasury\. /);
    expect(stderr).not.toContain('..');
  });

  it('that its server refuses is told in the words of that server, made harmless', async () => {
    await money.earn(100);
    const { address } = await startLnurlServer();
    const nobody = address.replace('operator', 'nobody');
    expect(await run('withdraw', '--to', nobody)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr:
        'The server of the Lightning address refused: Nobody of[31m this name. Nothing was paid.\n',
    });
  });
});

describe('a command that cannot be', () => {
  it.each([
    [['withdraw', '--amount', '0']],
    [['withdraw', '--amount', '1.5']],
    [['withdraw', '--to', 'nobody']],
    [['withdraw', '--mint', 'no mint']],
    [['withdraw', 'more']],
    [['withdrawals', '--amount', '5']],
    [['token']],
    [['reclaim', 'one', 'two']],
    [['spend']],
  ])('is answered with the usage: %j', async (args) => {
    expect(await run(...args)).toMatchObject({ exitCode: 2, stdout: '' });
  });

  it('is told so where there is no treasury', async () => {
    const { exitCode, stderr } = await runWith(null, 'withdraw');
    expect({ exitCode, stderr }).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('There is no treasury'),
    });
  });
});

describe('on the embedded database', () => {
  it(
    'a name is sold, and what it earned withdrawn beside the service and without it',
    async () => {
      const { dataDir, remove } = await createDataDir();
      onTestFinished(remove);
      const env = {
        DATA_DIR: dataDir,
        DEFAULT_MINT_URL: world.mint.url,
        USERNAME_PRICE_SAT: '100',
      };
      const service = new NutpostProcess('serve', env);
      const base = `http://localhost:${new URL(await service.listening()).port}`;
      const wallet = new TestWallet(base);
      const token = await (await EcashPayer.open(world.mint)).token(100);
      const bought = await request(base, NAME_PATH, {
        method: 'POST',
        headers: {
          authorization: wallet.sign(NAME_PATH, 'POST'),
          'content-type': 'application/json',
          'x-cashu': token,
        },
        body: JSON.stringify({ username: 'first' }),
      });
      expect(bought.status).toBe(201);

      // 64, 32 and 4 were given for it: the fee is 3 sat.
      const beside = await runNutpost(['treasury'], env);
      expect(beside.stdout).toContain(`97 sat at ${world.mint.url}`);
      expect(beside.stdout).toContain('1 name sold, for 100 sat');
      const part = await runNutpost(['treasury', 'withdraw', '--amount', '50'], env);
      expect(part).toMatchObject({ code: 0, stderr: expect.stringContaining('46 sat left') });
      await service.stop();
      const rest = await runNutpost(['treasury', 'withdraw'], env);
      expect(rest).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('A token of 46 sat;'),
      });
      expect(await money.faceValueSat(part.stdout.trim())).toBe(50);
      expect(await money.redeem(part.stdout.trim())).toBeGreaterThan(0);
      expect(await money.redeem(rest.stdout.trim())).toBeGreaterThan(0);
    },
    SOME_STARTS_MS,
  );
});

function run(...args: string[]): Promise<CommandResult> {
  const { show, withdraw } = process;
  return runWith({ show, withdraw }, ...args);
}

async function runWith(
  treasury: Pick<TreasuryProcess, 'show' | 'withdraw'> | null,
  ...args: string[]
): Promise<CommandResult> {
  const command = readCommand(['treasury', ...args]);
  const { store } = process;
  return 'run' in command
    ? command.run(
        {
          store,
          clock: money.clock.now,
          reservedNames: [],
          treasury,
          importNpubcash: npubcashImport(store, money.clock.now),
          version: '1.2.3',
        },
        new TestTerminal(),
      )
    : command;
}
