import type { LightningAddress } from '../domain/lightning-address.ts';
import type { LnurlFailure } from '../lnurl/lnurl-client.ts';
import type { WaitingPurchase } from '../store/purchase-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import type { PayoutProblem } from '../usecases/plan-payout.ts';
import type {
  HandedOut,
  ShownToken,
  ShownWithdrawal,
  TokenStanding,
  TreasuryOverview,
} from '../usecases/show-treasury.ts';
import type { OtherSecret } from '../usecases/treasury-token.ts';
import type {
  NotBegun,
  NotDone,
  PayoutWithdrawal,
  TokenReclaim,
  TokenWithdrawal,
} from '../usecases/withdraw-treasury.ts';
import { count, iso, lines, when } from './plain-text.ts';

/** The treasury for a person: lines of text, each ended. Times in UTC. */
export function overviewToText(overview: TreasuryOverview): string {
  const { nowMs, balances, earnings, waitingPurchases, openWithdrawals, handedOut } = overview;
  const { namesSold, paidSat } = earnings;
  const underWay = [
    ...waitingPurchases.map((each) => purchaseInLine(each, nowMs)),
    ...openWithdrawals.map((each) => openInLine(each, nowMs)),
  ];
  return lines(
    ...(balances.length === 0
      ? ['Nothing can be withdrawn.']
      : [
          'Can be withdrawn',
          ...balances.map(
            ({ mintUrl, amountSat, proofCount }) =>
              `  ${sat(amountSat)} at ${mintUrl}, in ${count(proofCount, 'proof')}`,
          ),
        ]),
    `${count(namesSold, 'name')} sold, for ${sat(paidSat)} before the fees of mints`,
    ...section('Under way', underWay),
    ...section(
      'Tokens handed out and not redeemed',
      handedOut.map((each) => handedOutInLine(each, nowMs)),
    ),
  );
}

/** The withdrawals for a person, the newest first. */
export function withdrawalsToText(shown: {
  nowMs: number;
  withdrawals: readonly ShownWithdrawal[];
}): string {
  return shown.withdrawals.length === 0
    ? lines('Nothing was withdrawn yet.')
    : lines(...shown.withdrawals.map(withdrawalInLine));
}

/** What came of withdrawing a token; the token itself is said elsewhere. */
export function tokenWithdrawalToText(withdrawal: TokenWithdrawal): string {
  if (withdrawal.outcome === 'under_way') {
    return underWayToText(withdrawal, `\`nutpost treasury token ${withdrawal.id}\` prints it then`);
  }
  if (withdrawal.outcome !== 'token') {
    return problemToText(withdrawal);
  }
  const { id, amountSat, feeSat, leftSat } = withdrawal;
  return lines(
    `A token of ${sat(amountSat)}${feeInWords(feeSat)}; ${sat(leftSat)} left.` +
      ` \`nutpost treasury token ${id}\` prints it again until somebody redeems it.`,
  );
}

/** What came of paying a Lightning address. */
export function payoutToText(payout: PayoutWithdrawal, { text }: LightningAddress): string {
  if (payout.outcome !== 'paid') {
    return problemToText(payout);
  }
  const { amountSat, feeSat, changeSat, id } = payout;
  return lines(
    `${sat(amountSat)} paid to ${text}${feeInWords(feeSat)}; ${sat(changeSat)} came back as change.` +
      ` Withdrawal ${id}.`,
  );
}

/** What came of taking a token back. */
export function reclaimToText(reclaim: TokenReclaim): string {
  switch (reclaim.outcome) {
    case 'reclaimed':
      return lines(
        `${sat(reclaim.amountSat)} are back in the treasury${feeInWords(reclaim.feeSat)};` +
          ' the token is worth nothing any more.',
      );
    case 'redeemed':
      return lines('Somebody has redeemed the token: it cannot be taken back.');
    case 'being_redeemed':
      return lines('Somebody is redeeming the token at this moment.');
    case 'not_found':
      return NOT_FOUND;
    case 'no_token':
      return lines('This withdrawal has no token that could be taken back.');
    case 'worthless':
      return lines('The fee of the mint would take all that the token is worth.');
    default:
      return problemToText(reclaim);
  }
}

