import { onTestFinished } from 'vitest';
import { TestMint, type TestMintOptions } from '../../src/demo/test-mint.ts';
import { type Proof, sumOfAmounts } from '../../src/domain/ecash.ts';
import {
  type LightningAddress,
  parseLightningAddress,
} from '../../src/domain/lightning-address.ts';
import { verifyKeysetKeys } from '../../src/ecash/outputs.ts';
import { yOf } from '../../src/ecash/proofs.ts';
import { Sealer } from '../../src/ecash/seal.ts';
import { LnurlClient } from '../../src/lnurl/lnurl-client.ts';
import { openLog } from '../../src/log.ts';
import { EcashClient } from '../../src/mint/ecash-client.ts';
import { KeysetCache } from '../../src/mint/keyset-cache.ts';
import { MintAnomalies } from '../../src/mint/mint-anomalies.ts';
import { MintClient } from '../../src/mint/mint-client.ts';
import {
  type GuardedAnswer,
  GuardedFetch,
  type GuardedRequest,
} from '../../src/net/guarded-fetch.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { openProof, sealProofs } from '../../src/usecases/keep-earnings.ts';
import { MeltEcash } from '../../src/usecases/melt-ecash.ts';
import { PlanOutputs } from '../../src/usecases/plan-outputs.ts';
import { PlanPayout } from '../../src/usecases/plan-payout.ts';
import { PlanSplit } from '../../src/usecases/plan-split.ts';
import { SettleWithdrawals } from '../../src/usecases/settle-withdrawals.ts';
import { ShowTreasury } from '../../src/usecases/show-treasury.ts';
import { SwapEcash } from '../../src/usecases/swap-ecash.ts';
import { WithdrawTreasury } from '../../src/usecases/withdraw-treasury.ts';
import { EcashPayer } from './ecash-payer.ts';
import { TestClock } from './test-clock.ts';
import { TEST_TREASURY_SECRET } from './world.ts';

/** What becomes of a request: the process dies before or after it, or the answer is lost. */
export type Fault = 'dies before' | 'dies after' | 'loses the request' | 'loses the answer';

/** One process with the treasury in its hands. */
export interface TreasuryProcess {
  store: Store;
  withdraw: WithdrawTreasury;
  settle: SettleWithdrawals;
  show: ShowTreasury;
  /** Paths of the requests that it sent, in order. */
  requests: readonly string[];
  /** What happens at the nth request from now on (0 is the next). Resolves when it does. */
  fail(n: number, fault: Fault): Promise<void>;
}

/** A treasury with a mint; processes come and go. */
export class TreasuryWorld {
  readonly mint: TestMint;
  readonly store: Store;
  readonly clock = new TestClock();
  readonly #sealer = new Sealer(TEST_TREASURY_SECRET);
  readonly #fetches: GuardedFetch[] = [];

  /** For one test, with a mint of its own. */
  static async open(database: Database, options: TestMintOptions = {}): Promise<TreasuryWorld> {
    const mint = await TestMint.start(options);
    onTestFinished(() => mint.close());
    return TreasuryWorld.at(mint, database);
  }

