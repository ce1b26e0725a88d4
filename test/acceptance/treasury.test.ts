import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { transaction } from '../../src/database/transaction.ts';
import type { CommandResult } from '../../src/operator/command.ts';
import { insertPurchase } from '../../src/usernames/purchase-store.ts';
import { createDataDir, isPostgres } from '../helpers/database/test-database.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { TreasuryFixture } from '../helpers/recipients/treasury-fixture.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { createCommandContext, runOrExplain } from '../helpers/service/run-operator-command.ts';
import { TEST_TREASURY_SECRET, useTestEnvironment } from '../helpers/service/test-environment.ts';

/** The mint charges a fee of 1 sat per proof. */
const environment = useTestEnvironment({ mint: { inputFeePpk: 1_000 } });
let fixture: TreasuryFixture;

beforeEach(async () => {
  await environment.database.db.deleteFrom('treasury_proofs').execute();
  await environment.database.db.deleteFrom('treasury_withdrawals').execute();
  fixture = new TreasuryFixture(environment.mint, environment.database);
});

describe('nutpost treasury', () => {
  it('shows the withdrawable balance and the purchases in progress', async () => {
    await fixture.addEcash(21, 1_000);
    const purchase = {
      id: 'a-purchase',
      pubkey: '0'.repeat(64),
      name: 'alice',
      mintUrl: environment.mint.url,
      sealedProofs: 'sealed',
      outputPlans: [],
      attempts: 0,
      firstResentAtMs: null,
      lastUnansweredAtMs: null,
      leaseHolder: 'a run',
    };
    const payment = { priceSat: 21, paidSat: 23, nowMs: fixture.clock.now() };
    await transaction(environment.database.db, (tx) => insertPurchase(tx, purchase, payment));
    onTestFinished(async () => {
      await environment.database.db.deleteFrom('username_purchases').execute();
    });
    const { stdout } = await runTreasury();
    expect(stdout).toContain(
      `Can be withdrawn\n  1,021 sat at ${environment.mint.url} (9 proofs)\n`,
    );
    expect(stdout).toContain('\n  purchase a-purchase of alice for 23 sat\n    since 20');
    const json = await readJson();
    expect(json).toMatchObject({
      balances: [{ mintUrl: environment.mint.url, amountSat: 1_021, proofCount: 9 }],
      sales: { namesSold: 0, paidSat: 0 },
      openPurchases: [{ id: 'a-purchase', name: 'alice', paidSat: 23, attempts: 0 }],
    });
    expect(stdout + JSON.stringify(json)).not.toMatch(/cashuB|"secret"|"C"|sealed/);
  });
});

describe('ecash that expires', () => {
  const DAY_MS = 24 * 60 * 60_000;

  it('is shown in the last month before it expires', async () => {
    const now = Date.now();
    await fixture.addExpiringEcash(now + 3 * DAY_MS + 60_000, 16);
    await fixture.addExpiringEcash(now + 60 * DAY_MS, 8);
    await fixture.addExpiringEcash(now - 3 * DAY_MS, 4);
    const { stdout } = await runTreasury();
    expect(stdout).toMatch(/^ {2}28 sat at /m);
    expect(stdout).toMatch(/^ {2}16 sat at http\S+ expire \S+ \(in 3 days\)$/m);
    expect(stdout).toMatch(/^ {2}4 sat at http\S+ expired \S+ \(3 days ago\)$/m);
    expect(stdout).not.toMatch(/^ {2}8 sat/m);
  });

  it('is withdrawn after the other ecash once it has expired', async () => {
    await fixture.addEcash(16);
    await fixture.addExpiringEcash(Date.now() - DAY_MS, 4);
    expect((await runTreasury('withdraw')).stderr).toMatch(
      /^A token of 16 sat\. .*\n4 sat left at the mint\.\n$/,
    );
    expect((await runTreasury('withdraw')).stderr).toMatch(/^A token of 4 sat\. .*\n$/);
  });
});