/** What is to be said of a token beside the token. */
export function shownTokenToText(shown: ShownToken): string {
  switch (shown.outcome) {
    case 'token':
      return lines(`A token of ${sat(shown.amountSat)}: ${STANDING_IN_WORDS[shown.standing]}.`);
    case 'redeemed':
      return lines('Somebody has redeemed this token: it is worth nothing any more.');
    case 'no_token':
      return lines(sentence(`There is no token: ${withdrawalState(shown.withdrawal)}`));
    case 'not_found':
      return NOT_FOUND;
    case 'other_secret':
      return otherSecretToText(shown);
  }
}

const NOT_FOUND = lines('There is no such withdrawal: `nutpost treasury withdrawals` lists them.');

const STANDING_IN_WORDS: Record<TokenStanding, string> = {
  unredeemed: 'nobody has redeemed it',
  partly_redeemed: 'somebody has redeemed a part of it',
  redeemed: 'somebody has redeemed it',
  being_redeemed: 'it is being redeemed',
  being_taken_back: 'it is being taken back',
  unknown: 'the mint does not say whether somebody has redeemed it',
};

function problemToText(problem: NotBegun | NotDone | PayoutProblem): string {
  switch (problem.outcome) {
    case 'under_way':
      return underWayToText(problem, '`nutpost treasury withdrawals` tells how it ended');
    case 'undone':
      return lines(
        `${sentence(`It came to nothing: ${problem.reason}`)} ${returnedInWords(problem)}` +
          ` Withdrawal ${problem.id}.`,
      );
    case 'empty':
      return lines('There is nothing to withdraw there.');
    case 'choose_mint':
      return lines(
        'There is money at several mints; choose one with --mint:',
        ...problem.balances.map(({ mintUrl, amountSat }) => `  ${mintUrl}  ${sat(amountSat)}`),
      );
    case 'short':
      return lines(
        `There is not enough: ${sat(problem.neededSat)} are needed with all fees, and what can be` +
          ` withdrawn is worth ${sat(problem.availableSat)} after the fee of the mint.`,
      );
    case 'other_secret':
      return otherSecretToText(problem);
    case 'mint_unavailable':
      return lines(
        `${sentence(`The mint does not answer as it should: ${problem.reason}`)} Nothing was done.`,
      );
    case 'overtaken':
      return lines('Another withdrawal took the money at the same moment. Nothing was done.');
    case 'recipient_failed':
      return lines(`${recipientInWords(problem.failure)} Nothing was paid.`);
    case 'out_of_range':
      return lines(
        `The recipient takes from ${sat(problem.minSat)} to ${sat(problem.maxSat)}, and this would be` +
          ` ${sat(problem.amountSat)}. Nothing was paid.`,
      );
    case 'mint_refused':
      return lines(
        `${sentence(`The mint does not pay this invoice: ${problem.reason}`)} Nothing was paid.`,
      );
    case 'too_slow':
      return lines('The mint or the recipient was too slow. Nothing was paid; try again later.');
  }
}

function underWayToText(
  { id, reason }: Extract<NotDone, { outcome: 'under_way' }>,
  later: string,
): string {
  return lines(
    `${sentence(`Under way: ${reason}`)} It goes on by itself while the service runs, and ${later}.` +
      ` Withdrawal ${id}.`,
  );
}

function returnedInWords({
  returnedTo,
  returnedSat,
}: Extract<NotDone, { outcome: 'undone' }>): string {
  if (returnedTo === 'token') {
    return `${sat(returnedSat)} are part of the token again, unless somebody redeemed them.`;
  }
  return returnedSat === 0
    ? 'Nothing came back to the treasury.'
    : `${sat(returnedSat)} are back in the treasury.`;
}

function otherSecretToText({ keyId, sealedWith }: OtherSecret): string {
  return lines(
    `The ecash was encrypted with another TREASURY_SECRET (key ${sealedWith}; this one is ${keyId}):` +
      ' only that one opens it.',
  );
}