  /** For one test. */
  static at(mint: TestMint, { db }: Database): TreasuryWorld {
    const world = new TreasuryWorld(mint, new Store(db));
    onTestFinished(async () => {
      await Promise.all(world.#fetches.map((fetch) => fetch.close()));
    });
    return world;
  }

  private constructor(mint: TestMint, store: Store) {
    this.mint = mint;
    this.store = store;
  }

  /** Puts ecash into the treasury, as names do that are sold. */
  async earn(...amountsSat: number[]): Promise<void> {
    const payer = await EcashPayer.open(this.mint);
    for (const amountSat of amountsSat) {
      const proofs = (await payer.proofs(amountSat)).map(({ id, amount, secret, C }) => ({
        id,
        amount: amount.toNumber(),
        secret,
        C,
      }));
      const sealed = await sealProofs(this.#sealer, this.mint.url, proofs);
      await this.store.treasury.add(sealed, 'a purchase', this.clock.now());
    }
  }

  /** What can be withdrawn, in sats, as the treasury counts it. */
  async balanceSat(): Promise<number> {
    const balances = await this.store.treasury.balances();
    return balances.reduce((sum, { amountSat }) => sum + amountSat, 0);
  }

  /** The same, as the mint sees it: only what is unspent counts. */
  async spendableSat(): Promise<number> {
    const kept = await this.store.treasury.listFree(this.mint.url, 1_000);
    const proofs = await Promise.all(kept.map((each) => openProof(this.#sealer, each)));
    return sumOfAmounts(await this.#unspent(proofs));
  }

  /** What a token is said to be worth, before the fee of the mint. */
  async faceValueSat(token: string): Promise<number> {
    const { wallet } = await EcashPayer.open(this.mint);
    const { proofs } = wallet.decodeToken(token);
    return proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
  }

  /** Somebody redeems a token: all of it, less the fee of the mint. */
  async redeem(token: string): Promise<number> {
    const { wallet } = await EcashPayer.open(this.mint);
    const received = await wallet.receive(token);
    return received.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
  }

  /** Starts a process; the ones before it may be dead or alive. */
  start(options: { secret?: string; answerWithinMs?: number } = {}): TreasuryProcess {
    const fetch = new GuardedFetch({ allowPrivateNetworks: true });
    this.#fetches.push(fetch);
    const faulty = new FaultyFetch(fetch);
    return assemble(this, faulty, options);
  }

  /** All processes were killed, and it was noticed. */
  async forgetDrivers(): Promise<void> {
    await this.store.withdrawals.driven.abandonAll();
  }

  /** Lets a process look at what is due, at once and as often as it takes for doubts to be settled. */
  async recover({ settle }: TreasuryProcess): Promise<void> {
    for (let look = 0; look < 4; look += 1) {
      await settle.run(new AbortController().signal);
      this.clock.advance(15 * 60_000);
    }
  }

  async #unspent(proofs: Proof[]): Promise<Proof[]> {
    const client = new EcashClient({ fetch: this.#anyFetch(), clock: this.clock.now });
    const answer = await client.checkState(this.mint.url, proofs.map(yOf));
    if (answer.outcome !== 'found') {
      throw new Error(`the mint does not say what is spent: ${answer.outcome}`);
    }
    return proofs.filter((proof) => answer.states.get(yOf(proof)) === 'UNSPENT');
  }

  #anyFetch(): GuardedFetch {
    const fetch = new GuardedFetch({ allowPrivateNetworks: true });
    this.#fetches.push(fetch);
    return fetch;
  }
}

/** The address as the commands read it. */
export function lightningAddress(text: string): LightningAddress {
  const address = parseLightningAddress(text);
  if (address === null) {
    throw new Error(`no Lightning address: ${text}`);
  }
  return address;
}

class FaultyFetch {
  readonly requests: string[] = [];
  readonly #fetch: GuardedFetch;
  #faultAt = -1;
  #fault: Fault = 'dies before';
  #onFault: () => void = () => undefined;

  constructor(fetch: GuardedFetch) {
    this.#fetch = fetch;
  }

  fail(n: number, fault: Fault): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#faultAt = this.requests.length + n;
    this.#fault = fault;
    this.#onFault = resolve;
    return promise;
  }

  /** What is neither counted nor fails. */
  get unfailing(): GuardedFetch {
    return this.#fetch;
  }

  async request(request: GuardedRequest): Promise<GuardedAnswer> {
    const isFaulty = this.requests.length === this.#faultAt;
    this.requests.push(new URL(request.url).pathname);
    if (!isFaulty) {
      return this.#fetch.request(request);
    }
    if (this.#fault === 'dies after' || this.#fault === 'loses the answer') {
      await this.#fetch.request(request);
    }
    this.#onFault();
    return this.#fault.startsWith('dies')
      ? new Promise(() => undefined)
      : { outcome: 'unreachable', reason: 'connection lost' };
  }
}

function assemble(
  { store, clock: testClock }: TreasuryWorld,
  fetch: FaultyFetch,
  { secret = TEST_TREASURY_SECRET, answerWithinMs }: { secret?: string; answerWithinMs?: number },
): TreasuryProcess {
  const clock = testClock.now;
  const log = openLog('silent');
  const guarded = fetch as Pick<GuardedFetch, 'request'>;
  const mints = new EcashClient({ fetch: guarded, clock });
  const infos = new MintClient({
    fetch: fetch.unfailing,
    anomalies: new MintAnomalies(log),
    clock,
  });
  const keysets = new KeysetCache({ client: mints, verify: verifyKeysetKeys, clock });
  const sealer = new Sealer(secret);
  const planOutputs = new PlanOutputs(keysets);
  const planSplit = new PlanSplit(planOutputs, keysets);
  const tools = { mints, keysets, treasurySecret: secret };
  const settle = new SettleWithdrawals({
    store,
    mints,
    swapEcash: new SwapEcash(tools),
    meltEcash: new MeltEcash(tools),
    planOutputs,
    planSplit,
    sealer,
    clock,
    log,
  });
  const lnurl = new LnurlClient({ fetch: guarded, allowHttp: true });
  const withdraw = new WithdrawTreasury({
    store,
    mints,
    keysets,
    planOutputs,
    planSplit,
    planPayout: new PlanPayout({ lnurl, mints, keysets, infos }),
    settleWithdrawals: settle,
    sealer,
    ...(answerWithinMs !== undefined && { answerWithinMs }),
    clock,
  });
  return {
    store,
    withdraw,
    settle,
    show: new ShowTreasury({ store, mints, sealer, clock }),
    requests: fetch.requests,
    fail: (n, fault) => fetch.fail(n, fault),
  };
}
