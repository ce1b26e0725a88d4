import { expect, it } from 'vitest';
import { RequestError } from '../../../src/errors.ts';
import { type ErrorFormat, getErrorFormat, renderError } from '../../../src/http/errors.ts';

// test/acceptance/error-responses.test.ts covers the responses that clients receive.

it.each<[string, ErrorFormat]>([
  ['/', 'api'],
  ['/.well-known/lnurlp/alice', 'lnurl'],
  ['//.well-known//lnurlp/alice?amount=1', 'lnurl'],
  ['/.well-known/nostr.json?name=alice', 'nip05'],
  ['/lnurl/verify/abc', 'verify'],
  ['/.well-kno%77n/lnurlp/alice', 'lnurl'],
  ['/.well-known%2flnurlp/alice', 'api'],
  ['/api/v2/info?next=/.well-known/lnurlp/alice', 'api'],
])('maps the URL %s to the error format %s', (url, format) => {
  expect(getErrorFormat(url)).toBe(format);
});

it('redacts secrets in the message of a RequestError', () => {
  const error = new RequestError('invalid', `The mint says: ${'cashuB'.repeat(9)} is spent.`);
  const message = 'The mint says: [redacted] is spent.';
  expect(renderError(error, 'api')).toMatchObject({
    message,
    body: { error: true, code: 'invalid', message },
  });
});

it.each([
  ['FST_ERR_MAX_PARAM_LENGTH', 414, 400, 'A part of the path is too long.'],
  ['FST_ERR_UNKNOWN', 418, 418, 'The request is not valid.'],
  ['FST_ERR_SOMETHING', 503, 500, expect.stringMatching(/^The server could not complete/)],
])(
  'renders the framework error %s of status %i with status %i',
  (code, frameworkStatus, status, message) => {
    const rendered = renderError(frameworkError(frameworkStatus, code), 'api');
    expect(rendered).toMatchObject({ status, body: { message } });
  },
);

function frameworkError(statusCode: number, code: string): Error {
  return Object.assign(new Error('internal'), { statusCode, code });
}
