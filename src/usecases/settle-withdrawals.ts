import { chooseExactly } from '../domain/choose-proofs.ts';
import type { Clock } from '../domain/clock.ts';
import { type OutputPlan, type Proof, sumOfAmounts } from '../domain/ecash.ts';
import type { MeltDetail, ReclaimDetail, TokenDetail } from '../domain/withdrawal.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { Log } from '../log.ts';
import type { EcashClient } from '../mint/ecash-client.ts';
import type { SwapRefusal } from '../mint/ecash-refusal.ts';
import type { Store, TransactionStore } from '../store/store.ts';
import type { SealedProof } from '../store/treasury-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import { openProof, sealProofs } from './keep-earnings.ts';
import type { MeltEcash, MeltEnd } from './melt-ecash.ts';
import { isDoubtedLongEnough, nextLook, OperationRuns, type Step } from './operation-runs.ts';
import type { PlanOutputs } from './plan-outputs.ts';
import type { PlanSplit } from './plan-split.ts';
import type { SwapEcash } from './swap-ecash.ts';
import { swapReplanned } from './swap-replanned.ts';
import { ysOf } from './treasury-token.ts';

/** How a withdrawal stands. */
export type WithdrawalEnd =
  /** The money is where it was to go. */
  | { outcome: 'done'; feeSat: number; changeSat: number }
  /** What is still good of the money is where it was: in the treasury, or in the token. */
  | { outcome: 'undone'; reason: string; returnedTo: 'treasury' | 'token'; returnedSat: number }
  /** It goes on by itself. */
  | { outcome: 'unsettled'; reason: string };

/**
 * Brings withdrawals to their end: at once for the operator who waits, and later, after a crash or with
 * a mint that did not answer. Each is driven by one run at a time, and every step may be done again.
 */
export class SettleWithdrawals {
  readonly #store: Store;
  readonly #mints: Pick<EcashClient, 'checkState'>;
  readonly #swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
  readonly #meltEcash: Pick<MeltEcash, 'begin' | 'resume'>;
  readonly #planOutputs: Pick<PlanOutputs, 'afresh'>;
  readonly #planSplit: Pick<PlanSplit, 'afresh'>;
  readonly #sealer: Sealer;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #runs: OperationRuns<WithdrawalEnd>;

