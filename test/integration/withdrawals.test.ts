import { afterEach, describe, expect, it } from 'vitest';
import type { WithdrawalResult } from '../../src/usecases/treasury.ts';
import { useDatabase } from '../helpers/database.ts';
import { TreasuryWorld } from '../helpers/treasury.ts';

/** Withdrawals from the treasury. */

const EVERYTHING = { mintUrl: null, amountSat: null };

const database = useDatabase();

afterEach(async () => {
  await database.db.deleteFrom('treasury_proofs').execute();
  await database.db.deleteFrom('treasury_withdrawals').execute();
});

describe('a withdrawal', () => {
  it('hands out all proofs as they are', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21, 21, 100);
    const treasury = world.treasury();
    const result = await treasury.withdraw(EVERYTHING);
    expect(result).toMatchObject({ outcome: 'token', amountSat: 142 });
    expect(await world.redeem(tokenOf(result))).toBe(142);
    expect(await treasury.withdraw(EVERYTHING)).toEqual({ outcome: 'empty' });
  });

  it('of an amount takes proofs that make it up exactly, or none', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const treasury = world.treasury();
    expect(await treasury.withdraw({ mintUrl: null, amountSat: 7 })).toEqual({
      outcome: 'not_exact',
      requestedSat: 7,
      availableSat: 5,
    });
    expect(await world.balanceSat()).toBe(21);
    const result = await treasury.withdraw({ mintUrl: null, amountSat: 5 });
    expect(await world.redeem(tokenOf(result))).toBe(5);
    expect(await world.balanceSat()).toBe(16);
  });

  it('never hands a proof out twice, however many run at once', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(100, 100);
    const orders = [100, 100, 4, 64, null, null];
    const results = await Promise.all(
      orders.map((amountSat) => world.treasury().withdraw({ mintUrl: null, amountSat })),
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
    expect(withdrawnSat + (await world.balanceSat())).toBe(200);
    const stored = await world.treasury().withdrawals();
    expect(stored.reduce((sum, { amountSat }) => sum + amountSat, 0)).toBe(withdrawnSat);
  });

  it('fails with a treasury secret other than the one that sealed the ecash', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const other = world.treasury('yet another secret, as long as it has to be');
    await expect(other.withdraw(EVERYTHING)).rejects.toThrow(/^TREASURY_SECRET: key /);
    expect(await world.balanceSat()).toBe(21);
    const result = await world.treasury().withdraw(EVERYTHING);
    const id = result.outcome === 'token' ? result.id : '';
    await expect(other.token(id)).rejects.toThrow(/^TREASURY_SECRET: key /);
    // The service itself no longer needs the secret for a token that it handed out.
    expect(await world.store.treasury.hasSealed()).toBe(false);
  });
});

function tokenOf(result: WithdrawalResult): string {
  expect(result.outcome).toBe('token');
  return result.outcome === 'token' ? result.token : '';
}
