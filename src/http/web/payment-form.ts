import { validateComment } from '../../quotes/lnurl-pay.ts';
import { type FiatRate, type SatRange, validateAmount } from './amount.ts';
import { containsSecretKey } from './secret-key.ts';
import type { Message } from './translation.ts';

/** What a payer enters, or what a payment link contains. */
export interface PaymentInput {
  amount: string;
  /** `sats` or a currency; empty if the form offers no choice. */
  unit: string;
  comment: string;
}

export interface FormProblem {
  /** Null if no field is wrong, but the service cannot create an invoice. */
  field: 'amount' | 'comment' | null;
  message: Message;
}

export interface Payment {
  amountSat: number;
  comment: string | null;
}

/** Returns the payment, or what is wrong with each field. */
export function validatePayment(
  input: PaymentInput,
  range: SatRange,
  maxCommentLength: number,
  rates: readonly FiatRate[] = [],
): Payment | FormProblem[] {
  const amountSat = validateAmount(input.amount, range, input.unit, rates);
  const comment = normalizeLineBreaks(input.comment);
  const commentProblem = findCommentProblem(comment, maxCommentLength);
  if (typeof amountSat === 'number' && commentProblem === null) {
    return { amountSat, comment: validateComment(comment, maxCommentLength) };
  }
  return [
    ...(typeof amountSat === 'number' ? [] : [{ field: 'amount', message: amountSat } as const]),
    ...(commentProblem === null ? [] : [{ field: 'comment', message: commentProblem } as const]),
  ];
}

/**
 * Validates a payment link, which may contain only a comment, or nothing.
 *
 * @param range null if unknown
 */
export function findLinkProblems(
  input: PaymentInput,
  range: SatRange | null,
  maxCommentLength: number,
  rates: readonly FiatRate[] = [],
): FormProblem[] {
  const knownRange = range ?? { minSat: 0, maxSat: Number.POSITIVE_INFINITY };
  const result = validatePayment(input, knownRange, maxCommentLength, rates);
  return Array.isArray(result) ? result.filter(({ field }) => field && input[field] !== '') : [];
}

function findCommentProblem(comment: string, maxLength: number): Message | null {
  if (containsSecretKey(comment)) {
    return { key: 'script.common.secretKey' };
  }
  const isTooLong = maxLength > 0 && [...comment].length > maxLength;
  return isTooLong ? { key: 'pay.commentTooLong', values: { count: maxLength } } : null;
}

/** Browsers send a line break of a text area as CRLF, and count it as one character. */
function normalizeLineBreaks(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}