  constructor(parts: {
    store: Store;
    mints: Pick<EcashClient, 'checkState'>;
    swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
    meltEcash: Pick<MeltEcash, 'begin' | 'resume'>;
    planOutputs: Pick<PlanOutputs, 'afresh'>;
    planSplit: Pick<PlanSplit, 'afresh'>;
    sealer: Sealer;
    clock: Clock;
    log: Log;
  }) {
    this.#store = parts.store;
    this.#mints = parts.mints;
    this.#swapEcash = parts.swapEcash;
    this.#meltEcash = parts.meltEcash;
    this.#planOutputs = parts.planOutputs;
    this.#planSplit = parts.planSplit;
    this.#sealer = parts.sealer;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#runs = new OperationRuns({
      driven: parts.store.withdrawals.driven,
      work: (id, driver, step) => this.#workOrPostpone(id, driver, step),
      onFailure: (id, error) => this.#logFailure(id, error),
      clock: parts.clock,
    });
  }

  /**
   * Writes a withdrawal down and carries it out.
   *
   * @param open writes it down, for this run to drive, with the proofs that it spends
   * @returns null where it could not be written down
   */
  begin(id: string, open: (driver: string) => Promise<boolean>): Promise<WithdrawalEnd | null> {
    return this.#runs.begin(id, open);
  }

  /** Goes on with all withdrawals whose time has come, until told to stop. */
  run(signal: AbortSignal): Promise<void> {
    return this.#runs.run(signal);
  }

  /** Resolves when none is under way in this process. */
  idle(): Promise<void> {
    return this.#runs.idle();
  }

  /** What cannot be worked on is seen where withdrawals are listed, and tried again later. */
  async #workOrPostpone(id: string, driver: string, step: Step): Promise<WithdrawalEnd | null> {
    const withdrawal = await this.#store.withdrawals.find(id);
    if (withdrawal?.state !== 'open') {
      return null;
    }
    try {
      return await this.#work(withdrawal, driver, step);
    } catch (error) {
      this.#logFailure(id, error);
      return this.#postpone(
        { withdrawal, driver },
        'cannot be settled; the log says why',
        'unknown',
      );
    }
  }

  async #work(withdrawal: Withdrawal, driver: string, step: Step): Promise<WithdrawalEnd> {
    const { id } = withdrawal;
    const kept = await this.#store.treasury.listOf(id);
    const inputs = await Promise.all(kept.map((proof) => openProof(this.#sealer, proof)));
    const work = { withdrawal, driver, step, kept, inputs };
    return withdrawal.detail.kind === 'lightning'
      ? this.#melt(work, withdrawal.detail)
      : this.#swap(work, withdrawal.detail);
  }

  async #swap(work: Work, detail: TokenDetail | ReclaimDetail): Promise<WithdrawalEnd> {
    const { withdrawal, driver, step, inputs } = work;
    const { id, mintUrl } = withdrawal;
    const { plans } = detail;
    const keepAtIt = () => this.#store.withdrawals.driven.keep(id, driver);
    const end = await swapReplanned(
      this.#swapEcash,
      step,
      { id, mintUrl, inputs, plans, keepAtIt },
      () => this.#anotherPlan(work, detail),
    );
    switch (end.outcome) {
      case 'done':
        return this.#finish(work, end.proofs);
      case 'refused':
        return end.isCertain || this.#isDoubtedLongEnough(work)
          ? this.#undo(work, REFUSED_BY_MINT[end.reason], end.reason === 'spent')
          : this.#postpone(work, 'the mint says that nothing was done', 'doubted');
      case 'unsettled':
        return step === 'begin' && end.isUntouched
          ? this.#undo(work, end.reason, false)
          : this.#postpone(work, end.reason, 'unknown');
    }
  }

  async #anotherPlan(
    { withdrawal, driver, inputs }: Work,
    { kind, plans }: TokenDetail | ReclaimDetail,
  ): Promise<OutputPlan | 'short' | null> {
    const { id, mintUrl, amountSat } = withdrawal;
    const planned =
      kind === 'token'
        ? await this.#planSplit.afresh(mintUrl, inputs, amountSat)
        : await this.#planOutputs.afresh(mintUrl, inputs);
    switch (planned.outcome) {
      case 'planned': {
        const { plan } = planned;
        const added = { plan, position: plans.length };
        return (await this.#store.withdrawals.addPlan(id, driver, added)) ? plan : null;
      }
      case 'short':
      case 'worthless':
        return 'short';
      case 'unavailable':
        return null;
    }
  }

  async #melt(work: Work, detail: MeltDetail): Promise<WithdrawalEnd> {
    const { withdrawal, driver, step, inputs } = work;
    const { id, mintUrl } = withdrawal;
    const { quoteId, blanks, payableUntilMs } = detail;
    const end: MeltEnd = await this.#meltEcash[step]({
      id,
      mintUrl,
      quoteId,
      inputs,
      blanks,
      isPayable: this.#clock() < payableUntilMs,
      isSecondLook: this.#isDoubtedLongEnough(work),
      keepAtIt: () => this.#store.withdrawals.driven.keep(id, driver),
    });
    switch (end.outcome) {
      case 'paid':
        return this.#finish(work, end.change);
      case 'failed':
        return this.#undo(work, end.reason, end.haveSpent);
      case 'doubtful':
        return this.#postpone(work, end.reason, 'doubted');
      case 'unsettled':
        return this.#postpone(work, end.reason, 'unknown');
    }
  }

  /** @param proofs what the mint gave for those that it took */
  async #finish(work: Work, proofs: readonly Proof[]): Promise<WithdrawalEnd> {
    const { withdrawal, driver, kept, inputs } = work;
    const { id, mintUrl, amountSat, detail } = withdrawal;
    const handedOut = detail.kind === 'token' ? chooseExactly(proofs, amountSat) : [];
    if (handedOut === null) {
      throw new Error(`the outputs of withdrawal ${id} do not make up its amount`);
    }
    const change = proofs.filter((proof) => !handedOut.includes(proof));
    const handedOutSealed = await sealProofs(this.#sealer, mintUrl, handedOut);
    const changeSealed = await sealProofs(this.#sealer, mintUrl, change);
    const paidSat = detail.kind === 'lightning' ? amountSat : 0;
    // A mint that gives more than is due keeps nothing.
    const feeSat = Math.max(sumOfAmounts(inputs) - sumOfAmounts(proofs) - paidSat, 0);
    const nowMs = this.#clock();
    const isFinished = await this.#store.transaction(async (tx) => {
      if (!(await tx.withdrawals.finish(id, driver, feeSat, nowMs))) {
        return false;
      }
      await tx.treasury.forget(id, ysOf(kept));
      await tx.treasury.addFor(id, handedOutSealed, nowMs);
      await tx.treasury.add(changeSealed, id, nowMs);
      if (detail.kind === 'reclaim') {
        await tx.withdrawals.setReclaimed(detail.of, nowMs);
      }
      return true;
    });
    if (!isFinished) {
      return OTHER_RUN;
    }
    const { kind } = detail;
    this.#log.info({ withdrawal: id, kind, amountSat, feeSat }, 'a withdrawal was done');
    return { outcome: 'done', feeSat, changeSat: sumOfAmounts(change) };
  }

  /** @param haveSpent whether the mint says that some of the proofs are worth nothing any more */
  async #undo(work: Work, reason: string, haveSpent: boolean): Promise<WithdrawalEnd> {
    const { withdrawal, driver, kept } = work;
    const { id, detail } = withdrawal;
    const returned = haveSpent ? await this.#unspent(work) : kept;
    if (returned === null) {
      return this.#postpone(work, 'the mint does not say which proofs were spent', 'unknown');
    }
    const owner = detail.kind === 'reclaim' ? detail.of : null;
    const returnedSat = sumOfSats(returned);
    const spentSat = sumOfSats(kept) - returnedSat;
    const why = spentSat === 0 ? reason : `${reason}; ${spentSat} sat were spent and are gone`;
    const isUndone = await this.#store.transaction(async (tx) => {
      if (!(await tx.withdrawals.undo(id, driver, why, this.#clock()))) {
        return false;
      }
      await giveBack(tx, returned, id, owner);
      return true;
    });
    if (!isUndone) {
      return OTHER_RUN;
    }
    this.#log.info({ withdrawal: id, kind: detail.kind, reason: why }, 'a withdrawal was undone');
    const returnedTo = owner === null ? 'treasury' : 'token';
    return { outcome: 'undone', reason: why, returnedTo, returnedSat };
  }

  /** The proofs that are still good; a token's come back whole, for its holder to redeem the rest. */
  async #unspent({ withdrawal, kept }: Work): Promise<SealedProof[] | null> {
    if (withdrawal.detail.kind === 'reclaim') {
      return kept;
    }
    const answer = await this.#mints.checkState(withdrawal.mintUrl, ysOf(kept));
    return answer.outcome === 'found'
      ? kept.filter(({ y }) => answer.states.get(y) !== 'SPENT')
      : null;
  }

  async #postpone(
    { withdrawal, driver }: Pick<Work, 'withdrawal' | 'driver'>,
    reason: string,
    finding: 'doubted' | 'unknown',
  ): Promise<WithdrawalEnd> {
    const look = nextLook(withdrawal, finding, this.#clock());
    await this.#store.withdrawals.driven.postpone(withdrawal.id, driver, { reason, ...look });
    this.#log.warn({ withdrawal: withdrawal.id, reason }, 'a withdrawal is not settled yet');
    return { outcome: 'unsettled', reason };
  }

  #logFailure(id: string, error: unknown): void {
    this.#log.error({ err: error, withdrawal: id }, 'a withdrawal cannot be settled');
  }

  #isDoubtedLongEnough({ withdrawal }: Work): boolean {
    return isDoubtedLongEnough(withdrawal, this.#clock());
  }
}

