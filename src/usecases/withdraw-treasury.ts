import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { chooseExactly, chooseWorth, mostWorthSat } from '../domain/choose-proofs.ts';
import type { Clock } from '../domain/clock.ts';
import { type Proof, sumOfAmounts } from '../domain/ecash.ts';
import type { LightningAddress } from '../domain/lightning-address.ts';
import type { WithdrawalDetail } from '../domain/withdrawal.ts';
import { inputFeeSat, yOf } from '../ecash/proofs.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { EcashClient } from '../mint/ecash-client.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';
import type { Store } from '../store/store.ts';
import type { MintBalance, SealedProof } from '../store/treasury-store.ts';
import type { PlanOutputs } from './plan-outputs.ts';
import { areKnown, type PayoutProblem, type PlanPayout } from './plan-payout.ts';
import type { PlanSplit } from './plan-split.ts';
import type { SettleWithdrawals, WithdrawalEnd } from './settle-withdrawals.ts';
import { forgetRedeemed, type OtherSecret, openProofs, tokenOf, ysOf } from './treasury-token.ts';

/** More in one withdrawal make a token that no wallet takes, and a request that mints refuse (1000). */
const MAX_PROOFS = 500;

/** A withdrawal that others were quicker than is planned anew so often. */
const MAX_TURNS = 3;

/**
 * Whoever gave the command hears within this how it stands; what takes longer goes on by itself. A
 * service is waited for 30 s.
 */
const ANSWER_WITHIN_MS = 25_000;

/** Nothing is begun that was not planned by then: the request under way may have taken 15 s more. */
const PLAN_WITHIN_MS = 12_000;

/** Which part of the money. */
export interface Wish {
  /** Normalised; null: the mint that there is money at, where it is one. */
  mintUrl: string | null;
  /** Null: all there is. */
  amountSat: number | null;
}

/** Why nothing was begun; the money is where it was. */
export type NotBegun =
  | { outcome: 'empty' }
  | { outcome: 'choose_mint'; balances: MintBalance[] }
  /** `availableSat` is what there is after the mint's fee for it. */
  | { outcome: 'short'; neededSat: number; availableSat: number }
  | OtherSecret
  | { outcome: 'mint_unavailable'; reason: string }
  /** Other withdrawals took the ecash, each time. */
  | { outcome: 'overtaken' };

/** A withdrawal that was begun and brought nothing, or not yet. */
export type NotDone =
  | (Extract<WithdrawalEnd, { outcome: 'undone' }> & { id: string })
  | { outcome: 'under_way'; id: string; reason: string };

export type TokenWithdrawal =
  | {
      outcome: 'token';
      id: string;
      token: string;
      amountSat: number;
      feeSat: number;
      leftSat: number;
    }
  | NotDone
  | NotBegun;

export type PayoutWithdrawal =
  | { outcome: 'paid'; id: string; amountSat: number; feeSat: number; changeSat: number }
  | NotDone
  | NotBegun
  | PayoutProblem;

export type TokenReclaim =
  | { outcome: 'reclaimed'; id: string; amountSat: number; feeSat: number }
  /** Somebody has it already, or is about to. */
  | { outcome: 'redeemed' | 'being_redeemed' }
  | { outcome: 'not_found' | 'no_token' }
  /** The mint's fee would take all that it is worth. */
  | { outcome: 'worthless' }
  | NotDone
  | NotBegun;

/** Takes the operator's money out of the treasury, and an unredeemed token back into it. */
export class WithdrawTreasury {
  readonly #store: Store;
  readonly #mints: Pick<EcashClient, 'checkState'>;
  readonly #keysets: Pick<KeysetCache, 'keysets'>;
  readonly #planOutputs: Pick<PlanOutputs, 'for'>;
  readonly #planSplit: Pick<PlanSplit, 'for'>;
  readonly #planPayout: Pick<PlanPayout, 'plan'>;
  readonly #settle: Pick<SettleWithdrawals, 'begin'>;
  readonly #sealer: Sealer;
  readonly #answerWithinMs: number;
  readonly #clock: Clock;