describe('nutpost treasury withdraw', () => {
  it('prints only a redeemable token on standard output', async () => {
    await fixture.addEcash(21);
    const { exitCode, stdout, stderr } = await runTreasury('withdraw', '--amount', '20');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^cashuB[\w-]+=*\n$/);
    expect(stderr).toMatch(/^A token of 20 sat\. .*\n1 sat left at the mint\.\n$/);
    // The token has two proofs, of 16 and 4 sat.
    expect(await fixture.redeem(stdout.trim())).toBe(20 - 2);
    expect((await runTreasury('withdraw')).stderr).toMatch(/^A token of 1 sat\. /);
    expect((await runTreasury()).stdout).toContain('The treasury has no ecash to withdraw.');
  });

  it('creates a token that is listed and can be printed again', async () => {
    await fixture.addEcash(21);
    const { stdout: token, stderr } = await runTreasury('withdraw');
    const id = /nutpost treasury token ([0-9a-f-]{36})/.exec(stderr)?.[1] ?? '';
    expect(await runTreasury('token', id)).toEqual({
      exitCode: 0,
      stdout: token,
      stderr: 'A token of 21 sat, unless it has been redeemed.\n',
    });
    expect((await runTreasury('withdrawals')).stdout).toMatch(
      new RegExp(`^20\\S+Z {2}${id} {2}21 sat at ${environment.mint.url}\n$`),
    );
    const listed = {
      id,
      mintUrl: environment.mint.url,
      amountSat: 21,
      createdAt: expect.any(String),
    };
    expect(await readJson('withdrawals')).toEqual({ withdrawals: [listed] });
    const printed = { outcome: 'token', token: token.trim(), amountSat: 21 };
    expect(await readJson('token', id)).toEqual(printed);
    expect(await runTreasury('token', 'none')).toMatchObject({ exitCode: 1, stdout: '' });
  });

  it('requires --mint if the treasury has ecash at several mints', async () => {
    await fixture.addEcash(21);
    const otherTreasury = await TreasuryFixture.open(environment.database);
    await otherTreasury.addEcash(8);
    const { exitCode, stderr } = await runTreasury('withdraw');
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`  8 sat at ${otherTreasury.mint.url} (1 proof)\n`);
    const { stdout } = await runTreasury('withdraw', '--mint', `${otherTreasury.mint.url}/`);
    expect(await otherTreasury.redeem(stdout.trim())).toBe(8);
  });
});

describe.skipIf(isPostgres)('nutpost treasury on SQLite', () => {
  it('withdraws the payment for a name while the service runs', async () => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const env = {
      DATA_DIR: dataDir,
      DEFAULT_MINT_URL: environment.mint.url,
      USERNAME_PRICE_SAT: '100',
    };
    const service = new NutpostProcess('serve', env);
    const origin = `http://localhost:${new URL(await service.waitForUrl()).port}`;
    const wallet = new RecipientClient(origin);
    const token = await (await EcashPayer.open(environment.mint)).mintToken(100);
    expect((await requestUsername(wallet, 'first', token)).status).toBe(201);

    // The buyer paid with three proofs (64, 32 and 4 sat), so the fee is 3 sat.
    const { stderr, stdout } = await runNutpostCommand(['treasury', 'withdraw'], env);
    expect(stderr).toContain('A token of 97 sat.');
    // The token has three proofs, of 64, 32 and 1 sat.
    expect(await fixture.redeem(stdout.trim())).toBe(97 - 3);
  });
});

async function readJson(...args: string[]) {
  return JSON.parse((await runTreasury(...args, '--json')).stdout);
}

async function runTreasury(...args: string[]): Promise<CommandResult> {
  const { db, clock } = fixture;
  const env = { TREASURY_SECRET: TEST_TREASURY_SECRET };
  const context = createCommandContext({ db, clock: clock.now }, env);
  return runOrExplain(['treasury', ...args], (run) => run(context, new FakeTerminal()));
}
