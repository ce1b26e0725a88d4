import { type MintErrorResponse, parseErrorCode, parseErrorDetail } from './mint-error.ts';

/**
 * Why a mint rejected a swap. If the response to an earlier request was lost, that request may have succeeded
 * whatever the reason is: Nutshell and cdk-mintd check sums before they check whether an input is spent or pending.
 */
export type SwapRejectionReason =
  /** An input is spent; perhaps an earlier request of this service spent it. */
  | 'spent'
  /** The mint is processing another request with one of the inputs, perhaps of this service. */
  | 'pending'
  /** The mint never signed one of the inputs. A retry cannot succeed. */
  | 'invalid'
  /** The mint has already signed the outputs, so an earlier request with them succeeded. */
  | 'outputs_signed'
  /** The mint no longer signs with the keyset of the outputs. */
  | 'keyset_inactive'
  /** The keyset of the outputs or of an input has expired. */
  | 'keyset_expired'
  /** The inputs minus the fee do not equal the outputs. */
  | 'unbalanced'
  | 'other';

/** Nutshell's code for almost any invalid transaction. Only the text shows the cause. */
const TRANSACTION_ERROR_CODE = 11000;

/**
 * Code and text must both match (error_codes.md of the NUTs; texts of Nutshell 0.20.2 and cdk-mintd 0.18). A code
 * alone is ambiguous: 11000 has many causes, Nutshell also uses 11003 for "secret too long", older mints use 11002
 * and 11003 for other errors, and older cdk mints send 10001 for any failure.
 */
const KNOWN_REJECTIONS: { reason: SwapRejectionReason; codes: number[]; text: RegExp }[] = [
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
    codes: [12002, TRANSACTION_ERROR_CODE],
    text: /keyset.*(inactive|not active)|(inactive|no active) keyset/i,
  },
  { reason: 'keyset_expired', codes: [12003], text: /keyset.*expired/i },
  {
    reason: 'unbalanced',
    codes: [11005, TRANSACTION_ERROR_CODE],
    text: /not balanced|less than output amounts|inputs should equal outputs/i,
  },
];

export function parseSwapRejection(response: MintErrorResponse): SwapRejectionReason {
  const code = parseErrorCode(response);
  const detail = parseErrorDetail(response);
  const known = KNOWN_REJECTIONS.find(
    ({ codes, text }) => code !== null && codes.includes(code) && text.test(detail),
  );
  return known?.reason ?? 'other';
}
