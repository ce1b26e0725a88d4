import { parseArgs } from 'node:util';
import { normaliseMintUrl } from '../domain/mint-url.ts';
import type { WaitingPurchase } from '../store/purchase-store.ts';
import type { MintBalance } from '../store/treasury-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import type {
  StoredToken,
  Treasury,
  TreasuryOverview,
  WithdrawalOrder,
  WithdrawalResult,
} from '../usecases/treasury.ts';
import {
  answer,
  type CommandResult,
  type OperatorCommand,
  onlyOperand,
  UsageError,
} from './command.ts';
import { count, iso, lines, sat, when } from './format.ts';

/** Up to 2,100,000,000,000,000 sat: all there will ever be. */
const AMOUNT_SAT = /^[1-9]\d{0,15}$/;

/** `nutpost treasury`: what names earned, and its withdrawal. */
export const treasury: OperatorCommand = {
  name: 'treasury',
  usage: `  treasury shows what names earned, what can be withdrawn and what is in progress
  treasury withdraw [--amount <sat>] [--mint <url>]
           prints a cashuB token of all ecash at the mint, or of this amount
  treasury withdrawals
           lists withdrawals
  treasury token <id>
           prints the token of a withdrawal again; --json for programs, as with the others
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        amount: { type: 'string' },
        mint: { type: 'string' },
      },
      allowPositionals: true,
    });
    const [action, ...operands] = positionals;
    if (action !== 'withdraw' && (values.amount ?? values.mint) !== undefined) {
      throw new UsageError('--amount and --mint are for `treasury withdraw`.');
    }
    if (action !== 'token' && operands.length > 0) {
      throw new UsageError(`Unexpected argument: ${operands[0]}`);
    }
    const run = readAction(action, operands, values);
    return async ({ treasury }) =>
      treasury === null
        ? answer(
            false,
            'There is no treasury: set TREASURY_SECRET, or start the service with a price for usernames.\n',
          )
        : run(treasury);
  },
};

function readAction(
  action: string | undefined,
  operands: string[],
  { json, amount, mint }: { json: boolean; amount?: string; mint?: string },
): (treasury: Treasury) => Promise<CommandResult> {
  switch (action) {
    case undefined:
      return async (treasury) => {
        const overview = await treasury.overview();
        return answer(true, json ? overviewToJson(overview) : overviewToText(overview));
      };
    case 'withdraw': {
      const order = readOrder(amount, mint);
      return async (treasury) => {
        const result = await treasury.withdraw(order);
        return answerToken(result, withdrawalResultToText(result), json);
      };
    }
    case 'withdrawals':
      return async (treasury) => {
        const { nowMs, withdrawals } = await treasury.withdrawals();
        return answer(
          true,
          json
            ? { nowMs, withdrawals: withdrawals.map(withdrawalToJson) }
            : withdrawalsToText(withdrawals),
        );
      };
    case 'token': {
      const id = onlyOperand(
        operands,
        'Give one withdrawal id; `nutpost treasury withdrawals` lists them.',
      );
      return async (treasury) => {
        const stored = await treasury.token(id);
        const shown = stored.outcome === 'no_token' ? { outcome: stored.outcome } : stored;
        return answerToken(shown, storedTokenToText(stored), json);
      };
    }
    default:
      throw new UsageError(`Unknown action: ${action}`);
  }
}

function readOrder(amount: string | undefined, mint: string | undefined): WithdrawalOrder {
  if (amount !== undefined && !AMOUNT_SAT.test(amount)) {
    throw new UsageError(`--amount must be a whole number of sats (got '${amount}').`);
  }
  const mintUrl = mint === undefined ? null : normaliseMintUrl(mint, { allowHttp: true });
  if (mint !== undefined && mintUrl === null) {
    throw new UsageError(`--mint must be a URL such as https://mint.example (got '${mint}').`);
  }
  return { mintUrl, amountSat: amount === undefined ? null : Number(amount) };
}

/** Prints only the token on standard output, so that it can be piped, and everything else on standard error. */
function answerToken(
  result: { outcome: string; token?: string },
  text: string,
  asJson: boolean,
): CommandResult {
  if (asJson) {
    return answer(result.token !== undefined, result);
  }
  return result.token === undefined
    ? answer(false, text)
    : { exitCode: 0, stdout: `${result.token}\n`, stderr: text };
}

