import { parseArgs } from 'node:util';
import { normaliseMintUrl } from '../mints/mint-url.ts';
import type { WaitingPurchase } from '../usernames/purchase-store.ts';
import type {
  Treasury,
  TreasuryOverview,
  WithdrawalOrder,
  WithdrawalResult,
} from '../usernames/treasury.ts';
import type { MintBalance, Withdrawal } from '../usernames/treasury-store.ts';
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
           prints a cashuB token of all ecash at the mint (its 500 largest proofs if it has more), or of this
           amount if its proofs make it up
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
        const withdrawals = await treasury.withdrawals();
        return answer(
          true,
          json
            ? { withdrawals: withdrawals.map(({ proofs: _, ...shown }) => shown) }
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
        if (stored === null) {
          return answerToken({ outcome: 'not_found' }, lines(NOT_FOUND), json);
        }
        const text = lines(`A token of ${sat(stored.amountSat)}, unless it has been redeemed.`);
        return answerToken({ outcome: 'token', ...stored }, text, json);
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

function overviewToJson({ earnings, openPurchases, ...overview }: TreasuryOverview): object {
  return {
    ...overview,
    names: earnings,
    openPurchases: openPurchases.map(({ createdAtMs: sinceMs, ...purchase }) => ({
      ...purchase,
      sinceMs,
    })),
  };
}

function overviewToText(overview: TreasuryOverview): string {
  const { nowMs, balances, earnings, openPurchases } = overview;
  return lines(
    ...(balances.length === 0 ? [NO_ECASH] : ['Can be withdrawn', ...balances.map(balanceToText)]),
    `${count(earnings.namesSold, 'name')} sold for ${sat(earnings.paidSat)}, before mint fees`,
    ...(openPurchases.length === 0 ? [] : ['', 'In progress']),
    ...openPurchases.map((purchase) => purchaseToText(purchase, nowMs)),
  );
}

const NO_ECASH = 'There is no ecash to withdraw.';

const NOT_FOUND = 'There is no such withdrawal; `nutpost treasury withdrawals` lists them.';

function purchaseToText(purchase: WaitingPurchase, nowMs: number): string {
  const { id, name, paidSat, createdAtMs, tries, reason, nextTryAtMs } = purchase;
  const tried = tries === 0 ? '' : ` after ${count(tries, 'failed attempt')} (${reason})`;
  const next =
    tries === 0 || nextTryAtMs === null ? '' : `; next attempt ${when(nextTryAtMs, nowMs)}`;
  return `  purchase ${id} of ${name} for ${sat(paidSat)}\n    since ${when(createdAtMs, nowMs)}${tried}${next}`;
}

function balanceToText({ mintUrl, amountSat, proofCount }: MintBalance): string {
  return `  ${sat(amountSat)} at ${mintUrl} (${count(proofCount, 'proof')})`;
}

function withdrawalsToText(withdrawals: readonly Withdrawal[]): string {
  return withdrawals.length === 0
    ? lines('There are no withdrawals.')
    : lines(
        ...withdrawals.map(
          ({ id, mintUrl, amountSat, createdAtMs }) =>
            `${iso(createdAtMs)}  ${id}  ${sat(amountSat)} at ${mintUrl}`,
        ),
      );
}

function withdrawalResultToText(result: WithdrawalResult): string {
  switch (result.outcome) {
    case 'token':
      return lines(
        `A token of ${sat(result.amountSat)}. \`nutpost treasury token ${result.id}\` prints it again.`,
        ...(result.leftSat === 0 ? [] : [`${sat(result.leftSat)} left at the mint.`]),
      );
    case 'empty':
      return lines(NO_ECASH);
    case 'choose_mint':
      return lines(
        'There is ecash at several mints; choose one with --mint:',
        ...result.balances.map(balanceToText),
      );
    case 'not_exact':
      return lines(
        `The proofs in the treasury cannot make up exactly ${sat(result.requestedSat)}; the nearest` +
          ` amount below is ${sat(result.availableSat)}.`,
      );
    case 'too_many_proofs':
      return lines(
        `${sat(result.requestedSat)} takes ${count(result.proofCount, 'proof')}, and one withdrawal has at most` +
          ` ${result.maxProofs}; withdraw ${sat(result.availableSat)} first, and the rest after that.`,
      );
    case 'conflict':
      return lines('Another withdrawal took the ecash at the same time. Try again.');
  }
}
