import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { OutputPlan, Proof } from '../domain/ecash.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { Log } from '../log.ts';
import type { SwapRefusal } from '../mint/ecash-refusal.ts';
import type { OpenPurchase } from '../store/purchase-store.ts';
import type { Store } from '../store/store.ts';
import { sealProofs } from './keep-earnings.ts';
import { isDoubtedLongEnough, nextLook, OperationRuns, type Step } from './operation-runs.ts';
import type { PlanOutputs } from './plan-outputs.ts';
import type { SwapEcash } from './swap-ecash.ts';
import { type SettledSwap, swapReplanned } from './swap-replanned.ts';

/** How often it is to be looked for purchases that did not end at once. */
export const SETTLE_INTERVAL_MS = 5_000;

/** A buyer waits for another process so long: about as a mint is waited for. */
const LOOK_GAP_MS = 250;
const MAX_LOOKS = 40;

/** How a purchase stands. */
export type PurchaseEnd =
  | { outcome: 'done' }
  /** Nothing was redeemed, and nothing will be: the token is still its owner's, if it was any good. */
  | { outcome: 'undone'; reason: UndoReason }
  /** It goes on by itself. */
  | { outcome: 'unsettled' }
  /** Another run has ended it, one way or the other. */
  | { outcome: 'ended' };

/** Why a token was not redeemed. */
export type UndoReason = 'spent' | 'pending' | 'invalid' | 'other' | 'mint_unreachable';

/**
 * Brings purchases to their end: at once for the buyer who waits, and later, after a crash or with a
 * mint that did not answer. Each is driven by one run at a time, and every step may be done again.
 */
export class SettlePurchases {
  readonly #store: Store;
  readonly #swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
  readonly #planOutputs: PlanOutputs;
  readonly #sealer: Sealer;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #runs: OperationRuns<PurchaseEnd>;

