import { html } from 'htm/preact';
import type { ComponentChildren } from 'preact';
import { RequestError } from '../../errors.ts';
import { validateComment } from '../../quotes/lnurl-pay.ts';
import { Sats } from './elements.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';

/** What a payer enters, or what a payment link contains. */
export interface PaymentInput {
  amount: string;
  comment: string;
}

export interface SatRange {
  minSat: number;
  maxSat: number;
}

export interface FormProblem {
  /** Null if no field is wrong, but the service cannot create an invoice. */
  field: 'amount' | 'comment' | null;
  text: ComponentChildren;
}

export interface Payment {
  amountSat: number;
  comment: string | null;
}

export function validatePayment(
  input: PaymentInput,
  range: SatRange,
  maxCommentLength: number,
): Payment | FormProblem {
  const amount = validateAmount(input.amount, range);
  if (typeof amount !== 'number') {
    return { field: 'amount', text: amount };
  }
  const comment = normalizeLineBreaks(input.comment);
  if (containsSecretKey(comment)) {
    return { field: 'comment', text: SECRET_KEY_WARNING };
  }
  try {
    return { amountSat: amount, comment: validateComment(comment, maxCommentLength) };
  } catch (error) {
    if (error instanceof RequestError) {
      return { field: 'comment', text: error.message };
    }
    throw error;
  }
}

/** Validates a payment link, which may contain only a comment, or nothing. */
export function findLinkProblem(
  input: PaymentInput,
  range: SatRange,
  maxCommentLength: number,
): FormProblem | null {
  const amount = input.amount || `${range.minSat}`;
  const result = validatePayment({ ...input, amount }, range, maxCommentLength);
  return 'text' in result ? result : null;
}

/** Browsers send a line break of a text area as CRLF, and count it as one character. */
function normalizeLineBreaks(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}

/** Returns the amount in sats, or what is wrong with it. */
function validateAmount(text: string, { minSat, maxSat }: SatRange): number | ComponentChildren {
  if (containsSecretKey(text)) {
    return SECRET_KEY_WARNING;
  }
  const amount = parseAmount(text);
  if (typeof amount !== 'number') {
    return amount.problem;
  }
  if (amount < minSat) {
    return html`The amount must be at least <${Sats} amount=${minSat} />.`;
  }
  return amount > maxSat ? html`The amount must be at most <${Sats} amount=${maxSat} />.` : amount;
}

/** Digits in groups, such as `2.100`, `2,100`, `2’100`, `2 100` with any space, or `1,00,000` (India). */
const GROUPED_DIGITS = /^[1-9]\d{0,2}(?<separator>[\s.,'’])(?:\d{2,3}\k<separator>)*\d{3}$/;

/** Parses a whole number with or without separators between groups of digits. */
export function parseAmount(text: string): number | { problem: string } {
  const trimmed = text.trim();
  if (/^\d+$/.test(trimmed) || GROUPED_DIGITS.test(trimmed)) {
    return Number(trimmed.replace(/\D/g, ''));
  }
  if (trimmed === '') {
    return { problem: 'Enter an amount.' };
  }
  if (/^[-−]/.test(trimmed)) {
    return { problem: 'The amount must not be negative.' };
  }
  return /^[\d\s.,'’]+$/.test(trimmed)
    ? { problem: 'Enter a whole number of sats, without decimal places.' }
    : { problem: 'Enter the amount in digits only, without letters or signs.' };
}
