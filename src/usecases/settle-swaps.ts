import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { Proof } from '../domain/ecash.ts';
import { retryLogLevel } from '../domain/errors.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { Log } from '../log.ts';
import type { SwapRefusal } from '../mint/ecash-refusal.ts';
import type { OpenSwap, SwapJournal } from '../store/swap-journal.ts';
import type { PlanOutputs } from './plan-outputs.ts';
import { LEASE_LOST, type Swap, type SwapEcash, type SwapResult } from './swap-ecash.ts';

/** How often the recovery job looks for due entries. */
export const SETTLE_INTERVAL_MS = 5_000;

/** The delay before the first retry; it doubles with each further one. */
const FIRST_RETRY_MS = 5_000;
const LONGEST_RETRY_MS = 10 * 60_000;

/**
 * If a response was lost and the mint then refuses the repeated request, the refusal counts only when it is
 * repeated after this time: far longer than a request can be on its way.
 */
const CONFIRM_REFUSAL_AFTER_MS = 60_000;

/** Entries that one round of the recovery job settles, all at once. */
const BATCH_SIZE = 10;

/** How long a buyer waits for the run that has the lease: about as long as a mint may take. */
const WAIT_INTERVAL_MS = 250;
const MAX_WAITS = 40;

/** Where entries of one kind are stored, and how they end. */
interface SwapKind<Entry extends OpenSwap> {
  kind: 'purchase' | 'withdrawal';
  /** The `inputs` of its entries are sealed for {@link inputsContext}. */
  store: SwapJournal & { findOpen(id: string): Promise<Entry | null> };
  /** The amount that some of the outputs must make up; null if all belong together. */
  exactSat(entry: Entry): number | null;
  /** Stores the new proofs. @returns false if another run has taken over */
  commit(
    entry: Entry,
    holder: string,
    swapped: { inputs: readonly Proof[]; proofs: readonly Proof[] },
  ): Promise<boolean>;
  /** Gives the entry up. @returns false if another run has taken over */
  rollBack(
    entry: Entry,
    holder: string,
    refused: { reason: UndoReason; inputs: readonly Proof[]; unspent: readonly Proof[] },
  ): Promise<boolean>;
}

/** What settling entries of any kind needs. */
export interface SettleSwapsParts {
  swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
  planOutputs: Pick<PlanOutputs, 'plan'>;
  sealer: Sealer;
  clock: Clock;
  log: Log;
}

/** Why an entry was given up. */
export type UndoReason = SwapRefusal | 'mint_unreachable';

/** How an attempt to settle an entry ended. */
export type Settlement =
  | { outcome: 'done' }
  | { outcome: 'undone'; reason: UndoReason }
  /** The recovery job tries again. */
  | { outcome: 'unsettled' };

/**
 * Carries out journalled swaps: at once for the caller that waits, and by the recovery job after a crash
 * or a mint's failure. Each entry is leased to one run at a time, and every step can be repeated.
 */
export class SettleSwaps<Entry extends OpenSwap> {
  readonly #journal: SwapKind<Entry>;
  readonly #parts: SettleSwapsParts;
  /** By id: callers in this process share one run. */
  readonly #running = new Map<string, Promise<Settlement | null>>();

  constructor(journal: SwapKind<Entry>, parts: SettleSwapsParts) {
    this.#journal = journal;
    this.#parts = parts;
  }