/** A withdrawal that this run has to itself. */
interface Work {
  withdrawal: Withdrawal;
  driver: string;
  step: Step;
  /** The proofs that it spends. */
  kept: SealedProof[];
  /** The same, opened. */
  inputs: Proof[];
}

const OTHER_RUN: WithdrawalEnd = { outcome: 'unsettled', reason: 'another process has it' };

const REFUSED_BY_MINT: Record<SwapRefusal, string> = {
  spent: 'the mint says that some of the ecash was spent before',
  pending: 'the mint says that some of the ecash is being spent',
  invalid: 'the mint says that the ecash is not its own',
  keyset_inactive: 'the mint refused the swap',
  outputs_signed: 'the mint refused the swap',
  unbalanced: 'the ecash does not suffice for the fee of the mint any more',
  other: 'the mint refused the swap',
};

async function giveBack(
  tx: TransactionStore,
  proofs: readonly SealedProof[],
  id: string,
  owner: string | null,
): Promise<void> {
  if (!(await tx.treasury.move(ysOf(proofs), id, owner))) {
    throw new Error(`some proofs of withdrawal ${id} are no longer there`);
  }
}

function sumOfSats(proofs: readonly SealedProof[]): number {
  return proofs.reduce((sum, { amountSat }) => sum + amountSat, 0);
}
