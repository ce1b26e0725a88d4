import { type ErrorAnswer, mintErrorCode, mintErrorDetail } from './mint-error.ts';

/**
 * Why a mint rejected a swap. The reason is about this request only: an earlier one whose answer was lost
 * may have succeeded (Nutshell and cdk-mintd check sums before they check whether an input is spent or
 * pending).
 *
 * - `spent`: an input is spent, perhaps by an earlier request of ours.
 * - `pending`: an input is used by a running request, perhaps of ours.
 * - `invalid`: this mint never signed an input; a retry cannot succeed.
 * - `outputs_signed`: the mint signed the outputs earlier, so an earlier request with them succeeded.
 * - `keyset_inactive`: the mint no longer signs with the keyset of the outputs.
 * - `unbalanced`: the inputs minus the fee do not equal the outputs.
 * - `other`: unknown; allows no conclusion.
 */
export type SwapRefusal =
  | 'spent'
  | 'pending'
  | 'invalid'
  | 'outputs_signed'
  | 'keyset_inactive'
  | 'unbalanced'
  | 'other';

/** Nutshell's code for almost any invalid transaction; only the text shows which. */
const TRANSACTION_ERROR = 11000;

/**
 * Codes and texts that must both match (error_codes.md of the NUTs; texts of Nutshell 0.20.2 and cdk-mintd
 * 0.18). Codes alone are ambiguous: 11000 is a catch-all, Nutshell has a second meaning for 11003 ("secret
 * too long"), older mints have others for 11002 and 11003, and older cdk mints send 10001 for any failure.
 */
const KNOWN: readonly { reason: SwapRefusal; codes: readonly number[]; text: RegExp }[] = [
  { reason: 'spent', codes: [11001], text: /spent/i },
  { reason: 'pending', codes: [11002], text: /pending/i },
  {
    reason: 'invalid',
    codes: [10001],
    text: /proofs? (could not be verified|verification failed)|no secret in proofs|token not verified/i,
  },
  { reason: 'outputs_signed', codes: [11003], text: /already( been)? signed/i },
  {
    reason: 'keyset_inactive',
    codes: [12002, TRANSACTION_ERROR],
    text: /keyset.*(inactive|not active)|(inactive|no active) keyset/i,
  },
  {
    reason: 'unbalanced',
    codes: [11005, TRANSACTION_ERROR],
    text: /not balanced|less than output amounts|inputs should equal outputs/i,
  },
];

export function swapRefusal(answer: ErrorAnswer): SwapRefusal {
  const code = mintErrorCode(answer);
  const detail = mintErrorDetail(answer);
  const known = KNOWN.find(
    ({ codes, text }) => code !== null && codes.includes(code) && text.test(detail),
  );
  return known?.reason ?? 'other';
}
