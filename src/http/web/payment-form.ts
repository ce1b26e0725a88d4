import { RequestError } from '../../errors.ts';
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

export function validatePayment(
  input: PaymentInput,
  range: SatRange,
  maxCommentLength: number,
  rates: readonly FiatRate[] = [],
): Payment | FormProblem {
  const amount = validateAmount(input.amount, range, input.unit, rates);
  if (typeof amount !== 'number') {
    return { field: 'amount', message: amount };
  }
  const comment = normalizeLineBreaks(input.comment);
  if (containsSecretKey(comment)) {
    return { field: 'comment', message: { key: 'script.common.secretKey' } };
  }
  try {
    return { amountSat: amount, comment: validateComment(comment, maxCommentLength) };
  } catch (error) {
    if (!(error instanceof RequestError)) {
      throw error;
    }
    const isTooLong = [...comment].length > maxCommentLength;
    const message: Message = isTooLong
      ? { key: 'pay.commentTooLong', values: { count: maxCommentLength } }
      : { key: 'pay.commentInvalid' };
    return { field: 'comment', message };
  }
}

/** Validates a payment link, which may contain only a comment, or nothing. */
export function findLinkProblem(
  input: PaymentInput,
  range: SatRange,
  maxCommentLength: number,
  rates: readonly FiatRate[] = [],
): FormProblem | null {
  const validInput = input.amount ? input : { ...input, amount: `${range.minSat}`, unit: '' };
  const result = validatePayment(validInput, range, maxCommentLength, rates);
  return 'message' in result ? result : null;
}

/** Browsers send a line break of a text area as CRLF, and count it as one character. */
function normalizeLineBreaks(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}
