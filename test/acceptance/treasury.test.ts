import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { CommandResult } from '../../src/operator/command.ts';
import { parseCommand } from '../../src/operator/commands.ts';
import { createDataDir } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/nutpost-process.ts';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { TreasuryFixture } from '../helpers/treasury-fixture.ts';

const NAME_PATH = '/api/v2/user/username';

const world = useTestEnvironment({ mint: { inputFeePpk: 1_000 } });
let money: TreasuryFixture;

beforeEach(async () => {
  await world.database.db.deleteFrom('treasury_proofs').execute();
  await world.database.db.deleteFrom('treasury_withdrawals').execute();
  money = new TreasuryFixture(world.mint, world.database);
});

describe('nutpost treasury', () => {
  it('reports that the treasury is empty', async () => {
    const { exitCode, stdout } = await run();
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: 'The treasury has no ecash to withdraw.\n0 names sold for 0 sat, before mint fees\n',
    });
    expect(await run('withdraw')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'The treasury has no ecash to withdraw.\n',
    });
  });

  it('shows the withdrawable balance and the purchases in progress', async () => {
    await money.addEcash(21, 1_000);
    await money.store.purchases.insert({
      id: 'a-purchase',
      pubkey: '0'.repeat(64),
      name: 'waiting',
      priceSat: 21,
      paidSat: 23,
      mintUrl: world.mint.url,
      createdAtMs: money.clock.now(),
      sealedProofs: 'sealed',
      outputPlan: { keysetId: 'any', amounts: [] },
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
  it('prints only a redeemable token on standard output', async () => {
    await money.addEcash(21);
    const { exitCode, stdout, stderr } = await run('withdraw', '--amount', '20');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^cashuB[\w-]+=*\n$/);
    expect(stderr).toMatch(/^A token of 20 sat\. .*\n1 sat left at the mint\.\n$/);
    // The mint charges 1 sat for each of the two proofs.
    expect(await money.redeem(stdout.trim())).toBe(20 - 2);
    expect((await run('withdraw')).stderr).toMatch(/^A token of 1 sat\. /);
    expect((await run()).stdout).toContain('The treasury has no ecash to withdraw.');
  });

  it('creates a token that is listed and can be printed again', async () => {
    await money.addEcash(21);
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

  it('reports the next lower amount if the proofs do not add up to the requested one', async () => {
    await money.addEcash(21);
    expect(await run('withdraw', '--amount', '19')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr:
        'The stored proofs do not add up to exactly 19 sat; the next lower amount is 17 sat.\n',
    });
  });

  it('requires --mint if the treasury has ecash at several mints', async () => {
    await money.addEcash(21);
    const otherTreasury = await TreasuryFixture.open(world.database);
    await otherTreasury.addEcash(8);
    const { exitCode, stderr } = await run('withdraw');
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`  8 sat at ${otherTreasury.mint.url} (1 proof)\n`);
    const { stdout } = await run('withdraw', '--mint', `${otherTreasury.mint.url}/`);
    expect(await otherTreasury.redeem(stdout.trim())).toBe(8);
  });
});

describe('nutpost treasury on SQLite', () => {
  it('withdraws the price of a sold name while the service runs and after it stops', async () => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const env = {
      DATA_DIR: dataDir,
      DEFAULT_MINT_URL: world.mint.url,
      USERNAME_PRICE_SAT: '100',
    };
    const service = new NutpostProcess('serve', env);
    const base = `http://localhost:${new URL(await service.waitUntilListening()).port}`;
    const wallet = new TestWallet(base);
    const token = await (await EcashPayer.open(world.mint)).mintToken(100);
    const purchase = await requestJson(base, NAME_PATH, {
      method: 'POST',
      headers: {
        authorization: wallet.signRequest(NAME_PATH, 'POST'),
        'content-type': 'application/json',
        'x-cashu': token,
      },
      body: JSON.stringify({ username: 'first' }),
    });
    expect(purchase.status).toBe(201);

    // The buyer paid with proofs of 64, 32 and 4 sat: the fee is 3 sat.
    const whileRunning = await runNutpostCommand(['treasury'], env);
    expect(whileRunning.stdout).toContain(`97 sat at ${world.mint.url} (`);
    expect(whileRunning.stdout).toContain('1 name sold for 100 sat');
    const partial = await runNutpostCommand(['treasury', 'withdraw', '--amount', '64'], env);
    expect(partial).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('A token of 64 sat'),
    });
    await service.stop();
    const rest = await runNutpostCommand(['treasury', 'withdraw'], env);
    expect(rest).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('A token of 33 sat.'),
    });
    expect(await money.redeem(partial.stdout.trim())).toBe(64 - 1);
    // Proofs of 32 and 1 sat.
    expect(await money.redeem(rest.stdout.trim())).toBe(33 - 2);
  });
});

async function run(...args: string[]): Promise<CommandResult> {
  const command = parseCommand(['treasury', ...args]);
  if (!('run' in command)) {
    return command;
  }
  const { store, clock } = money;
  const context = {
    store,
    clock: clock.now,
    reservedNames: [],
    treasury: money.createTreasury(),
    allowHttpMints: true,
  };
  return command.run(context, new TestTerminal());
}
