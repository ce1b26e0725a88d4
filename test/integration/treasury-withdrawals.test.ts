import { getDecodedToken } from '@cashu/cashu-ts';
import { afterEach, describe, expect, it } from 'vitest';
import { Sealer, sealProofs } from '../../src/usernames/ecash/sealer.ts';
import type { WithdrawalResult } from '../../src/usernames/treasury.ts';
import { useDatabase } from '../helpers/database.ts';
import { TEST_TREASURY_SECRET } from '../helpers/test-environment.ts';
import { TreasuryFixture } from '../helpers/treasury-fixture.ts';

/** Withdrawals from the treasury. */

const EVERYTHING = { mintUrl: null, amountSat: null };

const database = useDatabase();

afterEach(async () => {
  await database.db.deleteFrom('treasury_proofs').execute();
  await database.db.deleteFrom('treasury_withdrawals').execute();
});

describe('a withdrawal', () => {
  it('returns all proofs unchanged', async () => {
    const world = await TreasuryFixture.open(database);
    await world.addEcash(21, 21, 100);
    const treasury = world.createTreasury();
    const result = await treasury.withdraw(EVERYTHING);
    expect(result).toMatchObject({ outcome: 'token', amountSat: 142 });
    expect(await world.redeem(tokenOf(result))).toBe(142);
    expect(await treasury.withdraw(EVERYTHING)).toEqual({ outcome: 'empty' });
  });

  it('of an amount takes proofs with exactly that sum, or none', async () => {
    const world = await TreasuryFixture.open(database);
    await world.addEcash(21);
    const treasury = world.createTreasury();
    expect(await treasury.withdraw({ mintUrl: null, amountSat: 7 })).toEqual({
      outcome: 'not_exact',
      requestedSat: 7,
      availableSat: 5,
    });
    expect(await world.readBalanceSat()).toBe(21);
    const result = await treasury.withdraw({ mintUrl: null, amountSat: 5 });
    expect(await world.redeem(tokenOf(result))).toBe(5);
    expect(await world.readBalanceSat()).toBe(16);
  });

  it('chooses from all proofs if there are more than fit in one token', async () => {
    const world = await TreasuryFixture.open(database);
    await earnNames(world);
    const treasury = world.createTreasury();
    // The 500 largest of the 600 proofs cannot form either amount.
    for (const amountSat of [8, 1_000]) {
      const result = await treasury.withdraw({ mintUrl: null, amountSat });
      expect(result).toMatchObject({ outcome: 'token', amountSat });
      expect(proofsOf(result)).toBe(amountSat === 8 ? 1 : 6);
    }
  });

  it('of everything takes the largest proofs that fit in one token, and returns what is left', async () => {
    const world = await TreasuryFixture.open(database);
    await earnNames(world);
    const treasury = world.createTreasury();
    const result = await treasury.withdraw(EVERYTHING);
    expect(result).toMatchObject({ outcome: 'token', amountSat: 99_200, leftSat: 800 });
    expect(await treasury.withdraw(EVERYTHING)).toMatchObject({ amountSat: 800, leftSat: 0 });
  });

  it('of an amount that needs too many proofs names the amount to withdraw first', async () => {
    const world = await TreasuryFixture.open(database);
    await earnNames(world);
    const treasury = world.createTreasury();
    expect(await treasury.withdraw({ mintUrl: null, amountSat: 99_992 })).toEqual({
      outcome: 'too_many_proofs',
      requestedSat: 99_992,
      proofCount: 599,
      maxProofs: 500,
      availableSat: 99_200,
    });
    expect(await treasury.withdraw({ mintUrl: null, amountSat: 99_200 })).toMatchObject({
      outcome: 'token',
    });
    expect(await treasury.withdraw({ mintUrl: null, amountSat: 792 })).toMatchObject({
      outcome: 'token',
      leftSat: 8,
    });
  });

  it('never returns a proof twice when several run concurrently', async () => {
    const world = await TreasuryFixture.open(database);
    await world.addEcash(100, 100);
    const orders = [100, 100, 4, 64, null, null];
    const results = await Promise.all(
      orders.map((amountSat) => world.createTreasury().withdraw({ mintUrl: null, amountSat })),
    );
    let withdrawnSat = 0;
    for (const result of results) {
      if (result.outcome === 'token') {
        // The mint takes each proof once.
        expect(await world.redeem(result.token)).toBe(result.amountSat);
        withdrawnSat += result.amountSat;
      }
    }
    expect(withdrawnSat).toBeGreaterThan(0);
    expect(withdrawnSat + (await world.readBalanceSat())).toBe(200);
    const stored = await world.createTreasury().listWithdrawals();
    expect(stored.reduce((sum, { amountSat }) => sum + amountSat, 0)).toBe(withdrawnSat);
  });

  it('fails with a treasury secret other than the one that sealed the ecash', async () => {
    const world = await TreasuryFixture.open(database);
    await world.addEcash(21);
    const other = world.createTreasury('yet another secret, as long as it has to be');
    await expect(other.withdraw(EVERYTHING)).rejects.toThrow(/^TREASURY_SECRET: key /);
    expect(await world.readBalanceSat()).toBe(21);
    const result = await world.createTreasury().withdraw(EVERYTHING);
    const id = result.outcome === 'token' ? result.id : '';
    await expect(other.readWithdrawalToken(id)).rejects.toThrow(/^TREASURY_SECRET: key /);
    // The service does not need the secret for a token that was withdrawn.
    expect(await world.store.treasury.hasSealedData()).toBe(false);
  });
});

/** What 100 names of 1000 sat earn: 600 proofs of 512, 256, 128, 64, 32 and 8 sat. */
async function earnNames({ store, mint }: TreasuryFixture): Promise<void> {
  const proofs = Array.from({ length: 100 }, (_, name) =>
    [512, 256, 128, 64, 32, 8].map((amount) => ({
      id: '00ad268c4d1f5826',
      amount,
      secret: `${name} ${amount}`,
      C: `02${'0'.repeat(64)}`,
    })),
  );
  const sealer = new Sealer(TEST_TREASURY_SECRET);
  await store.treasury.addProofs(await sealProofs(sealer, mint.url, proofs.flat()));
}

function proofsOf(result: WithdrawalResult): number {
  return getDecodedToken(tokenOf(result), ['00ad268c4d1f5826']).proofs.length;
}

function tokenOf(result: WithdrawalResult): string {
  expect(result.outcome).toBe('token');
  return result.outcome === 'token' ? result.token : '';
}
