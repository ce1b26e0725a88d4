import { onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store.ts';
import { Sealer } from '../../src/usernames/ecash/seal.ts';
import { sealProofs, Treasury } from '../../src/usernames/treasury.ts';
import { EcashPayer } from './ecash-payer.ts';
import { TestClock } from './test-clock.ts';
import { TEST_TREASURY_SECRET } from './world.ts';

/** A treasury with ecash of one mint. */
export class TreasuryWorld {
  readonly mint: TestMint;
  readonly store: Store;
  readonly clock = new TestClock();

  /** For one test, with a mint of its own. */
  static async open(database: Database): Promise<TreasuryWorld> {
    const mint = await TestMint.start();
    onTestFinished(() => mint.close());
    return new TreasuryWorld(mint, database);
  }

  constructor(mint: TestMint, { db }: Database) {
    this.mint = mint;
    this.store = new Store(db);
  }

  treasury(secret = TEST_TREASURY_SECRET): Treasury {
    return new Treasury({ store: this.store, sealer: new Sealer(secret), clock: this.clock.now });
  }

  /** Adds ecash to the treasury, as sold names do. */
  async earn(...amountsSat: number[]): Promise<void> {
    const payer = await EcashPayer.open(this.mint);
    const sealer = new Sealer(TEST_TREASURY_SECRET);
    for (const amountSat of amountsSat) {
      const proofs = (await payer.proofs(amountSat)).map(({ id, amount, secret, C }) => ({
        id,
        amount: amount.toNumber(),
        secret,
        C,
      }));
      await this.store.treasury.add(await sealProofs(sealer, this.mint.url, proofs));
    }
  }

  /** What can be withdrawn at the mint. */
  async balanceSat(): Promise<number> {
    const balances = await this.store.treasury.balances();
    return balances.find(({ mintUrl }) => mintUrl === this.mint.url)?.amountSat ?? 0;
  }

  /** Redeems a token. @returns what it brought, after the fee of the mint */
  async redeem(token: string): Promise<number> {
    const { wallet } = await EcashPayer.open(this.mint);
    const received = await wallet.receive(token);
    return received.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
  }
}
