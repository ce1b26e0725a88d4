import { parseArgs } from 'node:util';
import { normaliseMintUrl } from '../domain/mint-url.ts';
import type { Treasury, WithdrawalOrder } from '../usecases/treasury.ts';
import { answer } from './answer.ts';
import {
  type CommandResult,
  type OperatorCommand,
  type RunCommand,
  UsageError,
} from './command.ts';
import { overviewToJson, withdrawalsToJson } from './treasury-json.ts';
import {
  overviewToText,
  storedTokenToText,
  withdrawalResultToText,
  withdrawalsToText,
} from './treasury-text.ts';

/** Up to 2,100,000,000,000,000 sat: all there will ever be. */
const AMOUNT_SAT = /^[1-9]\d{0,15}$/;

/** An id has 36 characters. */
const MAX_ID_LENGTH = 64;

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
    const { json, amount, mint } = values;
    if (action !== 'withdraw' && (amount ?? mint) !== undefined) {
      throw new UsageError('--amount and --mint are for `treasury withdraw`.');
    }
    if (action !== 'token' && operands.length > 0) {
      throw new UsageError(`Unexpected argument: ${operands[0]}`);
    }
    switch (action) {
      case undefined:
        return withTreasury(async (treasury) => {
          const overview = await treasury.overview();
          return answer(
            true,
            json ? { json: overviewToJson(overview) } : { text: overviewToText(overview) },
          );
        });
      case 'withdraw': {
        const order = readOrder(amount, mint);
        return withTreasury(async (treasury) => {
          const result = await treasury.withdraw(order);
          return answerToken(result, withdrawalResultToText(result), json);
        });
      }
      case 'withdrawals':
        return withTreasury(async (treasury) => {
          const listed = await treasury.withdrawals();
          return answer(
            true,
            json ? { json: withdrawalsToJson(listed) } : { text: withdrawalsToText(listed) },
          );
        });
      case 'token': {
        const id = readId(operands);
        return withTreasury(async (treasury) => {
          const stored = await treasury.token(id);
          const shown = stored.outcome === 'no_token' ? { outcome: stored.outcome } : stored;
          return answerToken(shown, storedTokenToText(stored), json);
        });
      }
      default:
        throw new UsageError(`Unknown action: ${action}`);
    }
  },
};

function withTreasury(run: (treasury: Treasury) => Promise<CommandResult>): RunCommand {
  return async ({ treasury }) =>
    treasury === null
      ? {
          exitCode: 1,
          stdout: '',
          stderr:
            'There is no treasury: set TREASURY_SECRET, or start the service with a price for usernames.\n',
        }
      : run(treasury);
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

function readId([id = '', ...others]: string[]): string {
  if (id.trim() === '' || id.length > MAX_ID_LENGTH || others.length > 0) {
    throw new UsageError('Give one withdrawal id; `nutpost treasury withdrawals` lists them.');
  }
  return id.trim();
}

/** The token alone goes to standard output, so that it can be piped; everything else to standard error. */
function answerToken(
  result: { outcome: string; token?: string },
  text: string,
  asJson: boolean,
): CommandResult {
  if (asJson) {
    return answer(result.token !== undefined, { json: result });
  }
  return result.token === undefined
    ? answer(false, { text })
    : { exitCode: 0, stdout: `${result.token}\n`, stderr: text };
}
