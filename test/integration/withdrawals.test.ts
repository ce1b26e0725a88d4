import { afterEach, describe, expect, it } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import type { WithdrawalResult } from '../../src/usecases/treasury.ts';
import { useDatabase } from '../helpers/database.ts';
import { type Fault, type TreasuryProcess, TreasuryWorld } from '../helpers/treasury.ts';

/** Withdrawals from the treasury, while processes die and responses are lost. */

/** Two sats for each proof that is spent: visible in every sum. */
const INPUT_FEE_PPK = 2_000;

const EVERYTHING = { mintUrl: null, amountSat: null };

let database: Database;

useDatabase((opened) => {
  database = opened;
});

afterEach(async () => {
  await database.db.deleteFrom('treasury_proofs').execute();
  await database.db.deleteFrom('treasury_withdrawals').execute();
});

describe('a withdrawal of an amount', () => {
  it('returns the ecash if the mint cannot be reached', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64);
    const process = world.start();
    await withdraw(process, 5);
    await world.mint.stopListening();
    expect(await withdraw(process, 7)).toMatchObject({
      outcome: 'undone',
      reason: 'the mint cannot be reached',
    });
    await world.mint.startListening();
    expect(await world.spendableSat()).toBe(59);
  });

  it('removes proofs that were spent before, as after the restore of a backup', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64, 32);
    const backup = await world.store.treasury.list(world.mint.url, 1);
    const process = world.start();
    await world.redeem(tokenOf(await withdraw(process, 64)));
    await world.store.treasury.add(backup);
    expect(await withdraw(process, 80)).toMatchObject({
      outcome: 'undone',
      reason: expect.stringMatching(/; 64 sat had been spent before and were removed$/),
    });
    expect(await world.store.treasury.balances()).toMatchObject([{ amountSat: 32 }]);
  });

  it.each<[keys: 'the same' | 'rotated', fault: Fault]>([
    ['the same', 'dies after'],
    ['the same', 'loses the request'],
    ['the same', 'loses the response'],
    ['rotated', 'dies after'],
    ['rotated', 'loses the response'],
  ])('loses nothing with %s keys, at whichever request the process %s', async (keys, fault) => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    let isStruck = true;
    let requestCount = 0;
    for (; isStruck; requestCount += 1) {
      await world.earn(64);
      const beforeSat = await world.spendableSat();
      const hold = keys === 'rotated' ? rotateBeforeSwap(world) : null;
      const process = world.start();
      const struck = process.fail(requestCount, fault).then(() => true);
      const withdrawing = withdraw(process, 21).then(() => false);
      isStruck = await Promise.race([struck, withdrawing]);
      // A dead process never gets an answer.
      await (isStruck && fault === 'dies after' ? undefined : withdrawing);
      hold?.release();
      await world.recover(world.start());
      await expectTokensAndRest(world, beforeSat);
    }
    // At least keysets, keys and the swap.
    expect(requestCount).toBeGreaterThan(3);
  });
});

describe('a withdrawal of everything', () => {
  it('hands the stored proofs out as they are, without a request to the mint', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21, 21, 100);
    const process = world.start();
    const result = await process.treasury.withdraw(EVERYTHING);
    expect(result).toMatchObject({ outcome: 'token', amountSat: 142, feeSat: 0 });
    expect(process.requests).toEqual([]);
    expect(await world.redeem(tokenOf(result))).toBe(142);
    expect(await process.treasury.withdraw(EVERYTHING)).toEqual({ outcome: 'empty' });
  });

  it('fails with a treasury secret other than the one that sealed the ecash', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const { treasury } = world.start({ secret: 'yet another secret, as long as it has to be' });
    await expect(treasury.withdraw(EVERYTHING)).rejects.toThrow(/^TREASURY_SECRET: key /);
    expect(await world.spendableSat()).toBe(21);
    const result = await world.start().treasury.withdraw(EVERYTHING);
    const id = result.outcome === 'token' ? result.id : '';
    await expect(treasury.token(id)).rejects.toThrow(/^TREASURY_SECRET: key /);
    // The service itself no longer needs the secret for a token that it handed out.
    expect(await world.store.treasury.hasSealed()).toBe(false);
  });
});

it('loses nothing in many withdrawals at a mint that loses requests and responses', async () => {
  const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
  await world.earn(...Array(12).fill(100));
  const processes = [world.start(), world.start(), world.start()];
  world.mint.switches.chaos = { rates: { cutBefore: 0.1, cutAfter: 0.1, error: 0.1 } };
  await Promise.all(
    processes.flatMap((process) => [7, 13, 29].map((amountSat) => withdraw(process, amountSat))),
  );
  await Promise.all(processes.map((process) => world.recover(process)));
  world.mint.switches.chaos = null;
  await world.recover(world.start());
  await expectTokensAndRest(world, 1_200, null);
});

function withdraw({ treasury }: TreasuryProcess, amountSat: number): Promise<WithdrawalResult> {
  return treasury.withdraw({ mintUrl: null, amountSat });
}

function tokenOf(result: WithdrawalResult): string {
  expect(result.outcome).toBe('token');
  return result.outcome === 'token' ? result.token : '';
}

function rotateBeforeSwap(world: TreasuryWorld): { release: () => void } {
  const hold = world.mint.hold('POST /v1/swap', 'before');
  void hold.reached.then(() => {
    world.mint.rotateKeyset();
    world.clock.advance(10_000);
    hold.release();
  });
  return hold;
}

/**
 * Every withdrawal is settled, its token is good, and the rest is in the treasury. Redeems the tokens and
 * forgets them, so that the next call starts anew.
 *
 * @param tokenSat the amount of every token; null if they differ
 */
async function expectTokensAndRest(
  world: TreasuryWorld,
  beforeSat: number,
  tokenSat: number | null = 21,
): Promise<void> {
  const { treasury } = world.start();
  const { withdrawals } = await treasury.withdrawals();
  expect(withdrawals.filter(({ state }) => state === 'open')).toEqual([]);
  let spentSat = 0;
  for (const { id, amountSat, feeSat, state } of withdrawals) {
    if (state === 'done') {
      spentSat += amountSat + (feeSat ?? 0);
      const stored = await treasury.token(id);
      const token = stored.outcome === 'token' ? stored.token : '';
      expect(await world.faceValueSat(token)).toBe(tokenSat ?? amountSat);
      expect(await world.redeem(token)).toBeGreaterThan(0);
    }
  }
  expect(await world.spendableSat()).toBe(beforeSat - spentSat);
  await database.db.deleteFrom('treasury_withdrawals').execute();
}
