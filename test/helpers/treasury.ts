import { onTestFinished } from 'vitest';
import type { TestMintOptions } from '../../demo/test-mint/state.ts';
import { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { type Proof, sumOfAmounts } from '../../src/domain/ecash.ts';
import { verifyKeysetKeys } from '../../src/ecash/outputs.ts';
import { yOf } from '../../src/ecash/proofs.ts';
import { Sealer } from '../../src/ecash/seal.ts';
import { openLog } from '../../src/log.ts';
import { EcashClient } from '../../src/mint/ecash-client.ts';
import { KeysetCache } from '../../src/mint/keyset-cache.ts';
import {
  type GuardedAnswer,
  GuardedFetch,
  type GuardedRequest,
} from '../../src/net/guarded-fetch.ts';
import { Store } from '../../src/store/store.ts';
import { openProof, sealProofs } from '../../src/usecases/keep-earnings.ts';
import { PlanOutputs } from '../../src/usecases/plan-outputs.ts';
import { settleWithdrawals } from '../../src/usecases/settle-withdrawals.ts';
import { SwapEcash } from '../../src/usecases/swap-ecash.ts';
import { Treasury } from '../../src/usecases/treasury.ts';
import { EcashPayer } from './ecash-payer.ts';
import { TestClock } from './test-clock.ts';
import { TEST_TREASURY_SECRET } from './world.ts';

/** What happens at a request: the process dies after it, or the request or response is lost. */
export type Fault = 'dies after' | 'loses the request' | 'loses the response';

/** One process that uses the treasury. */
export interface TreasuryProcess {
  treasury: Treasury;
  settle: ReturnType<typeof settleWithdrawals>;
  /** Paths of the requests that it sent, in order. */
  requests: readonly string[];
  /** Plans a fault for the nth request from now on (0 is the next). Resolves when it happens. */
  fail(n: number, fault: Fault): Promise<void>;
}

/** A treasury with ecash of one mint; processes come and go. */
export class TreasuryWorld {
  readonly mint: TestMint;
  readonly store: Store;
  readonly clock = new TestClock();
  readonly #sealer = new Sealer(TEST_TREASURY_SECRET);

  /** For one test, with a mint of its own. */
  static async open(database: Database, options: TestMintOptions = {}): Promise<TreasuryWorld> {
    const mint = await TestMint.start(options);
    onTestFinished(() => mint.close());
    return new TreasuryWorld(mint, database);
  }

  constructor(mint: TestMint, { db }: Database) {
    this.mint = mint;
    this.store = new Store(db);
  }

  /** Adds ecash to the treasury, as sold names do. */
  async earn(...amountsSat: number[]): Promise<void> {
    const payer = await EcashPayer.open(this.mint);
    for (const amountSat of amountsSat) {
      const proofs = (await payer.proofs(amountSat)).map(({ id, amount, secret, C }) => ({
        id,
        amount: amount.toNumber(),
        secret,
        C,
      }));
      await this.store.treasury.add(await sealProofs(this.#sealer, this.mint.url, proofs));
    }
  }

  /** What can be withdrawn, counting only proofs that the mint calls unspent. */
  async spendableSat(): Promise<number> {
    const sealed = await this.store.treasury.list(this.mint.url, 1_000);
    const proofs = await Promise.all(sealed.map((each) => openProof(this.#sealer, each)));
    return sumOfAmounts(await this.#unspent(proofs));
  }

  /** What a token is worth, before the fee of the mint. */
  async faceValueSat(token: string): Promise<number> {
    const { wallet } = await EcashPayer.open(this.mint);
    const { proofs } = wallet.decodeToken(token);
    return proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
  }

  /** Redeems a token. @returns what it brought, after the fee of the mint */
  async redeem(token: string): Promise<number> {
    const { wallet } = await EcashPayer.open(this.mint);
    const received = await wallet.receive(token);
    return received.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
  }

  /** Starts a process; those before it may be dead or alive. */
  start({ secret = TEST_TREASURY_SECRET }: { secret?: string } = {}): TreasuryProcess {
    const { store } = this;
    const clock = this.clock.now;
    const fetch = new FaultyFetch(openFetch());
    const mints = new EcashClient({ fetch, clock });
    const keysets = new KeysetCache({
      client: mints,
      verify: verifyKeysetKeys,
      monotonicMs: clock,
    });
    const sealer = new Sealer(secret);
    const planOutputs = new PlanOutputs(keysets);
    const swapEcash = new SwapEcash({ mints, keysets, treasurySecret: secret });
    const log = openLog('silent');
    const settle = settleWithdrawals({ store, swapEcash, planOutputs, sealer, clock, log });
    const parts = { store, keysets, planOutputs, withdrawals: settle, sealer, clock };
    return {
      treasury: new Treasury(parts),
      settle,
      requests: fetch.requests,
      fail: (n, fault) => fetch.fail(n, fault),
    };
  }

  /** Lets a process recover, after all leases have expired and as often as refusals need. */
  async recover({ settle }: TreasuryProcess): Promise<void> {
    for (let round = 0; round < 4; round += 1) {
      this.clock.advance(15 * 60_000);
      await settle.runDue();
    }
  }

  async #unspent(proofs: Proof[]): Promise<Proof[]> {
    const client = new EcashClient({ fetch: openFetch(), clock: this.clock.now });
    const answer = await client.checkState(this.mint.url, proofs.map(yOf));
    if (answer.outcome !== 'found') {
      throw new Error(`the mint does not say what is spent: ${answer.outcome}`);
    }
    return proofs.filter((proof) => answer.states.get(yOf(proof)) === 'UNSPENT');
  }
}

function openFetch(): GuardedFetch {
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  onTestFinished(() => fetch.close());
  return fetch;
}

class FaultyFetch {
  readonly requests: string[] = [];
  readonly #fetch: GuardedFetch;
  #planned: { at: number; fault: Fault; onFault: () => void } | null = null;

  constructor(fetch: GuardedFetch) {
    this.#fetch = fetch;
  }

  fail(n: number, fault: Fault): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#planned = { at: this.requests.length + n, fault, onFault: resolve };
    return promise;
  }

  async request(request: GuardedRequest): Promise<GuardedAnswer> {
    const planned = this.requests.length === this.#planned?.at ? this.#planned : null;
    this.requests.push(new URL(request.url).pathname);
    if (planned === null) {
      return this.#fetch.request(request);
    }
    if (planned.fault === 'dies after' || planned.fault === 'loses the response') {
      await this.#fetch.request(request);
    }
    planned.onFault();
    return planned.fault === 'dies after'
      ? new Promise(() => undefined)
      : { outcome: 'unreachable', reason: 'connection lost' };
  }
}