  /**
   * Writes an entry and carries it out.
   *
   * @param open writes the entry, with its lease for this holder; false if it cannot be written
   * @returns null if it was not written
   */
  begin(id: string, open: (holder: string) => Promise<boolean>): Promise<Settlement | null> {
    const holder = randomUUID();
    return this.#once(id, async () =>
      (await open(holder)) ? this.#settle(id, holder, true) : null,
    );
  }

  /** Continues with an entry; null if another process has its lease or has settled it. */
  resume(id: string): Promise<Settlement | null> {
    const holder = randomUUID();
    return this.#once(id, async () =>
      (await this.#journal.store.take(id, holder, this.#parts.clock()))
        ? this.#settle(id, holder, false)
        : null,
    );
  }

  /**
   * Continues with an entry, or waits a while for the run that has its lease.
   *
   * @returns null if another process has settled it
   */
  async resumeOrWait(id: string): Promise<Settlement | null> {
    for (let waits = 0; waits < MAX_WAITS; waits += 1) {
      const settlement = await this.resume(id);
      if (settlement !== null || (await this.#journal.store.findOpen(id)) === null) {
        return settlement;
      }
      await delay(WAIT_INTERVAL_MS);
    }
    return { outcome: 'unsettled' };
  }

  /** One round of the recovery job: continues with the entries that are due. */
  async runDue(): Promise<void> {
    const due = await this.#journal.store.listDue(this.#parts.clock(), BATCH_SIZE);
    await Promise.all(due.map((id) => this.resume(id)));
  }

  /** Resolves when this process works on no entry. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  async #settle(id: string, holder: string, isNew: boolean): Promise<Settlement | null> {
    const entry = await this.#journal.store.findOpen(id);
    if (entry === null) {
      return null;
    }
    try {
      return await this.#carryOut(entry, holder, isNew);
    } catch (error) {
      const { kind } = this.#journal;
      this.#parts.log[retryLogLevel(error)](
        { err: error, [kind]: id },
        `a ${kind} failed; it will be retried`,
      );
      return this.#postpone(entry, holder, { reason: 'an error; see the log' });
    }
  }

  async #carryOut(entry: Entry, holder: string, isNew: boolean): Promise<Settlement | null> {
    const context = inputsContext(this.#journal.kind, entry.id);
    const inputs = (await this.#parts.sealer.open(context, entry.inputs)) as Proof[];
    const result = await this.#swap(entry, holder, inputs, isNew);
    switch (result.outcome) {
      case 'done': {
        const { proofs } = result;
        const isCommitted = await this.#journal.commit(entry, holder, { inputs, proofs });
        return isCommitted ? { outcome: 'done' } : null;
      }
      case 'refused': {
        const { reason, unspent } = result;
        return result.isFinal || this.#isRefusalConfirmed(entry)
          ? this.#rollBack(entry, holder, { reason, inputs, unspent })
          : this.#postpone(entry, holder, { reason: 'refused by the mint', isRefused: true });
      }
      case 'unsettled':
        return isNew && result.isUnsent
          ? this.#rollBack(entry, holder, { reason: 'mint_unreachable', inputs, unspent: inputs })
          : this.#postpone(entry, holder, { reason: result.reason });
    }
  }

  /** Swaps the inputs, with a new plan of outputs if the mint has changed its keysets or fees. */
  async #swap(
    entry: Entry,
    holder: string,
    inputs: readonly Proof[],
    isNew: boolean,
  ): Promise<Exclude<SwapResult, { outcome: 'plan_outdated' }>> {
    const { id, mintUrl, plans } = entry;
    const { store, exactSat } = this.#journal;
    const renewLease = () => store.renew(id, holder, this.#parts.clock());
    const swap: Swap = { id, mintUrl, inputs, plans, renewLease };
    const first = await this.#parts.swapEcash[isNew ? 'begin' : 'resume'](swap);
    if (first.outcome !== 'plan_outdated') {
      return first;
    }
    const options = { exactSat: exactSat(entry), isFresh: true };
    const planned = await this.#parts.planOutputs.plan(mintUrl, inputs, options);
    if (planned.outcome === 'unavailable') {
      const reason = 'the mint does not answer';
      return { outcome: 'unsettled', reason, isUnsent: false };
    }
    if (planned.outcome === 'short') {
      const { isFinal } = first;
      return { outcome: 'refused', reason: 'unbalanced', isFinal, unspent: inputs };
    }
    const allPlans = [...plans, planned.plan];
    if (!(await store.setPlans(id, holder, allPlans))) {
      return { outcome: 'unsettled', reason: LEASE_LOST, isUnsent: false };
    }
    const second = await this.#parts.swapEcash.resume({ ...swap, plans: allPlans });
    if (second.outcome !== 'plan_outdated') {
      return second;
    }
    // This says nothing against the proofs: the mint lists other keysets or fees than it applies.
    return first.isFinal
      ? { outcome: 'unsettled', reason: 'the keysets of the mint changed', isUnsent: true }
      : { outcome: 'refused', reason: 'other', isFinal: false, unspent: inputs };
  }

  async #rollBack(
    entry: Entry,
    holder: string,
    refused: { reason: UndoReason; inputs: readonly Proof[]; unspent: readonly Proof[] },
  ): Promise<Settlement | null> {
    const isUndone = await this.#journal.rollBack(entry, holder, refused);
    return isUndone ? { outcome: 'undone', reason: refused.reason } : null;
  }

  async #postpone(
    entry: Entry,
    holder: string,
    { reason, isRefused = false }: { reason: string; isRefused?: boolean },
  ): Promise<Settlement> {
    const { id, tries, refusedAtMs } = entry;
    const { kind, store } = this.#journal;
    const nowMs = this.#parts.clock();
    const delayMs = isRefused
      ? CONFIRM_REFUSAL_AFTER_MS
      : Math.min(FIRST_RETRY_MS * 2 ** tries, LONGEST_RETRY_MS);
    const nextTryAtMs = nowMs + delayMs;
    await store.postpone(id, holder, {
      reason,
      tries: tries + 1,
      nextTryAtMs,
      refusedAtMs: isRefused ? Math.min(refusedAtMs ?? nowMs, nowMs) : null,
    });
    // A buyer who repeats the request again and again must not fill the log.
    if (Number.isInteger(Math.log2(tries + 1))) {
      const nextTryAt = new Date(nextTryAtMs);
      const facts = { [kind]: id, reason, tries: tries + 1, nextTryAt };
      this.#parts.log.warn(facts, `a ${kind} is not settled yet`);
    }
    return { outcome: 'unsettled' };
  }

  #isRefusalConfirmed({ refusedAtMs }: Entry): boolean {
    return refusedAtMs !== null && this.#parts.clock() - refusedAtMs >= CONFIRM_REFUSAL_AFTER_MS;
  }

  #once(id: string, work: () => Promise<Settlement | null>): Promise<Settlement | null> {
    const running = this.#running.get(id) ?? work().finally(() => this.#running.delete(id));
    this.#running.set(id, running);
    return running;
  }
}

/** What the inputs of an entry are sealed for. */
export function inputsContext(kind: 'purchase' | 'withdrawal', id: string): string {
  return `${kind} ${id}`;
}
