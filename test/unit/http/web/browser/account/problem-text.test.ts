import { describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../../../../../src/errors.ts';
import { ApiError } from '../../../../../../src/http/web/browser/account/api-client.ts';
import {
  describePaymentProblem,
  findTokenProblem,
} from '../../../../../../src/http/web/browser/account/problem-text.ts';

/** The error of `fetch`. */
const NO_RESPONSE = new TypeError('Failed to fetch');

/** @param code null if a proxy responded */
function refusal(status: number, code: ErrorCode | null, message: string) {
  return new ApiError(status, code, message, new Headers());
}

describe('describePaymentProblem', () => {
  it.each<[string, Error, RegExp]>([
    ['a lost response', NO_RESPONSE, /Press “Buy” again with the same token: it is not spent/],
    [
      'a broken mint',
      refusal(500, 'unavailable', 'The mint fails.'),
      /^The mint fails\. .*with the same token.*not spent twice/,
    ],
    [
      'a spent token',
      refusal(402, 'payment_required', 'It is spent.'),
      /^It is spent\. The name was not bought\. Paste another token/,
    ],
    [
      'another token for the same purchase',
      refusal(409, 'token_not_used', 'It was not used.'),
      /^It was not used\. Take it back into your wallet\. Then paste the first token again/,
    ],
    ['a long token', refusal(431, null, 'Too large.'), /^The token is too long/],
    [
      'a taken name',
      refusal(409, 'name_taken', 'It is taken.'),
      /^It is taken\. Choose another name\. Your token is still in the field/,
    ],
  ])('explains %s', (_case, error, text) => {
    expect(describePaymentProblem(error)).toMatch(text);
  });
});

describe('findTokenProblem', () => {
  it('accepts a token', () => {
    expect(findTokenProblem('cashuBo2F0gaJhaUgA_9SLj17PgGFwgaNhYQFhc3hA')).toBeNull();
  });

  it.each([
    ['nothing', '', /^Paste a token first/],
    ['text that no header can contain', 'cashuB🥜', /^This is not a Cashu token/],
    ['a payment request', 'creqApGFp', /^This is a payment request/],
    ['a token that the server refuses', 'a'.repeat(16 * 1024 + 1), /^The token is too long/],
  ])('refuses %s', (_case, token, text) => {
    expect(findTokenProblem(token)).toMatch(text);
  });
});
