import '../../../../../helpers/web/english-page.ts';
import { expect, it } from 'vitest';
import { ApiError } from '../../../../../../src/http/web/browser/account/api-client.ts';
import {
  describePaymentProblem,
  findTokenProblem,
} from '../../../../../../src/http/web/browser/account/problem-text.ts';

const NO_RESPONSE = new TypeError('Failed to fetch');
const BROKEN_MINT = new ApiError(500, 'unavailable', 'The mint fails.', new Headers());

// test/web/account-username.test.ts covers the other problems.
it.each<[string, Error, RegExp]>([
  ['a lost response', NO_RESPONSE, /Press “Buy” again with the same token: it is not spent/],
  ['a broken mint', BROKEN_MINT, /^The mint fails\. .*with the same token.*not spent twice/],
])('describePaymentProblem explains %s', (_case, error, text) => {
  expect(describePaymentProblem(error)).toMatch(text);
});

it.each([
  ['nothing', '', /^Paste a token first/],
  ['text that no header can contain', 'cashuB🥜', /^This is not a Cashu token/],
  ['a payment request', 'creqApGFp', /^This is a payment request/],
  ['a token that the server refuses', 'a'.repeat(16 * 1024 + 1), /^The token is too long/],
])('findTokenProblem refuses %s', (_case, token, text) => {
  expect(findTokenProblem(token)).toMatch(text);
});
