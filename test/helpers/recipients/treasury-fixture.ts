import { onTestFinished } from 'vitest';
import { TestMint } from '../../../demo/test-mint.ts';
import type { Database } from '../../../src/database/database.ts';
import type { Db } from '../../../src/database/transaction.ts';
import { Sealer } from '../../../src/sealer.ts';
import type { TreasuryContext } from '../../../src/usernames/treasury.ts';
import { sealProofs } from '../../../src/usernames/treasury.ts';
import { addTreasuryProofs, listBalances } from '../../../src/usernames/treasury-store.ts';
import { TEST_TREASURY_SECRET } from '../service/test-environment.ts';
import { TestClock } from '../test-clock.ts';
import { EcashPayer } from './ecash-payer.ts';

export class TreasuryFixture {
  readonly mint: TestMint;
  readonly db: Db;
  readonly clock = new TestClock();

  static async open(database: Database): Promise<TreasuryFixture> {
    const mint = await TestMint.start();
    onTestFinished(() => mint.close());
    return new TreasuryFixture(mint, database);
  }

  constructor(mint: TestMint, { db }: Database) {
    this.mint = mint;
    this.db = db;
  }

  openTreasury(secret = TEST_TREASURY_SECRET): TreasuryContext {
    return { db: this.db, sealer: new Sealer(secret), systemUser: 'root', clock: this.clock.now };
  }

  addEcash(...amountsSat: number[]): Promise<void> {
    return this.addExpiringEcash(null, ...amountsSat);
  }

  /** @param expiresAtMs null: never */
  async addExpiringEcash(expiresAtMs: number | null, ...amountsSat: number[]): Promise<void> {
    const payer = await EcashPayer.open(this.mint);
    const sealer = new Sealer(TEST_TREASURY_SECRET);
    for (const amountSat of amountsSat) {
      const proofs = (await payer.mintProofs(amountSat)).map((proof) => ({
        ...proof,
        amount: proof.amount.toNumber(),
      }));
      const sealed = await sealProofs(sealer, this.mint.url, proofs, expiresAtMs);
      await addTreasuryProofs(this.db, sealed);
    }
  }

  async readBalanceSat(): Promise<number> {
    const balances = await listBalances(this.db);
    return balances.find(({ mintUrl }) => mintUrl === this.mint.url)?.amountSat ?? 0;
  }

  /** Receives a token in a new wallet. @returns the amount in sats after the mint's fee */
  async redeem(token: string): Promise<number> {
    const { wallet } = await EcashPayer.open(this.mint);
    const receivedProofs = await wallet.receive(token);
    return receivedProofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
  }
}
