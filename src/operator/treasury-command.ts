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
import { createTreasurySealer } from '../usernames/usernames-module.ts';
import { type CommandContext, type CommandReport, defineCommand } from './command.ts';
import {
  formatCount,
  formatExpiry,
  formatSat,
  formatTime,
  formatTimeWithDistance,
} from './format.ts';
import { parseAmountSat, parseMintUrl } from './options.ts';

export const treasuryCommands = [
  defineCommand({
    name: 'treasury',
    description: 'shows the earnings from usernames, what can be withdrawn, and open purchases',
    run: (context) => withTreasury(context, reportOverview),
  }),
  defineCommand({
    name: 'treasury withdraw',
    synopsis: '[--amount <sat>] [--mint <url>]',
    description:
      'prints a cashuB token of all ecash at the mint (at most the 500 largest proofs), or of exactly --amount if stored proofs add up to it',
    options: { amount: parseAmountSat, mint: parseMintUrl },
    run: (context, { amount: amountSat, mint: mintUrl, json }) =>
      withTreasury(context, async (treasury) => {
        const result = await withdrawFromTreasury(treasury, { mintUrl, amountSat });
        return reportToken(result, withdrawalToLines(result), json);
      }),
  }),
  defineCommand({
    name: 'treasury withdrawals',
    description: 'lists withdrawals',
    run: (context) => withTreasury(context, reportWithdrawals),
  }),
  defineCommand({
    name: 'treasury token',
    description: 'prints the token of a withdrawal again',
    operands: [['<id>', String]],
    run: (context, { json }, [id]) =>
      withTreasury(context, async (treasury) => {
        const withdrawal = await readWithdrawalToken(treasury, id);
        if (withdrawal === null) {
          const text = 'No withdrawal has this id; `nutpost treasury withdrawals` lists all ids.';
          return reportToken({ outcome: 'not_found' }, [text], json);
        }
        const text = `A token of ${formatSat(withdrawal.amountSat)}, unless it has been redeemed.`;
        return reportToken({ outcome: 'token', ...withdrawal }, [text], json);
      }),
  }),
];

/** @throws OperatorError if the file of the treasury secret is damaged */
async function withTreasury(
  { config, ...context }: CommandContext,
  run: (treasury: TreasuryContext) => Promise<CommandReport>,
): Promise<CommandReport> {
  const treasury = { ...context, sealer: createTreasurySealer(config) };
  return (await isTreasuryUnused(treasury))
    ? { isSuccess: false, json: { outcome: 'no_secret' }, lines: [NO_SECRET_TEXT] }
    : run(treasury);
}

const NO_SECRET_TEXT =
  'No treasury secret found: set TREASURY_SECRET, or start the service with USERNAME_PRICE_SAT.';

/** Without `--json`, only the token is on standard output, so that it can be piped. */
function reportToken(
  json: { outcome: string; token?: string },
  lines: string[],
  isJson: boolean,
): CommandReport {
  const { token } = json;
  const report = { isSuccess: token !== undefined, json, lines };
  return token === undefined || isJson ? report : { ...report, output: `${token}\n` };
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
