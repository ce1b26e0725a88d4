import '../../../../../helpers/web/english-page.ts';
import { expect, it } from 'vitest';
import { ApiError } from '../../../../../../src/http/web/browser/account/api-client.ts';
import {
  describeProblem,
  parseToken,
} from '../../../../../../src/http/web/browser/account/problem-text.ts';

const PURCHASE = new ApiError(503, 'purchase_in_progress', 'For programs.', new Headers());
const LIMITED = new ApiError(
  429,
  'rate_limited',
  'For programs.',
  new Headers({ 'retry-after': '7' }),
);

it.each([
  [
    'a taken name',
    new ApiError(409, 'name_taken', 'For programs.', new Headers()),
    'This name is taken. If you gave it up a short time ago, you can still take it back free of charge.',
  ],
  [
    'a purchase in progress',
    PURCHASE,
    'A purchase of this name is in progress. Try again in a minute.',
  ],
  ['a rate limit', LIMITED, 'There have been too many requests. Try again in 7 seconds.'],
  [
    'an error of the browser',
    new DOMException('For programmers.', 'QuotaExceededError'),
    'The page has a problem: “For programmers.”. Reload it, and try again.',
  ],
])('describeProblem explains %s', (_case, error, text) => {
  expect(describeProblem(error)).toBe(text);
});

it('parseToken removes line breaks', () => {
  expect(parseToken(' cashuBo2F\r\n  0gaJh ')).toBe('cashuBo2F0gaJh');
  expect(parseToken('cashu:cashuAeyJ')).toBe('cashu:cashuAeyJ');
});

it.each([
  ['nothing', '', /^This is not a Cashu token/],
  ['text that no header can contain', 'cashuB🥜', /^This is not a Cashu token/],
  ['a payment request', 'creqApGFp', /Your wallet creates it when it pays the request/],
  ['a token that the server refuses', `cashuB${'a'.repeat(16 * 1024)}`, /^The token is too long/],
])('parseToken refuses %s', (_case, text, problem) => {
  expect(() => parseToken(text)).toThrow(problem);
});