function overviewToJson(overview: TreasuryOverview): object {
  const { nowMs, balances, earnings, openPurchases, openWithdrawals } = overview;
  return {
    nowMs,
    balances,
    names: earnings,
    openPurchases: openPurchases.map(({ createdAtMs, ...purchase }) => ({
      ...purchase,
      sinceMs: createdAtMs,
    })),
    openWithdrawals: openWithdrawals.map(withdrawalToJson),
  };
}

/** Without proofs and plans. */
function withdrawalToJson(withdrawal: Withdrawal): object {
  const { id, state, mintUrl, amountSat, feeSat, reason, tries } = withdrawal;
  const { createdAtMs: sinceMs, settledAtMs, nextTryAtMs } = withdrawal;
  return {
    ...{ id, state, mintUrl, amountSat, feeSat, sinceMs },
    ...{ settledAtMs, reason, tries, nextTryAtMs },
  };
}

function overviewToText(overview: TreasuryOverview): string {
  const { nowMs, balances, earnings, openPurchases, openWithdrawals } = overview;
  const inProgress = [
    ...openPurchases.map((purchase) =>
      inProgressToText(
        `purchase ${purchase.id} of ${purchase.name} for ${sat(purchase.paidSat)}`,
        purchase,
        nowMs,
      ),
    ),
    ...openWithdrawals.map((withdrawal) =>
      inProgressToText(
        `withdrawal ${withdrawal.id} of ${sat(withdrawal.amountSat)}`,
        withdrawal,
        nowMs,
      ),
    ),
  ];
  return lines(
    ...(balances.length === 0 ? [NO_ECASH] : ['Can be withdrawn', ...balances.map(balanceToText)]),
    `${count(earnings.namesSold, 'name')} sold for ${sat(earnings.paidSat)}, before mint fees`,
    ...(inProgress.length === 0 ? [] : ['', 'In progress', ...inProgress]),
  );
}

const NO_ECASH = 'There is no ecash to withdraw.';

function inProgressToText(
  subject: string,
  entry: Pick<WaitingPurchase, 'createdAtMs' | 'tries' | 'reason' | 'nextTryAtMs'>,
  nowMs: number,
): string {
  const { createdAtMs, tries, reason, nextTryAtMs } = entry;
  const tried = tries === 0 ? '' : ` after ${count(tries, 'failed attempt')} (${reason})`;
  const next =
    tries === 0 || nextTryAtMs === null ? '' : `; next attempt ${when(nextTryAtMs, nowMs)}`;
  return `  ${subject}\n    since ${when(createdAtMs, nowMs)}${tried}${next}`;
}

function balanceToText({ mintUrl, amountSat, proofCount }: MintBalance): string {
  return `  ${sat(amountSat)} at ${mintUrl} (${count(proofCount, 'proof')})`;
}

function withdrawalsToText(withdrawals: readonly Withdrawal[]): string {
  return withdrawals.length === 0
    ? lines('There are no withdrawals.')
    : lines(
        ...withdrawals.map(
          (each) =>
            `${iso(each.createdAtMs)}  ${each.id}  ${sat(each.amountSat)}: ${stateToText(each)}`,
        ),
      );
}

function withdrawalResultToText(result: WithdrawalResult): string {
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
        `Withdrawal ${result.id} is in progress: ${result.reason}. The service completes it;` +
          ` do not withdraw again. \`nutpost treasury token ${result.id}\` prints the token once it is done.`,
      );
    case 'empty':
      return lines(NO_ECASH);
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

function storedTokenToText(stored: StoredToken): string {
  switch (stored.outcome) {
    case 'token':
      return lines(`A token of ${sat(stored.amountSat)}, unless it has been redeemed.`);
    case 'no_token':
      return lines(`There is no token; the withdrawal is ${stateToText(stored.withdrawal)}.`);
    case 'not_found':
      return lines('There is no such withdrawal; `nutpost treasury withdrawals` lists them.');
  }
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
