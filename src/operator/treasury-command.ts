import { parseArgs } from 'node:util';
import { normaliseMintUrl } from '../net/server-url.ts';
import { MAX_LISTED } from '../usernames/limits.ts';
import type { OpenPurchaseSummary } from '../usernames/purchase-store.ts';
import {
  isTreasuryUnused,
  readTreasuryOverview,
  readWithdrawalToken,
  type TreasuryContext,
  type TreasuryOverview,
  type WithdrawalOrder,
  type WithdrawalResult,
  withdrawFromTreasury,
} from '../usernames/treasury.ts';
import { listWithdrawals, type MintBalance, type Withdrawal } from '../usernames/treasury-store.ts';
import {
  type CommandReport,
  type CommandResult,
  createCommandResult,
  createReportResult,
  type OperatorCommand,
  parseAmountSat,
  requireSingleOperand,
  UsageError,
} from './command.ts';
import {
  formatCount,
  formatExpiry,
  formatSat,
  formatTime,
  formatTimeWithDistance,
  joinLines,
} from './format.ts';

export const treasuryCommand: OperatorCommand = {
  name: 'treasury',
  usage: `  treasury shows the earnings from usernames, what can be withdrawn, and open purchases
  treasury withdraw [--amount <sat>] [--mint <url>]
           prints a cashuB token of all ecash at the mint (at most the 500 largest proofs), or of
           exactly --amount if stored proofs add up to it
  treasury withdrawals
           lists withdrawals
  treasury token <id>
           prints the token of a withdrawal again. All four accept --json, for scripts
`,
  parse: (args) => {
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
      throw new UsageError('--amount and --mint are only for `treasury withdraw`.');
    }
    if (action !== 'token' && operands.length > 0) {
      throw new UsageError(`Unexpected argument: ${operands[0]}`);
    }
    const runAction = createActionRunner(action, operands, values);
    return async ({ openTreasury }) => {
      const treasury = openTreasury();
      return (await isTreasuryUnused(treasury))
        ? createCommandResult(
            false,
            'No treasury secret found: set TREASURY_SECRET, or start the service with USERNAME_PRICE_SAT.\n',
          )
        : runAction(treasury);
    };
  },
};

function createActionRunner(
  action: string | undefined,
  operands: string[],
  { json, amount, mint }: { json: boolean; amount?: string; mint?: string },
): (treasury: TreasuryContext) => Promise<CommandResult> {
  switch (action) {
    case undefined:
      return async (treasury) =>
        createReportResult(reportOverview(await readTreasuryOverview(treasury)), json);
    case 'withdraw': {
      const order = parseWithdrawalOrder(amount, mint);
      return async (treasury) => {
        const result = await withdrawFromTreasury(treasury, order);
        return createTokenResult(result, withdrawalResultToLines(result), json);
      };
    }
    case 'withdrawals':
      return async (treasury) =>
        createReportResult(reportWithdrawals(await listWithdrawals(treasury.db, MAX_LISTED)), json);
    case 'token': {
      const id = requireSingleOperand(
        operands,
        `Give one withdrawal id; ${LIST_WITHDRAWALS_ADVICE}`,
      );
      return async (treasury) => {
        const withdrawal = await readWithdrawalToken(treasury, id);
        if (withdrawal === null) {
          const text = `No withdrawal has this id; ${LIST_WITHDRAWALS_ADVICE}`;
          return createTokenResult({ outcome: 'not_found' }, [text], json);
        }
        const text = `A token of ${formatSat(withdrawal.amountSat)}, unless it has been redeemed.`;
        return createTokenResult({ outcome: 'token', ...withdrawal }, [text], json);
      };
    }
    default:
      throw new UsageError(`Unknown action: ${action}`);
  }
}

const LIST_WITHDRAWALS_ADVICE = '`nutpost treasury withdrawals` lists all ids.';

function parseWithdrawalOrder(
  amount: string | undefined,
  mint: string | undefined,
): WithdrawalOrder {
  const amountSat = amount === undefined ? null : parseAmountSat(amount);
  const mintUrl = mint === undefined ? null : normaliseMintUrl(mint, { allowHttp: true });
  if (mint !== undefined && mintUrl === null) {
    throw new UsageError(`--mint must be a URL such as https://mint.example (got '${mint}').`);
  }
  return { mintUrl, amountSat };
}