  /** @param parts.answerWithinMs for tests */
  constructor(parts: {
    store: Store;
    mints: Pick<EcashClient, 'checkState'>;
    keysets: Pick<KeysetCache, 'keysets'>;
    planOutputs: Pick<PlanOutputs, 'for'>;
    planSplit: Pick<PlanSplit, 'for'>;
    planPayout: Pick<PlanPayout, 'plan'>;
    settleWithdrawals: Pick<SettleWithdrawals, 'begin'>;
    sealer: Sealer;
    answerWithinMs?: number;
    clock: Clock;
  }) {
    this.#store = parts.store;
    this.#mints = parts.mints;
    this.#keysets = parts.keysets;
    this.#planOutputs = parts.planOutputs;
    this.#planSplit = parts.planSplit;
    this.#planPayout = parts.planPayout;
    this.#settle = parts.settleWithdrawals;
    this.#sealer = parts.sealer;
    this.#answerWithinMs = parts.answerWithinMs ?? ANSWER_WITHIN_MS;
    this.#clock = parts.clock;
  }

  /** Makes a token of the money: of proofs as they are, where they fit, else by a swap. */
  asToken(wish: Wish): Promise<TokenWithdrawal> {
    const deadline = this.#deadline();
    return this.#untilNotOvertaken<TokenWithdrawal>(async () => {
      const purse = await this.#purse(wish);
      if ('outcome' in purse) {
        return purse;
      }
      const amountSat = wish.amountSat ?? sumOfAmounts(purse.free);
      const fitting = chooseExactly(purse.free, amountSat);
      return fitting === null
        ? this.#bySwap(purse, amountSat, deadline)
        : this.#asTheyAre(purse, fitting, amountSat);
    });
  }

  /** Pays a Lightning address: this much, or what there is less all fees. */
  toAddress(wish: Wish, to: LightningAddress): Promise<PayoutWithdrawal> {
    const deadline = this.#deadline();
    return this.#untilNotOvertaken<PayoutWithdrawal>(async () => {
      const purse = await this.#purse(wish);
      if ('outcome' in purse) {
        return purse;
      }
      const { mintUrl, free } = purse;
      const { amountSat } = wish;
      const planned = await this.#planPayout.plan({
        mintUrl,
        to,
        free,
        amountSat,
        isLate: deadline.isTooLateToBegin,
      });
      if (planned.outcome !== 'planned') {
        return planned;
      }
      if (deadline.isTooLateToBegin()) {
        return { outcome: 'too_slow' };
      }
      const { inputs, detail } = planned;
      const begun = await this.#begin(
        { mintUrl, amountSat: planned.amountSat, detail, ys: inputs.map(yOf), from: null },
        deadline,
      );
      return begun.outcome === 'done'
        ? {
            outcome: 'paid',
            id: begun.id,
            amountSat: planned.amountSat,
            feeSat: begun.feeSat,
            changeSat: begun.changeSat,
          }
        : begun;
    });
  }

  /** Takes a token back that nobody has redeemed: its proofs are swapped, so that it is void. */
  async reclaim(id: string): Promise<TokenReclaim> {
    const deadline = this.#deadline();
    const withdrawal = await this.#store.withdrawals.find(id);
    if (withdrawal === null) {
      return { outcome: 'not_found' };
    }
    if (withdrawal.redeemedAtMs !== null) {
      return { outcome: 'redeemed' };
    }
    if (withdrawal.detail.kind !== 'token' || withdrawal.state !== 'done') {
      return { outcome: 'no_token' };
    }
    const { mintUrl } = withdrawal;
    const kept = await this.#store.treasury.listOf(id);
    if (kept.length === 0) {
      const isRedeemed = await this.#store.transaction((tx) =>
        forgetRedeemed(tx, id, [], this.#clock()),
      );
      return isRedeemed
        ? { outcome: 'redeemed' }
        : { outcome: 'under_way', id, reason: 'it is being taken back already' };
    }
    const answer = await this.#mints.checkState(mintUrl, ysOf(kept));
    if (answer.outcome !== 'found') {
      return { outcome: 'mint_unavailable', reason: 'it does not say whether it was redeemed' };
    }
    const stateOf = ({ y }: SealedProof) => answer.states.get(y);
    if (kept.every((proof) => stateOf(proof) === 'SPENT')) {
      await this.#store.transaction((tx) => forgetRedeemed(tx, id, kept, this.#clock()));
      return { outcome: 'redeemed' };
    }
    if (kept.some((proof) => stateOf(proof) === 'PENDING')) {
      return { outcome: 'being_redeemed' };
    }
    const spent = kept.filter((proof) => stateOf(proof) === 'SPENT');
    const unspent = kept.filter((proof) => !spent.includes(proof));
    const opened = await openProofs(this.#sealer, unspent);
    if (opened.outcome !== 'opened') {
      return opened;
    }
    const planned = await this.#planOutputs.for(mintUrl, opened.proofs);
    if (planned.outcome !== 'planned') {
      return planned.outcome === 'worthless' ? planned : KEYSETS_UNKNOWN;
    }
    if (deadline.isTooLateToBegin()) {
      return MINT_TOO_SLOW;
    }
    const begun = await this.#begin(
      {
        mintUrl,
        amountSat: sumOfAmounts(opened.proofs),
        detail: { kind: 'reclaim', plans: [planned.plan], of: id },
        ys: ysOf(unspent),
        from: id,
        void: ysOf(spent),
      },
      deadline,
    );
    return begun.outcome === 'done'
      ? { outcome: 'reclaimed', id: begun.id, amountSat: begun.changeSat, feeSat: begun.feeSat }
      : begun;
  }

  async #asTheyAre(
    purse: Purse,
    proofs: readonly Proof[],
    amountSat: number,
  ): Promise<TokenWithdrawal> {
    const { mintUrl } = purse;
    const id = randomUUID();
    const driver = randomUUID();
    const nowMs = this.#clock();
    const isTaken = await this.#store.attempt(async (tx) => {
      const detail: WithdrawalDetail = { kind: 'token', plans: [] };
      await tx.withdrawals.open({ id, mintUrl, amountSat, createdAtMs: nowMs, detail }, driver);
      await tx.withdrawals.finish(id, driver, 0, nowMs);
      return tx.treasury.move(proofs.map(yOf), null, id);
    });
    if (!isTaken) {
      return { outcome: 'overtaken' };
    }
    return this.#tokenOf(purse, { id, amountSat, feeSat: 0 });
  }

  async #bySwap(purse: Purse, amountSat: number, deadline: Deadline): Promise<TokenWithdrawal> {
    const { mintUrl, free } = purse;
    const keysets = await this.#keysets.keysets(mintUrl);
    if (keysets === null || !areKnown(free, keysets)) {
      return KEYSETS_UNKNOWN;
    }
    const feeSat = (proofs: readonly Proof[]) => inputFeeSat(proofs, keysets);
    const availableSat = mostWorthSat(free, feeSat);
    const short: NotBegun = { outcome: 'short', neededSat: amountSat, availableSat };
    const inputs = chooseWorth(free, amountSat, feeSat);
    if (inputs === null) {
      return short;
    }
    if (deadline.isTooLateToBegin()) {
      return MINT_TOO_SLOW;
    }
    const planned = await this.#planSplit.for(mintUrl, inputs, amountSat);
    if (planned.outcome !== 'planned') {
      return planned.outcome === 'short' ? short : KEYSETS_UNKNOWN;
    }
    if (deadline.isTooLateToBegin()) {
      return MINT_TOO_SLOW;
    }
    const begun = await this.#begin(
      {
        mintUrl,
        amountSat,
        detail: { kind: 'token', plans: [planned.plan] },
        ys: inputs.map(yOf),
        from: null,
      },
      deadline,
    );
    if (begun.outcome !== 'done') {
      return begun;
    }
    return this.#tokenOf(purse, { id: begun.id, amountSat, feeSat: begun.feeSat });
  }

  async #tokenOf(
    { mintUrl, totalSat }: Purse,
    made: { id: string; amountSat: number; feeSat: number },
  ): Promise<TokenWithdrawal> {
    const encoded = await tokenOf(this.#store, this.#sealer, { id: made.id, mintUrl });
    const leftSat = totalSat - made.amountSat - made.feeSat;
    return encoded.outcome === 'encoded'
      ? { outcome: 'token', token: encoded.token, leftSat, ...made }
      : encoded;
  }

  /** Reserves the proofs and writes the withdrawal down; then its mint hears of it. */
  async #begin(
    plan: Plan,
    deadline: Deadline,
  ): Promise<
    | (Extract<WithdrawalEnd, { outcome: 'done' }> & { id: string })
    | NotDone
    | { outcome: 'overtaken' }
  > {
    const id = randomUUID();
    const { mintUrl, amountSat, detail, ys, from } = plan;
    const withdrawal = { id, mintUrl, amountSat, createdAtMs: this.#clock(), detail };
    const ending = this.#settle.begin(id, (driver) =>
      this.#store.attempt(async (tx) => {
        await tx.withdrawals.open(withdrawal, driver);
        if (from !== null) {
          await tx.treasury.forget(from, plan.void ?? []);
        }
        return tx.treasury.move(ys, from, id);
      }),
    );
    const end = await deadline.orLate(ending);
    if (end === null) {
      return { outcome: 'overtaken' };
    }
    switch (end.outcome) {
      case 'done':
        return { ...end, id };
      case 'undone':
        return { ...end, id };
      case 'unsettled':
        return { outcome: 'under_way', id, reason: end.reason };
    }
  }

  /** The proofs that can be withdrawn, at the mint that is meant. */
  async #purse({ mintUrl }: Wish): Promise<Purse | NotBegun> {
    const balances = await this.#store.treasury.balances();
    const meant = balances.filter((balance) => mintUrl === null || balance.mintUrl === mintUrl);
    const [balance, ...others] = meant;
    if (balance === undefined) {
      return { outcome: 'empty' };
    }
    if (others.length > 0) {
      return { outcome: 'choose_mint', balances };
    }
    const free = await this.#store.treasury.listFree(balance.mintUrl, MAX_PROOFS);
    if (free.length === 0) {
      return { outcome: 'overtaken' };
    }
    const opened = await openProofs(this.#sealer, free);
    return opened.outcome !== 'opened'
      ? opened
      : { mintUrl: balance.mintUrl, free: opened.proofs, totalSat: balance.amountSat };
  }

  async #untilNotOvertaken<Result extends { outcome: string }>(
    attempt: () => Promise<Result>,
  ): Promise<Result> {
    let result = await attempt();
    for (let turn = 1; turn < MAX_TURNS && result.outcome === 'overtaken'; turn += 1) {
      result = await attempt();
    }
    return result;
  }

  #deadline(): Deadline {
    const startMs = performance.now();
    const elapsedMs = () => performance.now() - startMs;
    return {
      isTooLateToBegin: () => elapsedMs() > PLAN_WITHIN_MS,
      orLate: async (ending) => {
        const ended = new AbortController();
        const { signal } = ended;
        const leftMs = Math.max(this.#answerWithinMs - elapsedMs(), 0);
        const late = delay(leftMs, LATE, { signal }).catch(() => LATE);
        return await Promise.race([ending, late]).finally(() => ended.abort());
      },
    };
  }
}

/** Proofs of one mint that can be withdrawn. */
interface Purse {
  mintUrl: string;
  /** The largest of them, as many as one withdrawal takes. */
  free: Proof[];
  /** Of all of them. */
  totalSat: number;
}

/** A withdrawal that is about to begin. */
interface Plan {
  mintUrl: string;
  amountSat: number;
  detail: WithdrawalDetail;
  /** Of the proofs that it spends. */
  ys: string[];
  /** Who has them so far; null: the treasury. */
  from: string | null;
  /** Of proofs that were with them, and are worth nothing any more. */
  void?: string[];
}

/** How long whoever gave the command waits. */
interface Deadline {
  isTooLateToBegin: () => boolean;
  orLate: (ending: Promise<WithdrawalEnd | null>) => Promise<WithdrawalEnd | null>;
}

const LATE: WithdrawalEnd = { outcome: 'unsettled', reason: 'the mint has not answered yet' };

const KEYSETS_UNKNOWN: NotBegun = {
  outcome: 'mint_unavailable',
  reason: 'it does not tell its keysets',
};

const MINT_TOO_SLOW: NotBegun = { outcome: 'mint_unavailable', reason: 'it is too slow' };
