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

/** Returns the payment, or what is wrong with each field. */
export function validatePayment(
  input: PaymentInput,
  range: SatRange,
  maxCommentLength: number,
  rates: readonly FiatRate[] = [],
): Payment | FormProblem[] {
  const amountSat = validateAmount(input.amount, range, input.unit, rates);
  const comment = parseComment(normalizeLineBreaks(input.comment), maxCommentLength);
  if (typeof amountSat === 'number' && 'text' in comment) {
    return { amountSat, comment: comment.text };
  }
  return [
    ...(typeof amountSat === 'number' ? [] : [{ field: 'amount', message: amountSat } as const]),
    ...('text' in comment ? [] : [{ field: 'comment', message: comment.problem } as const]),
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

function parseComment(
  comment: string,
  maxLength: number,
): { text: string | null } | { problem: Message } {
  if (containsSecretKey(comment)) {
    return { problem: { key: 'script.common.secretKey' } };
  }
  try {
    return { text: validateComment(comment, maxLength) };
  } catch (error) {
    if (!(error instanceof RequestError)) {
      throw error;
    }
    const isTooLong = [...comment].length > maxLength;
    return {
      problem: isTooLong
        ? { key: 'pay.commentTooLong', values: { count: maxLength } }
        : { key: 'pay.commentInvalid' },
    };
  }
}

/** Browsers send a line break of a text area as CRLF, and count it as one character. */
function normalizeLineBreaks(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}
