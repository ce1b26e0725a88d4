import { chooseExactly } from '../domain/choose-proofs.ts';
import { type Proof, sumOfAmounts } from '../domain/ecash.ts';
import type { Store } from '../store/store.ts';
import type { OpenWithdrawal } from '../store/withdrawal-store.ts';
import { sealProofs } from './keep-earnings.ts';
import { SettleSwaps, type SettleSwapsParts, type UndoReason } from './settle-swaps.ts';

/** Swaps the proofs of journalled withdrawals for those of a token, and keeps the change. */
export function settleWithdrawals(parts: Parts): SettleSwaps<OpenWithdrawal> {
  return new SettleSwaps<OpenWithdrawal>(
    {
      kind: 'withdrawal',
      store: parts.store.withdrawals,
      exactSat: ({ amountSat }) => amountSat,
      commit: (withdrawal, holder, swapped) => commit(parts, withdrawal, holder, swapped),
      rollBack: (withdrawal, holder, refused) => rollBack(parts, withdrawal, holder, refused),
    },
    parts,
  );
}

interface Parts extends SettleSwapsParts {
  store: Store;
}

async function commit(
  { store, sealer, clock, log }: Parts,
  { id, mintUrl, amountSat }: OpenWithdrawal,
  holder: string,
  { inputs, proofs }: { inputs: readonly Proof[]; proofs: readonly Proof[] },
): Promise<boolean> {
  const ofToken = chooseExactly(proofs, amountSat);
  if (ofToken === null) {
    throw new Error(`the outputs of withdrawal ${id} do not make up its amount`);
  }
  const token = await sealer.seal(tokenContext(id), ofToken);
  const change = proofs.filter((proof) => !ofToken.includes(proof));
  const sealedChange = await sealProofs(sealer, mintUrl, change);
  const feeSat = sumOfAmounts(inputs) - sumOfAmounts(proofs);
  const isDone = await store.transaction(async (tx) => {
    const isFinished = await tx.withdrawals.finish(id, holder, { token, feeSat, nowMs: clock() });
    if (isFinished) {
      await tx.treasury.add(sealedChange);
    }
    return isFinished;
  });
  if (isDone) {
    log.info({ withdrawal: id, amountSat, feeSat }, 'a withdrawal was completed');
  }
  return isDone;
}

async function rollBack(
  { store, sealer, clock, log }: Parts,
  { id, mintUrl }: OpenWithdrawal,
  holder: string,
  refused: { reason: UndoReason; inputs: readonly Proof[]; unspent: readonly Proof[] },
): Promise<boolean> {
  const { inputs, unspent } = refused;
  const lostSat = sumOfAmounts(inputs) - sumOfAmounts(unspent);
  const lost = lostSat === 0 ? '' : `; ${lostSat} sat had been spent before and were removed`;
  const reason = `${REASON_TEXTS[refused.reason]}${lost}`;
  const returned = await sealProofs(sealer, mintUrl, unspent);
  const isUndone = await store.transaction(async (tx) => {
    const isEnded = await tx.withdrawals.undo(id, holder, reason, clock());
    if (isEnded) {
      await tx.treasury.add(returned);
    }
    return isEnded;
  });
  if (isUndone) {
    log.warn({ withdrawal: id, reason }, 'a withdrawal failed');
  }
  return isUndone;
}

/** What the proofs of a withdrawal's token are sealed for. */
export function tokenContext(id: string): string {
  return `token ${id}`;
}

const REASON_TEXTS: Record<UndoReason, string> = {
  spent: 'the mint says that some of the ecash was spent before',
  pending: 'the mint says that some of the ecash is being spent',
  invalid: 'the mint does not accept the ecash',
  keyset_inactive: 'the mint refused the swap',
  outputs_signed: 'the mint refused the swap',
  unbalanced: 'the ecash does not suffice for the mint’s fee',
  other: 'the mint refused the swap',
  mint_unreachable: 'the mint cannot be reached',
};
