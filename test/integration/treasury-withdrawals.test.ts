import { getDecodedToken } from '@cashu/cashu-ts';
import { afterEach, describe, expect, it } from 'vitest';
import { Sealer } from '../../src/sealer.ts';
import {
  readWithdrawalToken,
  sealProofs,
  type WithdrawalResult,
  withdrawFromTreasury,
} from '../../src/usernames/treasury.ts';
import {
  addTreasuryProofs,
  listWithdrawals,
  needsTreasurySecret,
} from '../../src/usernames/treasury-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { TreasuryFixture } from '../helpers/recipients/treasury-fixture.ts';
import { TEST_TREASURY_SECRET } from '../helpers/service/test-environment.ts';

// test/acceptance/treasury.test.ts has the command.

const ALL_ECASH = { mintUrl: null, amountSat: null };

const KEYSET_ID = '00ad268c4d1f5826';
const USERNAME_PRICE_SAT = 1_000;
/** The proofs in which the treasury receives the price of a username. */
const PROOF_AMOUNTS_SAT = [512, 256, 128, 64, 32, 8];

const database = useTestDatabase();

afterEach(async () => {
  await database.db.deleteFrom('treasury_proofs').execute();
  await database.db.deleteFrom('treasury_withdrawals').execute();
});

describe('a withdrawal', () => {
  it('chooses from all proofs, even if one token cannot contain all of them', async () => {
    const fixture = await TreasuryFixture.open(database);
    await addProofsOfSoldUsernames(fixture);
    const treasury = fixture.openTreasury();
    // Both amounts need a proof of 8 sat, which is not among the 500 largest of the 600 proofs.
    for (const amountSat of [8, USERNAME_PRICE_SAT]) {
      const result = await withdrawFromTreasury(treasury, { mintUrl: null, amountSat });
      expect(countProofs(result)).toBe(amountSat === 8 ? 1 : PROOF_AMOUNTS_SAT.length);
    }
  });

  it('returns at most 500 proofs, and reports how much is left', async () => {
    const fixture = await TreasuryFixture.open(database);
    await addProofsOfSoldUsernames(fixture);
    const treasury = fixture.openTreasury();
    expect(await withdrawFromTreasury(treasury, { mintUrl: null, amountSat: 99_992 })).toEqual({
      outcome: 'not_exact',
      requestedSat: 99_992,
      availableSat: 99_200,
    });
    const result = await withdrawFromTreasury(treasury, ALL_ECASH);
    // The 100 proofs of 8 sat are left.
    expect(result).toMatchObject({ outcome: 'token', amountSat: 99_200, leftSat: 800 });
    expect(await withdrawFromTreasury(treasury, ALL_ECASH)).toMatchObject({
      amountSat: 800,
      leftSat: 0,
    });
  });

  it('never returns a proof that a concurrent withdrawal returns', async () => {
    const fixture = await TreasuryFixture.open(database);
    await fixture.addEcash(100, 100);
    const amountsSat = [100, 100, 4, 64, null, null];
    const results = await Promise.all(
      amountsSat.map((amountSat) =>
        withdrawFromTreasury(fixture.openTreasury(), { mintUrl: null, amountSat }),
      ),
    );
    let withdrawnSat = 0;
    for (const result of results) {
      if (result.outcome === 'token') {
        // The mint accepts each proof only once.
        expect(await fixture.redeem(result.token)).toBe(result.amountSat);
        withdrawnSat += result.amountSat;
      }
    }
    expect(withdrawnSat).toBeGreaterThan(0);
    expect(withdrawnSat + (await fixture.readBalanceSat())).toBe(200);
    const withdrawals = await listWithdrawals(fixture.db, amountsSat.length);
    expect(withdrawals.reduce((sum, { amountSat }) => sum + amountSat, 0)).toBe(withdrawnSat);
  });

  it('fails with a treasury secret different from the one that encrypted the ecash', async () => {
    const fixture = await TreasuryFixture.open(database);
    await fixture.addEcash(21);
    const withOtherSecret = fixture.openTreasury('yet another secret, as long as it has to be');
    await expect(withdrawFromTreasury(withOtherSecret, ALL_ECASH)).rejects.toThrow(
      /^TREASURY_SECRET: key /,
    );
    expect(await fixture.readBalanceSat()).toBe(21);
    const result = await withdrawFromTreasury(fixture.openTreasury(), ALL_ECASH);
    const id = result.outcome === 'token' ? result.id : '';
    await expect(readWithdrawalToken(withOtherSecret, id)).rejects.toThrow(
      /^TREASURY_SECRET: key /,
    );
    // Withdrawn tokens do not count as data for which the service needs the secret.
    expect(await needsTreasurySecret(fixture.db)).toBe(false);
  });
});

async function addProofsOfSoldUsernames({ db, mint }: TreasuryFixture): Promise<void> {
  const proofs = Array.from({ length: 100 }, (_, saleIndex) =>
    PROOF_AMOUNTS_SAT.map((amount) => ({
      id: KEYSET_ID,
      amount,
      secret: `${saleIndex} ${amount}`,
      C: `02${'0'.repeat(64)}`,
    })),
  );
  const sealer = new Sealer(TEST_TREASURY_SECRET);
  await addTreasuryProofs(db, await sealProofs(sealer, mint.url, proofs.flat()));
}

function countProofs(result: WithdrawalResult): number {
  const token = result.outcome === 'token' ? result.token : '';
  return getDecodedToken(token, [KEYSET_ID]).proofs.length;
}
