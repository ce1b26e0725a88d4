import { parseArgs } from 'node:util';
import { type LightningAddress, parseLightningAddress } from '../domain/lightning-address.ts';
import { normaliseMintUrl } from '../domain/mint-url.ts';
import type { ShownToken } from '../usecases/show-treasury.ts';
import type {
  PayoutWithdrawal,
  TokenReclaim,
  TokenWithdrawal,
  Wish,
} from '../usecases/withdraw-treasury.ts';
import { answer } from './answer.ts';
import {
  type CommandParts,
  type CommandResult,
  type OperatorCommand,
  type RunCommand,
  UsageError,
} from './command.ts';
import { overviewToJson, withdrawalsToJson } from './treasury-json.ts';
import {
  overviewToText,
  payoutToText,
  reclaimToText,
  shownTokenToText,
  tokenWithdrawalToText,
  withdrawalsToText,
} from './treasury-text.ts';

/** Up to 2,100,000,000,000,000 sat: all there will ever be. */
const AMOUNT_SAT = /^[1-9]\d{0,15}$/;

/** An id of ours has 36 characters. */
const MAX_ID_LENGTH = 64;

/** `nutpost treasury`: what names earned, and how it is taken out. */
export const treasury: OperatorCommand = {
  name: 'treasury',
  usage: `  treasury tells what names earned, what can be withdrawn and what is under way
  treasury withdraw [--amount <sat>] [--mint <url>]
           prints a cashuB token of the money, all of it or just so much
  treasury withdraw --to <name@host> [--amount <sat>] [--mint <url>]
           pays a Lightning address, by default all there is less the fees
  treasury withdrawals
           lists what was withdrawn
  treasury token <id>
           prints the token of a withdrawal again
  treasury reclaim <id>
           takes back a token that nobody redeemed; --json for programs, as with the others
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        amount: { type: 'string' },
        mint: { type: 'string' },
        to: { type: 'string' },
      },
      allowPositionals: true,
    });
    const [action, ...which] = positionals;
    const { json, amount, mint, to } = values;
    if (action !== 'withdraw' && (amount ?? mint ?? to) !== undefined) {
      throw new UsageError('--amount, --mint and --to are for `treasury withdraw`.');
    }
    switch (action) {
      case undefined:
        return withTreasury(async ({ show }) => {
          const overview = await show.overview();
          return answer(
            true,
            json ? { json: overviewToJson(overview) } : { text: overviewToText(overview) },
          );
        });
      case 'withdraw': {
        refuseMore(which);
        const wish = readWish(amount, mint);
        if (to === undefined) {
          return withTreasury(async ({ withdraw }) =>
            answerToken(await withdraw.asToken(wish), json),
          );
        }
        const address = readAddress(to);
        return withTreasury(async ({ withdraw }) =>
          answerPayout(await withdraw.toAddress(wish, address), address, json),
        );
      }
      case 'withdrawals':
        refuseMore(which);
        return withTreasury(async ({ show }) => {
          const shown = await show.withdrawals();
          return answer(
            true,
            json ? { json: withdrawalsToJson(shown) } : { text: withdrawalsToText(shown) },
          );
        });
      case 'token': {
        const id = readId(which);
        return withTreasury(async ({ show }) => answerShownToken(await show.token(id), json));
      }
      case 'reclaim': {
        const id = readId(which);
        return withTreasury(async ({ withdraw }) =>
          answerReclaim(await withdraw.reclaim(id), json),
        );
      }
      default:
        throw new UsageError('Give withdraw, withdrawals, token or reclaim, or nothing.');
    }
  },
};

function withTreasury(
  run: (treasury: NonNullable<CommandParts['treasury']>) => Promise<CommandResult>,
): RunCommand {
  return async ({ treasury }) =>
    treasury === null
      ? {
          exitCode: 1,
          stdout: '',
          stderr:
            'There is no treasury: it comes with TREASURY_SECRET, or with the first start that sells names.\n',
        }
      : run(treasury);
}

function readWish(amount: string | undefined, mint: string | undefined): Wish {
  if (amount !== undefined && !AMOUNT_SAT.test(amount)) {
    throw new UsageError('Give the --amount in whole sats.');
  }
  const mintUrl = mint === undefined ? null : normaliseMintUrl(mint, { allowHttp: true });
  if (mint !== undefined && mintUrl === null) {
    throw new UsageError('Give the address of a --mint, such as https://mint.example.');
  }
  return { mintUrl, amountSat: amount === undefined ? null : Number(amount) };
}

function readAddress(text: string): LightningAddress {
  const address = parseLightningAddress(text);
  if (address === null) {
    throw new UsageError('Give a Lightning address to pay --to, such as name@host.example.');
  }
  return address;
}

function readId([id = '', ...others]: string[]): string {
  if (id.trim() === '' || id.length > MAX_ID_LENGTH || others.length > 0) {
    throw new UsageError('Give the id of one withdrawal: `nutpost treasury withdrawals` has them.');
  }
  return id.trim();
}

function refuseMore(others: string[]): void {
  if (others.length > 0) {
    throw new UsageError('There is something more than can be understood.');
  }
}

/** The token alone on standard output, so that it can be piped; the rest on standard error. */
function answerToken(withdrawal: TokenWithdrawal, asJson: boolean): CommandResult {
  const isDone = withdrawal.outcome === 'token';
  if (asJson || !isDone) {
    return answer(isDone, said(withdrawal, tokenWithdrawalToText, asJson));
  }
  return printed(withdrawal.token, tokenWithdrawalToText(withdrawal));
}

function answerShownToken(shown: ShownToken, asJson: boolean): CommandResult {
  const isDone = shown.outcome === 'token';
  if (asJson || !isDone) {
    const { outcome } = shown;
    const bare = isDone ? shown : { outcome };
    return answer(isDone, asJson ? { json: bare } : { text: shownTokenToText(shown) });
  }
  return printed(shown.token, shownTokenToText(shown));
}

function answerPayout(
  payout: PayoutWithdrawal,
  address: LightningAddress,
  asJson: boolean,
): CommandResult {
  const toText = (result: PayoutWithdrawal) => payoutToText(result, address);
  return answer(payout.outcome === 'paid', said(payout, toText, asJson));
}

function answerReclaim(reclaim: TokenReclaim, asJson: boolean): CommandResult {
  return answer(reclaim.outcome === 'reclaimed', said(reclaim, reclaimToText, asJson));
}

/** What came of a withdrawal has nothing in it but what is to be told. */
function said<Result extends object>(
  result: Result,
  toText: (result: Result) => string,
  asJson: boolean,
): { json: object } | { text: string } {
  return asJson ? { json: result } : { text: toText(result) };
}

function printed(token: string, remark: string): CommandResult {
  return { exitCode: 0, stdout: `${token}\n`, stderr: remark };
}
