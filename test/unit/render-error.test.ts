import { expect, it } from 'vitest';
import { Refusal, type RefusalNature } from '../../src/errors.ts';
import { type Dialect, dialectOf, renderError } from '../../src/http/errors.ts';

// test/acceptance/errors.test.ts covers what clients see.

it.each<[string, Dialect]>([
  ['/', 'api'],
  ['/.well-known/lnurlp/alice', 'lnurl'],
  ['//.well-known//lnurlp/alice?amount=1', 'lnurl'],
  ['/.well-known/nostr.json?name=alice', 'nip05'],
  ['/lnurl/verify/abc', 'verify'],
  ['/.well-kno%77n/lnurlp/alice', 'lnurl'],
  ['/lnurl/v%65rify/abc', 'verify'],
  ['/.well-known%2flnurlp/alice', 'api'],
  ['/api/v2/info?next=/.well-known/lnurlp/alice', 'api'],
  ['/api/v2/info#/lnurl/verify/', 'api'],
])('the dialect of %s is %s', (url, dialect) => {
  expect(dialectOf(url)).toBe(dialect);
});

it.each<[RefusalNature, Dialect, number]>([
  ['invalid', 'api', 400],
  ['invalid', 'lnurl', 200],
  ['invalid', 'verify', 200],
  ['invalid', 'nip05', 400],
  ['unauthorized', 'api', 401],
  ['not_found', 'api', 404],
  ['not_found', 'lnurl', 404],
  ['not_found', 'verify', 404],
  ['not_found', 'nip05', 404],
  ['unavailable', 'api', 500],
  ['unavailable', 'lnurl', 500],
  ['unavailable', 'verify', 500],
  ['unavailable', 'nip05', 200],
])('the refusal %s has in the dialect %s the status %i', (nature, dialect, status) => {
  const rendered = renderError(new Refusal(nature, 'Because.'), dialect);
  expect(rendered).toMatchObject({ status, errorId: null });
});

it('secrets in the message of a refusal are redacted', () => {
  const refusal = new Refusal('invalid', `The mint says: ${'cashuB'.repeat(9)} is spent.`);
  const message = 'The mint says: [redacted] is spent.';
  expect(renderError(refusal, 'api')).toMatchObject({ message, body: { error: true, message } });
});

it.each([
  ['FST_ERR_MAX_PARAM_LENGTH', 414, 400, 'A part of the path is too long.'],
  ['FST_ERR_UNKNOWN', 418, 418, 'The request is not valid.'],
  ['FST_ERR_SOMETHING', 503, 500, expect.stringMatching(/^The server could not complete/)],
])('the framework error %s with status %i is rendered as %i', (code, given, status, message) => {
  const rendered = renderError(frameworkError(given, code), 'api');
  expect(rendered).toMatchObject({ status, body: { message } });
});

function frameworkError(statusCode: number, code: string): Error {
  return Object.assign(new Error('internal'), { statusCode, code });
}