function recipientInWords({ outcome, reason }: LnurlFailure): string {
  switch (outcome) {
    case 'refused':
      return `The server of the Lightning address refused: ${sentence(reason)}`;
    case 'invalid':
      return sentence(`The server of the Lightning address made no sense: ${reason}`);
    case 'unavailable':
      return sentence(`The server of the Lightning address does not answer: ${reason}`);
  }
}

/** Others end theirs, or do not. */
function sentence(words: string): string {
  return words.replace(/\.?$/, '.');
}

function purchaseInLine(purchase: WaitingPurchase, nowMs: number): string {
  const { id, name, paidSat, createdAtMs, tries, doubtedAtMs, nextTryAtMs } = purchase;
  const unknown = tries === 0 ? 'it has just begun' : 'the mint has not said how it ended';
  const why =
    doubtedAtMs === null
      ? unknown
      : 'the mint says that nothing was done, and is asked once more to be sure';
  return underWayInLine(`purchase ${id} of ${name} for ${sat(paidSat)}`, {
    sinceMs: createdAtMs,
    tries,
    why,
    nextTryAtMs,
    nowMs,
  });
}

function openInLine(withdrawal: Withdrawal, nowMs: number): string {
  const { id, createdAtMs, tries, reason, nextTryAtMs } = withdrawal;
  return underWayInLine(`withdrawal ${id}, ${what(withdrawal)}`, {
    sinceMs: createdAtMs,
    tries,
    why: reason ?? 'it has just begun',
    nextTryAtMs,
    nowMs,
  });
}

function underWayInLine(
  subject: string,
  wait: {
    sinceMs: number;
    tries: number;
    why: string;
    nextTryAtMs: number | null;
    nowMs: number;
  },
): string {
  const { sinceMs, tries, why, nextTryAtMs, nowMs } = wait;
  const next = nextTryAtMs === null ? '' : `; looked at again at ${when(nextTryAtMs, nowMs)}`;
  return `  ${subject}\n    since ${when(sinceMs, nowMs)}${triesInWords(tries)}: ${why}${next}`;
}

function triesInWords(tries: number): string {
  const often = tries === 1 ? 'once' : `${tries.toLocaleString('en')} times`;
  return tries === 0 ? '' : `, tried ${often} in vain`;
}

function handedOutInLine({ withdrawal, standing }: HandedOut, nowMs: number): string {
  const { id, amountSat, createdAtMs } = withdrawal;
  return `  ${id}  ${sat(amountSat)}, made ${when(createdAtMs, nowMs)}: ${STANDING_IN_WORDS[standing]}`;
}

function withdrawalInLine({ withdrawal, standing }: ShownWithdrawal): string {
  const state = standing === null ? withdrawalState(withdrawal) : STANDING_IN_WORDS[standing];
  return `${iso(withdrawal.createdAtMs)}  ${withdrawal.id}  ${what(withdrawal)}: ${state}`;
}

function what({ amountSat, detail }: Withdrawal): string {
  switch (detail.kind) {
    case 'token':
      return `token of ${sat(amountSat)}`;
    case 'lightning':
      return `${sat(amountSat)} to ${detail.to}`;
    case 'reclaim':
      return `token of ${sat(amountSat)} taken back (withdrawal ${detail.of})`;
  }
}

function withdrawalState({ state, reason, feeSat }: Withdrawal): string {
  switch (state) {
    case 'open':
      return reason === null ? 'under way' : `under way: ${reason}`;
    case 'done':
      return `done${feeInWords(feeSat ?? 0)}`;
    case 'undone':
      return `undone: ${reason}`;
  }
}

function feeInWords(feeSat: number): string {
  return feeSat === 0 ? '' : `, with a fee of ${sat(feeSat)}`;
}

function section(title: string, items: readonly string[]): string[] {
  return items.length === 0 ? [] : ['', title, ...items];
}

function sat(amount: number): string {
  return `${amount.toLocaleString('en')} sat`;
}
