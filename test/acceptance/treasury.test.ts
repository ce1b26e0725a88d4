import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { CommandResult } from '../../src/operator/command.ts';
import { readCommand } from '../../src/operator/commands.ts';
import { createDataDir } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { NutpostProcess, runNutpost } from '../helpers/nutpost-process.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { TreasuryWorld } from '../helpers/treasury.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { useWorld } from '../helpers/world.ts';

/** `nutpost treasury`: what usernames earned, and its withdrawal. */

const NAME_PATH = '/api/v2/user/username';

const world = useWorld({ mint: { inputFeePpk: 1_000 } });
let money: TreasuryWorld;

beforeEach(async () => {
  await world.database.db.deleteFrom('treasury_proofs').execute();
  await world.database.db.deleteFrom('treasury_withdrawals').execute();
  money = new TreasuryWorld(world.mint, world.database);
});

describe('nutpost treasury', () => {
  it('says that there is no ecash', async () => {
    const { exitCode, stdout } = await run();
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: 'There is no ecash to withdraw.\n0 names sold for 0 sat, before mint fees\n',
    });
    expect(await run('withdraw')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'There is no ecash to withdraw.\n',
    });
  });

  it('shows what can be withdrawn, and the purchases in progress', async () => {
    await money.earn(21, 1_000);
    await money.store.purchases.open({
      id: 'a-purchase',
      pubkey: '0'.repeat(64),
      name: 'waiting',
      priceSat: 21,
      paidSat: 23,
      mintUrl: world.mint.url,
      createdAtMs: money.clock.now(),
      token: 'sealed',
      plan: { keysetId: 'any', amounts: [] },
      leaseHolder: 'a run',
    });
    onTestFinished(async () => {
      await world.database.db.deleteFrom('username_purchases').execute();
    });
    const { stdout } = await run();
    expect(stdout).toContain(`Can be withdrawn\n  1,021 sat at ${world.mint.url} (9 proofs)\n`);
    expect(stdout).toContain('\n  purchase a-purchase of waiting for 23 sat\n    since 20');
    const json = (await run('--json')).stdout;
    expect(JSON.parse(json)).toMatchObject({
      balances: [{ mintUrl: world.mint.url, amountSat: 1_021, proofCount: 9 }],
      names: { namesSold: 0, paidSat: 0 },
      openPurchases: [{ id: 'a-purchase', name: 'waiting' }],
    });
    expect(stdout + json).not.toMatch(/cashuB|"secret"|"C"|sealed/);
  });
});

describe('nutpost treasury withdraw', () => {
  it('prints a token alone on standard output, which a wallet redeems', async () => {
    await money.earn(21);
    const { exitCode, stdout, stderr } = await run('withdraw', '--amount', '20');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^cashuB[\w-]+=*\n$/);
    expect(stderr).toMatch(/^A token of 20 sat\. .*\n1 sat left at the mint\.\n$/);
    // The mint takes 1 sat for each of the two proofs.
    expect(await money.redeem(stdout.trim())).toBe(20 - 2);
    expect((await run('withdraw')).stderr).toMatch(/^A token of 1 sat\. /);
    expect((await run()).stdout).toContain('There is no ecash to withdraw.');
  });

  it('makes a token that is listed and can be printed again', async () => {
    await money.earn(21);
    const { stdout: token, stderr } = await run('withdraw');
    const id = /nutpost treasury token ([0-9a-f-]{36})/.exec(stderr)?.[1] ?? '';
    expect(await run('token', id)).toEqual({
      exitCode: 0,
      stdout: token,
      stderr: 'A token of 21 sat, unless it has been redeemed.\n',
    });
    expect((await run('withdrawals')).stdout).toMatch(
      new RegExp(`^20\\S+Z {2}${id} {2}21 sat at ${world.mint.url}\n$`),
    );
    expect(JSON.parse((await run('withdrawals', '--json')).stdout)).toEqual({
      withdrawals: [{ id, mintUrl: world.mint.url, amountSat: 21, createdAt: expect.any(String) }],
    });
    expect(JSON.parse((await run('token', id, '--json')).stdout)).toEqual({
      outcome: 'token',
      token: token.trim(),
      amountSat: 21,
    });
    expect(await run('token', 'none')).toMatchObject({ exitCode: 1, stdout: '' });
  });

  it('says how much the proofs make up if that is not the amount', async () => {
    await money.earn(21);
    expect(await run('withdraw', '--amount', '19')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr:
        'The proofs in the treasury cannot make up exactly 19 sat; the nearest amount below is 17 sat.\n',
    });
  });

  it('asks for the mint if there is ecash at several', async () => {
    await money.earn(21);
    const other = await TreasuryWorld.open(world.database);
    await other.earn(8);
    const { exitCode, stderr } = await run('withdraw');
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`  8 sat at ${other.mint.url} (1 proof)\n`);
    const { stdout } = await run('withdraw', '--mint', `${other.mint.url}/`);
    expect(await other.redeem(stdout.trim())).toBe(8);
  });
});

describe('on SQLite', () => {
  it('a name is sold, and what it earned withdrawn beside the service and without it', async () => {
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
    expect(beside.stdout).toContain(`97 sat at ${world.mint.url} (`);
    expect(beside.stdout).toContain('1 name sold for 100 sat');
    const part = await runNutpost(['treasury', 'withdraw', '--amount', '64'], env);
    expect(part).toMatchObject({ code: 0, stderr: expect.stringContaining('A token of 64 sat') });
    await service.stop();
    const rest = await runNutpost(['treasury', 'withdraw'], env);
    expect(rest).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('A token of 33 sat.'),
    });
    expect(await money.redeem(part.stdout.trim())).toBe(64 - 1);
    // 32 and 1.
    expect(await money.redeem(rest.stdout.trim())).toBe(33 - 2);
  });
});

async function run(...args: string[]): Promise<CommandResult> {
  const command = readCommand(['treasury', ...args]);
  if (!('run' in command)) {
    return command;
  }
  const { store, clock } = money;
  const own = { reservedNames: [], treasury: money.treasury(), version: '1.2.3' };
  return command.run({ store, clock: clock.now, ...own, allowHttpMints: true }, new TestTerminal());
}