/**
 * Without `--json`, prints only the token on standard output, so that it can be piped, and `lines` on standard error.
 */
function createTokenResult(
  result: { outcome: string; token?: string },
  lines: string[],
  isJson: boolean,
): CommandResult {
  const { token } = result;
  return isJson || token === undefined
    ? createReportResult({ isSuccess: token !== undefined, json: result, lines }, isJson)
    : { exitCode: 0, stdout: `${token}\n`, stderr: joinLines(...lines) };
}

function reportOverview(overview: TreasuryOverview): CommandReport {
  const { nowMs, secretProblem, balances, expiring, sales, openPurchases } = overview;
  return {
    isSuccess: secretProblem === null,
    json: overview,
    lines: [
      ...(secretProblem === null ? [] : [`${secretProblem.message}. ${secretProblem.advice}`, '']),
      ...(balances.length === 0
        ? [NO_ECASH_TEXT]
        : [
            secretProblem === null ? 'Can be withdrawn' : 'Cannot be withdrawn',
            ...balances.map(balanceToText),
          ]),
      ...expiring.map((ecash) => `  ${formatExpiry(ecash, nowMs)}`),
      `${formatCount(sales.namesSold, 'name')} sold for ${formatSat(sales.paidSat)}, before mint fees`,
      ...(openPurchases.length === 0 ? [] : ['', 'In progress']),
      ...openPurchases.flatMap((purchase) => purchaseToLines(purchase, nowMs)),
    ],
  };
}

const NO_ECASH_TEXT = 'The treasury has no ecash to withdraw.';

function purchaseToLines(purchase: OpenPurchaseSummary, nowMs: number): string[] {
  const { id, name, paidSat, createdAtMs, attempts, reason, nextAttemptAtMs } = purchase;
  const failures =
    attempts === 0 ? '' : ` after ${formatCount(attempts, 'failed attempt')} (${reason})`;
  const nextAttempt =
    attempts === 0 || nextAttemptAtMs === null
      ? ''
      : `; next attempt ${formatTimeWithDistance(nextAttemptAtMs, nowMs)}`;
  return [
    `  purchase ${id} of ${name} for ${formatSat(paidSat)}`,
    `    since ${formatTimeWithDistance(createdAtMs, nowMs)}${failures}${nextAttempt}`,
  ];
}

function balanceToText({ mintUrl, amountSat, proofCount }: MintBalance): string {
  return `  ${formatSat(amountSat)} at ${mintUrl} (${formatCount(proofCount, 'proof')})`;
}

function reportWithdrawals(withdrawals: readonly Withdrawal[]): CommandReport {
  const lines = withdrawals.map(
    ({ id, mintUrl, amountSat, createdAtMs }) =>
      `${formatTime(createdAtMs)}  ${id}  ${formatSat(amountSat)} at ${mintUrl}`,
  );
  return {
    isSuccess: true,
    json: { withdrawals: withdrawals.map(({ sealedProofs: _, ...withdrawal }) => withdrawal) },
    lines: lines.length === 0 ? ['No withdrawals yet.'] : lines,
  };
}

function withdrawalResultToLines(result: WithdrawalResult): string[] {
  switch (result.outcome) {
    case 'token':
      return [
        `A token of ${formatSat(result.amountSat)}. \`nutpost treasury token ${result.id}\` prints it again.`,
        ...(result.leftSat === 0 ? [] : [`${formatSat(result.leftSat)} left at the mint.`]),
      ];
    case 'empty':
      return [NO_ECASH_TEXT];
    case 'choose_mint':
      return [
        'The treasury has ecash at several mints; choose one with --mint:',
        ...result.balances.map(balanceToText),
      ];
    case 'not_exact':
      return [
        `The stored proofs do not add up to exactly ${formatSat(result.requestedSat)} in one token; the next` +
          ` lower amount is ${formatSat(result.availableSat)}.`,
      ];
    case 'conflict':
      return ['Another withdrawal took the ecash at the same time. Try again.'];
  }
}
