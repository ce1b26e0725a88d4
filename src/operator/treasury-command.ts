import { parseArgs } from 'node:util';
import { normaliseMintUrl } from '../net/server-url.ts';
import { MAX_LISTED } from '../usernames/limits.ts';
import type { OpenPurchaseSummary } from '../usernames/purchase-store.ts';
import {
  isTreasuryUnused,
  readTreasuryOverview,
  readWithdrawalToken,
  type TreasuryContext,
  type WithdrawalResult,
  withdrawFromTreasury,
} from '../usernames/treasury.ts';
import { listWithdrawals, type MintBalance } from '../usernames/treasury-store.ts';
import {
  type CommandReport,
  type OperatorCommand,
  parseAmountSat,
  renderReport,
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
    const hasWithdrawOptions = values.amount !== undefined || values.mint !== undefined;
    if (action !== 'withdraw' && hasWithdrawOptions) {
      throw new UsageError('--amount and --mint are only for `treasury withdraw`.');
    }
    if (action !== 'token' && operands.length > 0) {
      throw new UsageError(`Unexpected argument: ${operands[0]}`);
    }
    const runAction = parseAction(action, operands, values);
    return async ({ openTreasury }) => {
      const treasury = openTreasury();
      if (await isTreasuryUnused(treasury)) {
        return { exitCode: 1, stdout: '', stderr: NO_SECRET_TEXT };
      }
      const report = await runAction(treasury);
      return report.token === undefined || values.json
        ? renderReport(report, values.json)
        : { exitCode: 0, stdout: `${report.token}\n`, stderr: joinLines(...report.lines) };
    };
  },
};

/** Without `--json`, only the token is on standard output, so that it can be piped. */
type TreasuryReport = CommandReport & { token?: string | undefined };

const NO_SECRET_TEXT =
  'No treasury secret found: set TREASURY_SECRET, or start the service with USERNAME_PRICE_SAT.\n';

function parseAction(
  action: string | undefined,
  operands: string[],
  { amount, mint }: { amount?: string; mint?: string },
): (treasury: TreasuryContext) => Promise<TreasuryReport> {
  switch (action) {
    case undefined:
      return reportOverview;
    case 'withdraw': {
      const order = { mintUrl: parseMintUrl(mint), amountSat: parseAmountSat(amount) };
      return async (treasury) => {
        const result = await withdrawFromTreasury(treasury, order);
        return createTokenReport(result, withdrawalToLines(result));
      };
    }
    case 'withdrawals':
      return reportWithdrawals;
    case 'token': {
      const listAdvice = '`nutpost treasury withdrawals` lists all ids.';
      const id = requireSingleOperand(operands, `Give one withdrawal id; ${listAdvice}`);
      return async (treasury) => {
        const withdrawal = await readWithdrawalToken(treasury, id);
        if (withdrawal === null) {
          const notFoundText = `No withdrawal has this id; ${listAdvice}`;
          return createTokenReport({ outcome: 'not_found' }, [notFoundText]);
        }
        const text = `A token of ${formatSat(withdrawal.amountSat)}, unless it has been redeemed.`;
        return createTokenReport({ outcome: 'token', ...withdrawal }, [text]);
      };
    }
    default:
      throw new UsageError(`Unknown action: ${action}`);
  }
}

function parseMintUrl(text: string | undefined): string | null {
  if (text === undefined) {
    return null;
  }
  const mintUrl = normaliseMintUrl(text, { allowHttp: true });
  if (mintUrl === null) {
    throw new UsageError(`--mint must be a URL such as https://mint.example (got '${text}').`);
  }
  return mintUrl;
}

async function reportOverview(treasury: TreasuryContext): Promise<CommandReport> {
  const overview = await readTreasuryOverview(treasury);
  const { nowMs, secretProblem, balances, expiring, sales, openPurchases } = overview;
  const balancesTitle = secretProblem === null ? 'Can be withdrawn' : 'Cannot be withdrawn';
  return {
    isSuccess: secretProblem === null,
    json: overview,
    lines: [
      ...(secretProblem === null ? [] : [secretProblem, '']),
      balances.length === 0 ? NO_ECASH_TEXT : balancesTitle,
      ...balances.map(balanceToText),
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
  let progress = `since ${formatTimeWithDistance(createdAtMs, nowMs)}`;
  if (attempts > 0) {
    progress += ` after ${formatCount(attempts, 'failed attempt')} (${reason})`;
    if (nextAttemptAtMs !== null) {
      progress += `; next attempt ${formatTimeWithDistance(nextAttemptAtMs, nowMs)}`;
    }
  }
  return [`  purchase ${id} of ${name} for ${formatSat(paidSat)}`, `    ${progress}`];
}

function balanceToText({ mintUrl, amountSat, proofCount }: MintBalance): string {
  return `  ${formatSat(amountSat)} at ${mintUrl} (${formatCount(proofCount, 'proof')})`;
}

async function reportWithdrawals({ db }: TreasuryContext): Promise<CommandReport> {
  const storedWithdrawals = await listWithdrawals(db, MAX_LISTED);
  const withdrawals = storedWithdrawals.map(({ sealedProofs: _, ...withdrawal }) => withdrawal);
  const lines = withdrawals.map(
    ({ id, mintUrl, amountSat, createdAtMs }) =>
      `${formatTime(createdAtMs)}  ${id}  ${formatSat(amountSat)} at ${mintUrl}`,
  );
  return {
    isSuccess: true,
    json: { withdrawals },
    lines: lines.length === 0 ? ['No withdrawals yet.'] : lines,
  };
}

function createTokenReport(json: { outcome: string; token?: string }, lines: string[]) {
  return { isSuccess: json.token !== undefined, json, lines, token: json.token };
}

function withdrawalToLines(result: WithdrawalResult): string[] {
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
