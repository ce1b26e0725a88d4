import type { WaitingPurchase } from '../store/purchase-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import type {
  ShownWithdrawal,
  TokenStanding,
  TreasuryOverview,
} from '../usecases/show-treasury.ts';
import { iso } from './plain-text.ts';

/** The treasury for programs: times in ISO 8601 (UTC), absent rather than null. */
export function overviewToJson(overview: TreasuryOverview): object {
  return {
    asOf: iso(overview.nowMs),
    balances: overview.balances,
    names: overview.earnings,
    openPurchases: overview.waitingPurchases.map(purchaseToJson),
    openWithdrawals: overview.openWithdrawals.map((each) => withdrawalToJson(each, null)),
    tokens: overview.handedOut.map(({ withdrawal, standing }) =>
      withdrawalToJson(withdrawal, standing),
    ),
  };
}

/** The withdrawals for programs. */
export function withdrawalsToJson(shown: {
  nowMs: number;
  withdrawals: readonly ShownWithdrawal[];
}): object {
  return {
    asOf: iso(shown.nowMs),
    withdrawals: shown.withdrawals.map(({ withdrawal, standing }) =>
      withdrawalToJson(withdrawal, standing),
    ),
  };
}

function purchaseToJson(purchase: WaitingPurchase): object {
  return {
    id: purchase.id,
    name: purchase.name,
    mintUrl: purchase.mintUrl,
    paidSat: purchase.paidSat,
    since: iso(purchase.createdAtMs),
    tries: purchase.tries,
    isDoubted: purchase.doubtedAtMs !== null,
    ...at('nextTryAt', purchase.nextTryAtMs),
  };
}

/** The melt quote stays out: whoever has its id can look at the payment. */
function withdrawalToJson(withdrawal: Withdrawal, standing: TokenStanding | null): object {
  const { detail } = withdrawal;
  return {
    id: withdrawal.id,
    kind: detail.kind,
    state: withdrawal.state,
    mintUrl: withdrawal.mintUrl,
    amountSat: withdrawal.amountSat,
    ...(withdrawal.feeSat === null ? {} : { feeSat: withdrawal.feeSat }),
    ...(detail.kind === 'lightning' ? { to: detail.to, paymentHash: detail.paymentHash } : {}),
    ...(detail.kind === 'reclaim' ? { of: detail.of } : {}),
    since: iso(withdrawal.createdAtMs),
    ...at('settledAt', withdrawal.settledAtMs),
    ...at('redeemedAt', withdrawal.redeemedAtMs),
    ...(standing === null ? {} : { token: standing }),
    ...(withdrawal.reason === null ? {} : { reason: withdrawal.reason }),
    tries: withdrawal.tries,
    ...at('nextTryAt', withdrawal.nextTryAtMs),
  };
}

function at(name: string, ms: number | null): object {
  return ms === null ? {} : { [name]: iso(ms) };
}
