import type { Proof } from '../domain/ecash.ts';
import type { OpenPurchase } from '../store/purchase-store.ts';
import type { Store } from '../store/store.ts';
import { sealProofs } from './keep-earnings.ts';
import { notifyAddresses } from './recipients.ts';
import { SettleSwaps, type SettleSwapsParts, type UndoReason } from './settle-swaps.ts';

/** What the end of a purchase needs. */
interface Parts extends SettleSwapsParts {
  store: Store;
  /** How long a released name stays reserved for its previous owner. */
  graceMs: number;
}

/** Redeems the tokens of journalled purchases and gives their names. */
export function settlePurchases(parts: Parts): SettleSwaps<OpenPurchase> {
  return new SettleSwaps<OpenPurchase>(
    {
      kind: 'purchase',
      store: parts.store.purchases,
      exactSat: () => null,
      commit: (purchase, holder, { proofs }) => commit(parts, purchase, holder, proofs),
      rollBack: (purchase, holder, { reason }) => rollBack(parts, purchase, holder, reason),
    },
    parts,
  );
}

async function commit(
  { store, sealer, graceMs, clock, log }: Parts,
  { id, pubkey, name, mintUrl }: OpenPurchase,
  holder: string,
  proofs: readonly Proof[],
): Promise<boolean> {
  const sealed = await sealProofs(sealer, mintUrl, proofs);
  const nowMs = clock();
  const isDone = await store.transaction(async (tx) => {
    if (!(await tx.purchases.finish(id, holder, nowMs))) {
      return false;
    }
    await notifyAddresses(tx, pubkey);
    const claim = { pubkey, purchase: id, nowMs, graceMs };
    if ((await tx.usernames.give(name, claim)) === 'not_held') {
      throw new Error(`the name of purchase ${id} is no longer held for it`);
    }
    await tx.treasury.add(sealed);
    return true;
  });
  if (isDone) {
    log.info({ purchase: id, name, pubkey }, 'a username was bought');
  }
  return isDone;
}

async function rollBack(
  { store, clock, log }: Parts,
  { id, name, pubkey }: OpenPurchase,
  holder: string,
  reason: UndoReason,
): Promise<boolean> {
  const isUndone = await store.transaction(async (tx) => {
    const isEnded = await tx.purchases.undo(id, holder, reason, clock());
    if (isEnded) {
      await tx.usernames.letGo(name, id);
    }
    return isEnded;
  });
  if (isUndone) {
    log.info({ purchase: id, name, pubkey, reason }, 'a purchase of a username was undone');
  }
  return isUndone;
}
