import { describe, expect, it } from 'vitest';
import {
  describeMintProblem,
  describeProblem,
  describePurchaseProblem,
  type Failure,
  findTokenProblem,
} from '../../../../../../src/http/web/browser/account/problem-text.ts';

const NO_RESPONSE: Failure = { kind: 'no_response' };

function refusal(status: number, message: string) {
  return { kind: 'refused', status, message } as const;
}

describe('describeProblem', () => {
  it.each<[string, Failure, string]>([
    [
      'no response',
      NO_RESPONSE,
      'The server did not respond. Check your internet connection and try again.',
    ],
    ['a signer that refuses', { kind: 'other', message: 'User rejected.' }, 'User rejected.'],
    ['an invalid request', refusal(400, 'This is wrong.'), 'This is wrong.'],
    [
      'a rate limit of the server',
      refusal(429, 'Too many changes with this key. Try again in 7 s.'),
      'Too many changes with this key. Try again in 7 s.',
    ],
    ['a rate limit of a proxy', refusal(429, 'Too many.'), 'Too many. Try again in a minute.'],
    ['an error of the server', refusal(500, 'It broke.'), 'It broke. Try again in a minute.'],
    ['an error with its own advice', refusal(500, 'Please try again.'), 'Please try again.'],
    [
      'an expired session',
      refusal(401, 'Unauthorized.'),
      'Unauthorized. Sign out and sign in again, and check the clock of your device.',
    ],
  ])('explains %s', (_case, failure, text) => {
    expect(describeProblem(failure)).toBe(text);
  });
});

describe('describeMintProblem', () => {
  it('says what to do if the mint cannot lock quotes', () => {
    const failure = refusal(
      400,
      'Mint does not support locking. Choose a different mint or disable locking',
    );
    expect(describeMintProblem(failure)).toBe(
      'This mint cannot lock quotes. Choose another mint, or do without “Lock quotes”.',
    );
  });

  it('names the possible causes if the mint cannot be used', () => {
    const failure = refusal(400, 'Could not get mint info. Is this a valid mint url?');
    expect(describeMintProblem(failure)).toBe(
      'Could not get mint info. Is this a valid mint url? Check the address. The mint may also be unreachable at ' +
        'the moment, or it may not offer Lightning payments in sats. Nothing was changed.',
    );
  });

  it('explains other failures like other requests', () => {
    expect(describeMintProblem(NO_RESPONSE)).toBe(describeProblem(NO_RESPONSE));
  });
});

describe('describePurchaseProblem with a token', () => {
  it.each<[string, Failure, RegExp]>([
    [
      'a lost response',
      NO_RESPONSE,
      /Press “Buy” again with the same token: it is not spent twice/,
    ],
    [
      'a broken mint',
      refusal(500, 'The mint is not working properly.'),
      /^The mint is not working properly\. .*with the same token.*not spent twice/,
    ],
    [
      'a gateway error',
      refusal(502, 'The server responded with status 502.'),
      /with the same token.*not spent twice/,
    ],
    [
      'a spent token',
      refusal(402, 'The token has already been spent.'),
      /^The token has already been spent\. .*Paste another token/,
    ],
    [
      'a taken name',
      refusal(409, 'This username is already taken.'),
      /^This username is already taken\. Choose another name\. .*still in the field/,
    ],
    [
      'a reserved name',
      refusal(400, 'This username is reserved.'),
      /^This username is reserved\. Choose another name.*still in the field/,
    ],
    [
      'a purchase in progress with another token',
      refusal(409, 'Your purchase with another token is in progress; this token was not used.'),
      /Take it back into your wallet\. Then paste the first token/,
    ],
    [
      'too many purchases',
      refusal(429, 'Too many requests for usernames. Try again in 30 s.'),
      /Try again in 30 s\. Your token is still in the field/,
    ],
    ['headers that are too large', refusal(431, 'Too large.'), /token is too long/],
    [
      'a signer that refuses',
      { kind: 'other', message: 'User rejected.' },
      /^User rejected\. Your token is still in the field/,
    ],
  ])('explains %s', (_case, failure, text) => {
    expect(describePurchaseProblem(failure, true)).toMatch(text);
  });
});

describe('describePurchaseProblem without a token', () => {
  it.each<[string, Failure, string]>([
    [
      'a taken name',
      refusal(409, 'This username is already taken.'),
      'This username is already taken. Choose another name.',
    ],
    [
      'a purchase in progress',
      refusal(500, 'Your purchase of this username is in progress.'),
      'Your purchase of this username is in progress. Try again in a minute; you need no other token.',
    ],
    ['no response', NO_RESPONSE, describeProblem(NO_RESPONSE)],
  ])('explains %s', (_case, failure, text) => {
    expect(describePurchaseProblem(failure, false)).toBe(text);
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
    [
      'a token that is longer than a header',
      `cashuB${'a'.repeat(60 * 1024)}`,
      /^The token is too long/,
    ],
  ])('refuses %s', (_case, token, text) => {
    expect(findTokenProblem(token)).toMatch(text);
  });
});