  /** @param parts.graceMs so long nobody else can have a name that its owner left for another */
  constructor(parts: {
    store: Store;
    swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
    planOutputs: PlanOutputs;
    sealer: Sealer;
    graceMs: number;
    clock: Clock;
    log: Log;
  }) {
    this.#store = parts.store;
    this.#swapEcash = parts.swapEcash;
    this.#planOutputs = parts.planOutputs;
    this.#sealer = parts.sealer;
    this.#graceMs = parts.graceMs;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#runs = new OperationRuns({
      driven: parts.store.purchases.driven,
      work: (id, driver, step) => this.#work(id, driver, step),
      onFailure: (id, error) => this.#tellOfFailure(id, error),
      clock: parts.clock,
    });
  }

  /**
   * Writes a purchase down and redeems its token.
   *
   * @param open writes it down, for this run to drive
   * @returns null where it could not be written down
   */
  begin(id: string, open: (driver: string) => Promise<boolean>): Promise<PurchaseEnd | null> {
    return this.#runs.begin(id, open);
  }

  /** Goes on with a purchase, or waits for whoever is at it, in this process or for a while in another. */
  async resume(id: string): Promise<PurchaseEnd> {
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      const end = await this.#runs.resume(id);
      if (end !== null) {
        return end;
      }
      if ((await this.#store.purchases.findOpen(id)) === null) {
        return { outcome: 'ended' };
      }
      await delay(LOOK_GAP_MS);
    }
    return { outcome: 'unsettled' };
  }

  /** Goes on with all purchases whose time has come, until told to stop. */
  run(signal: AbortSignal): Promise<void> {
    return this.#runs.run(signal);
  }

  /** Resolves when none is under way in this process. */
  idle(): Promise<void> {
    return this.#runs.idle();
  }

  /** @returns null where another run has ended the purchase */
  async #work(id: string, driver: string, step: Step): Promise<PurchaseEnd | null> {
    const purchase = await this.#store.purchases.findOpen(id);
    if (purchase === null) {
      return null;
    }
    const end = await this.#swap(purchase, driver, step);
    switch (end.outcome) {
      case 'done':
        return this.#finish(purchase, driver, end.proofs);
      case 'refused':
        return end.isCertain || isDoubtedLongEnough(purchase, this.#clock())
          ? this.#undo(purchase, driver, undoReason(end.reason))
          : this.#postpone(purchase, driver, 'the mint says that nothing was done', 'doubted');
      case 'unsettled':
        return step === 'begin' && end.isUntouched
          ? this.#undo(purchase, driver, 'mint_unreachable')
          : this.#postpone(purchase, driver, end.reason, 'unknown');
    }
  }

  async #swap(purchase: OpenPurchase, driver: string, step: Step): Promise<SettledSwap> {
    const { id, mintUrl, plans } = purchase;
    const inputs = (await this.#sealer.open(tokenContext(id), purchase.token)) as Proof[];
    const keepAtIt = () => this.#store.purchases.driven.keep(id, driver);
    return swapReplanned(this.#swapEcash, step, { id, mintUrl, inputs, plans, keepAtIt }, () =>
      this.#anotherPlan(purchase, driver, inputs),
    );
  }

  async #anotherPlan(
    { id, mintUrl, plans }: OpenPurchase,
    driver: string,
    inputs: Proof[],
  ): Promise<OutputPlan | 'short' | null> {
    const planned = await this.#planOutputs.afresh(mintUrl, inputs);
    switch (planned.outcome) {
      case 'planned': {
        const { plan } = planned;
        const added = { plan, position: plans.length };
        return (await this.#store.purchases.addPlan(id, driver, added)) ? plan : null;
      }
      case 'worthless':
        return 'short';
      case 'unavailable':
        return null;
    }
  }

  async #finish(
    purchase: OpenPurchase,
    driver: string,
    proofs: Proof[],
  ): Promise<PurchaseEnd | null> {
    const { id, pubkey, name, mintUrl } = purchase;
    const sealed = await sealProofs(this.#sealer, mintUrl, proofs);
    const nowMs = this.#clock();
    const isFinished = await this.#store.transaction(async (tx) => {
      if (!(await tx.purchases.finish(id, driver, nowMs))) {
        return false;
      }
      const claim = { pubkey, purchase: id, nowMs, graceMs: this.#graceMs };
      if ((await tx.usernames.give(name, claim)) === 'not_held') {
        throw new Error(`the name of purchase ${id} is no longer held for it`);
      }
      await tx.treasury.add(sealed, id, nowMs);
      return true;
    });
    if (!isFinished) {
      return null;
    }
    this.#log.info({ purchase: id, name, pubkey }, 'a username was bought');
    return { outcome: 'done' };
  }

  async #undo(
    purchase: OpenPurchase,
    driver: string,
    reason: UndoReason,
  ): Promise<PurchaseEnd | null> {
    const { id, name, pubkey } = purchase;
    const isUndone = await this.#store.transaction(async (tx) => {
      if (!(await tx.purchases.undo(id, driver, reason, this.#clock()))) {
        return false;
      }
      await tx.usernames.letGo(name, id);
      return true;
    });
    if (!isUndone) {
      return null;
    }
    this.#log.info({ purchase: id, name, pubkey, reason }, 'a purchase of a username was undone');
    return { outcome: 'undone', reason };
  }

  async #postpone(
    purchase: OpenPurchase,
    driver: string,
    reason: string,
    finding: 'doubted' | 'unknown',
  ): Promise<PurchaseEnd> {
    const { id } = purchase;
    const next = nextLook(purchase, finding, this.#clock());
    await this.#store.purchases.driven.postpone(id, driver, { reason, ...next });
    // A buyer who asks over and over is not to fill the log.
    if (Number.isInteger(Math.log2(purchase.tries + 1))) {
      this.#log.warn(
        { purchase: id, reason, tries: purchase.tries + 1, nextTryAt: new Date(next.nextTryAtMs) },
        'a purchase of a username is not settled yet',
      );
    }
    return { outcome: 'unsettled' };
  }

  #tellOfFailure(id: string, error: unknown): void {
    this.#log.error({ err: error, purchase: id }, 'a purchase of a username cannot be settled');
  }
}

function undoReason(reason: SwapRefusal): UndoReason {
  switch (reason) {
    case 'spent':
    case 'pending':
    case 'invalid':
      return reason;
    default:
      return 'other';
  }
}

/** What a purchase's token is sealed for. */
export function tokenContext(id: string): string {
  return `purchase ${id}`;
}
