import { type ErrorAnswer, mintErrorCode, mintErrorDetail } from './mint-error.ts';

/**
 * Why a mint did not do a swap. It speaks of the one request: what an earlier one did, with an answer
 * that was lost, is another matter (Nutshell and cdk-mintd look at sums before they look at whether
 * an input is spent or pending).
 *
 * - `spent`: an input was spent before, perhaps by an earlier request of ours.
 * - `pending`: an input is part of something that is under way, perhaps of ours.
 * - `invalid`: an input was never signed by this mint, and nothing will make it good.
 * - `outputs_signed`: the mint has signed the outputs before, so an earlier request with them was done.
 * - `keyset_inactive`: the mint signs no more with the keyset of the outputs.
 * - `unbalanced`: inputs less fee are not the outputs.
 * - `other`: anything that is not surely one of these; nothing at all follows from it.
 */
export type SwapRefusal =
  | 'spent'
  | 'pending'
  | 'invalid'
  | 'outputs_signed'
  | 'keyset_inactive'
  | 'unbalanced'
  | 'other';

/** Nutshell's code for nearly everything that is wrong with a transaction: its words must tell. */
const TRANSACTION_ERROR = 11000;

/**
 * Codes and words that must both fit (error_codes.md of the NUTs; the words as Nutshell 0.20.2 and
 * cdk-mintd 0.18 say them). Codes alone do not do: 11000 is a catch-all, Nutshell has a second
 * meaning for 11003 ("secret too long"), older mints have others for 11002 and 11003, and older cdk
 * ones say 10001 where anything went wrong.
 */
const KNOWN: readonly { reason: SwapRefusal; codes: readonly number[]; words: RegExp }[] = [
  { reason: 'spent', codes: [11001], words: /spent/i },
  { reason: 'pending', codes: [11002], words: /pending/i },
  {
    reason: 'invalid',
    codes: [10001],
    words:
      /proofs? (could not be verified|verification failed)|no secret in proofs|token not verified/i,
  },
  { reason: 'outputs_signed', codes: [11003], words: /already( been)? signed/i },
  {
    reason: 'keyset_inactive',
    codes: [12002, TRANSACTION_ERROR],
    words: /keyset.*(inactive|not active)|(inactive|no active) keyset/i,
  },
  {
    reason: 'unbalanced',
    codes: [11005, TRANSACTION_ERROR],
    words: /not balanced|less than output amounts|inputs should equal outputs/i,
  },
];

/** Classifies a mint's refusal of a swap. */
export function swapRefusal(answer: ErrorAnswer): SwapRefusal {
  const code = mintErrorCode(answer);
  const detail = mintErrorDetail(answer);
  const known = KNOWN.find(
    ({ codes, words }) => code !== null && codes.includes(code) && words.test(detail),
  );
  return known?.reason ?? 'other';
}
