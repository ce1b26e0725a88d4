import type { WaitingPurchase } from '../store/purchase-store.ts';
import type { MintBalance } from '../store/treasury-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import type { StoredToken, TreasuryOverview, WithdrawalResult } from '../usecases/treasury.ts';
import { count, iso, lines, when } from './plain-text.ts';

/** The treasury for a person. Times in UTC. */
export function overviewToText(overview: TreasuryOverview): string {
  const { nowMs, balances, earnings, openPurchases, openWithdrawals } = overview;
  const { namesSold, paidSat } = earnings;
  const inProgress = [
    ...openPurchases.map((purchase) =>
      inProgressToText(`purchase ${purchase.id} of ${purchase.name} for ${sat(purchase.paidSat)}`, {
        ...purchase,
        nowMs,
      }),
    ),
    ...openWithdrawals.map((withdrawal) =>
      inProgressToText(`withdrawal ${withdrawal.id} of ${sat(withdrawal.amountSat)}`, {
        ...withdrawal,
        nowMs,
      }),
    ),
  ];
  return lines(
    ...(balances.length === 0
      ? ['There is no ecash to withdraw.']
      : ['Can be withdrawn', ...balances.map(balanceToText)]),
    `${count(namesSold, 'name')} sold for ${sat(paidSat)}, before mint fees`,
    ...(inProgress.length === 0 ? [] : ['', 'In progress', ...inProgress]),
  );
}

/** The withdrawals for a person, newest first. */
export function withdrawalsToText({ withdrawals }: { withdrawals: readonly Withdrawal[] }): string {
  return withdrawals.length === 0
    ? lines('There are no withdrawals.')
    : lines(
        ...withdrawals.map(
          (withdrawal) =>
            `${iso(withdrawal.createdAtMs)}  ${withdrawal.id}  ${sat(withdrawal.amountSat)}:` +
            ` ${stateToText(withdrawal)}`,
        ),
      );
}

/** What came of a withdrawal, without the token. */
export function withdrawalResultToText(result: WithdrawalResult): string {
  switch (result.outcome) {
    case 'token':
      return lines(
        `A token of ${sat(result.amountSat)}${feeToText(result.feeSat)}.` +
          ` \`nutpost treasury token ${result.id}\` prints it again.`,
      );
    case 'undone':
      return lines(
        `Withdrawal ${result.id} failed: ${result.reason}. The ecash is back in the treasury.`,
      );
    case 'in_progress':
      return lines(
        `Withdrawal ${result.id} is in progress: ${result.reason}. The service goes on with it;` +
          ` do not withdraw again. \`nutpost treasury token ${result.id}\` prints the token once it is done.`,
      );
    case 'empty':
      return lines('There is no ecash to withdraw.');
    case 'choose_mint':
      return lines(
        'There is ecash at several mints; choose one with --mint:',
        ...result.balances.map(balanceToText),
      );
    case 'short':
      return lines(
        `There is not enough ecash: ${sat(result.neededSat)} requested, and` +
          ` ${sat(result.availableSat)} are available after the mint’s fee.`,
      );
    case 'mint_unavailable':
      return lines('The mint does not answer. Nothing was withdrawn; try again later.');
    case 'conflict':
      return lines('Another withdrawal took the ecash at the same time. Try again.');
  }
}

/** What to say about a stored token, without the token. */
export function storedTokenToText(stored: StoredToken): string {
  switch (stored.outcome) {
    case 'token':
      return lines(`A token of ${sat(stored.amountSat)}, unless it has been redeemed.`);
    case 'no_token':
      return lines(`There is no token; the withdrawal is ${stateToText(stored.withdrawal)}.`);
    case 'not_found':
      return lines('There is no such withdrawal; `nutpost treasury withdrawals` lists them.');
  }
}

function inProgressToText(
  subject: string,
  entry: Pick<WaitingPurchase, 'createdAtMs' | 'tries' | 'reason' | 'nextTryAtMs'> & {
    nowMs: number;
  },
): string {
  const { createdAtMs, tries, reason, nextTryAtMs, nowMs } = entry;
  const tried = tries === 0 ? '' : ` after ${count(tries, 'failed attempt')} (${reason})`;
  const next =
    tries === 0 || nextTryAtMs === null ? '' : `; next attempt ${when(nextTryAtMs, nowMs)}`;
  return `  ${subject}\n    since ${when(createdAtMs, nowMs)}${tried}${next}`;
}

function balanceToText({ mintUrl, amountSat, proofCount }: MintBalance): string {
  return `  ${sat(amountSat)} at ${mintUrl} (${count(proofCount, 'proof')})`;
}

function stateToText({ state, reason, feeSat }: Withdrawal): string {
  switch (state) {
    case 'open':
      return reason === null ? 'in progress' : `in progress (${reason})`;
    case 'done':
      return `done${feeToText(feeSat ?? 0)}`;
    case 'undone':
      return `failed (${reason})`;
  }
}

function feeToText(feeSat: number): string {
  return feeSat === 0 ? '' : `, plus a fee of ${sat(feeSat)}`;
}

function sat(amount: number): string {
  return `${amount.toLocaleString('en')} sat`;
}
