import { expect, it } from 'vitest';
import { Refusal, type RefusalNature } from '../../src/domain/errors.ts';
import { type Dialect, dialectOf, renderError } from '../../src/http/errors.ts';

it.each<[string, Dialect]>([
  ['/', 'api'],
  ['/api/v2/info', 'api'],
  ['/nowhere', 'api'],
  ['/.well-known/keysend/alice', 'api'],
  ['/.well-known/lnurlp/alice', 'lnurl'],
  ['/.well-known/lnurlp', 'lnurl'],
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

it.each<[Dialect, object]>([
  ['api', { error: true, message: 'Because.' }],
  ['nip05', { error: true, message: 'Because.' }],
  ['lnurl', { status: 'ERROR', reason: 'Because.' }],
  ['verify', { status: 'ERROR', reason: 'Not found' }],
])('a refusal has in the dialect %s the body %o', (dialect, body) => {
  expect(renderError(new Refusal('invalid', 'Because.'), dialect).body).toEqual(body);
});

it('secrets in the message of a refusal are redacted', () => {
  const refusal = new Refusal('invalid', `The mint says: ${'cashuB'.repeat(9)} is spent.`);
  const message = 'The mint says: [redacted] is spent.';
  expect(renderError(refusal, 'api')).toMatchObject({ message, body: { error: true, message } });
});

// test/acceptance/error-ids.test.ts covers internal errors in each dialect.
it.each([
  ['an error', new Error('column "secret" does not exist')],
  ['an error with a server status', frameworkError(503, 'FST_ERR_SOMETHING')],
  ['an error with a code', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
  ['a string', 'oops'],
  ['undefined', undefined],
])('%s is rendered as an id, without its message', (_case, thrown) => {
  const rendered = renderError(thrown, 'api');
  const message = `The server could not complete the request. (id: ${rendered.errorId})`;
  expect(rendered).toEqual({
    status: 500,
    message,
    body: { error: true, message },
    errorId: expect.stringMatching(/^[0-9a-f]{8}$/),
    retryAfterSeconds: null,
  });
});

it.each([
  ['FST_ERR_CTP_INVALID_JSON_BODY', 400, 400, 'The body is not valid JSON.'],
  ['FST_ERR_CTP_BODY_TOO_LARGE', 413, 413, 'The body is too large.'],
  ['FST_ERR_BAD_URL', 400, 400, 'The path is not a valid url.'],
  ['FST_ERR_MAX_PARAM_LENGTH', 414, 400, expect.any(String)],
  ['FST_ERR_UNKNOWN', 418, 418, 'The request is not valid.'],
  ['ECONNRESET', 400, 400, expect.any(String)],
])('the framework error %s with status %i is rendered as %i', (code, given, status, message) => {
  const rendered = renderError(frameworkError(given, code), 'api');
  expect(rendered).toMatchObject({ status, errorId: null, body: { message } });
});

it('each field that failed validation is named', () => {
  const error = Object.assign(frameworkError(400, 'FST_ERR_VALIDATION'), {
    validationContext: 'querystring',
    validation: [
      { instancePath: '/limit', message: 'must be a whole number' },
      { instancePath: '/deep/inside', message: 'is wrong' },
      { instancePath: '', message: 'must be an object' },
    ],
  });
  expect(renderError(error, 'api').body).toMatchObject({
    message: 'limit: must be a whole number; deep.inside: is wrong; querystring: must be an object',
  });
});

function frameworkError(statusCode: number, code: string): Error {
  return Object.assign(new Error('internal'), { statusCode, code });
}
