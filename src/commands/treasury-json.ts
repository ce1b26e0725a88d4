import type { WaitingPurchase } from '../store/purchase-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import type { TreasuryOverview } from '../usecases/treasury.ts';
import { iso } from './plain-text.ts';

/** The treasury for programs: times in ISO 8601 (UTC), absent rather than null. */
export function overviewToJson(overview: TreasuryOverview): object {
  return {
    asOf: iso(overview.nowMs),
    balances: overview.balances,
    names: overview.earnings,
    openPurchases: overview.openPurchases.map(purchaseToJson),
    openWithdrawals: overview.openWithdrawals.map(withdrawalToJson),
  };
}

/** The withdrawals for programs. */
export function withdrawalsToJson(listed: {
  nowMs: number;
  withdrawals: readonly Withdrawal[];
}): object {
  return { asOf: iso(listed.nowMs), withdrawals: listed.withdrawals.map(withdrawalToJson) };
}

function purchaseToJson(purchase: WaitingPurchase): object {
  return {
    id: purchase.id,
    name: purchase.name,
    mintUrl: purchase.mintUrl,
    paidSat: purchase.paidSat,
    since: iso(purchase.createdAtMs),
    tries: purchase.tries,
    ...(purchase.reason === null ? {} : { reason: purchase.reason }),
    ...at('nextTryAt', purchase.nextTryAtMs),
  };
}

function withdrawalToJson(withdrawal: Withdrawal): object {
  return {
    id: withdrawal.id,
    state: withdrawal.state,
    mintUrl: withdrawal.mintUrl,
    amountSat: withdrawal.amountSat,
    ...(withdrawal.feeSat === null ? {} : { feeSat: withdrawal.feeSat }),
    since: iso(withdrawal.createdAtMs),
    ...at('settledAt', withdrawal.settledAtMs),
    ...(withdrawal.reason === null ? {} : { reason: withdrawal.reason }),
    tries: withdrawal.tries,
    ...at('nextTryAt', withdrawal.nextTryAtMs),
  };
}

function at(name: string, ms: number | null): object {
  return ms === null ? {} : { [name]: iso(ms) };
}
