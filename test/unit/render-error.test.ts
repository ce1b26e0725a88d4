import { describe, expect, it } from 'vitest';
import { Refusal, type RefusalNature } from '../../src/domain/errors.ts';
import { type Dialect, dialectOf, renderError } from '../../src/http/render-error.ts';

describe('the dialect of a path', () => {
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
  ])('%s: %s', (url, dialect) => {
    expect(dialectOf(url)).toBe(dialect);
  });
});

describe('a refusal', () => {
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
  ])('that is %s has in %s the status %i', (nature, dialect, status) => {
    const rendered = renderError(new Refusal(nature, 'Because.'), dialect);
    expect(rendered).toMatchObject({ status, errorId: null });
  });

  it('does not repeat what is secret, whoever said it', () => {
    const refusal = new Refusal('invalid', `The mint says: ${'cashuB'.repeat(9)} is spent.`);
    expect(renderError(refusal, 'api')).toMatchObject({
      message: 'The mint says: [redacted] is spent.',
      body: { error: true, message: 'The mint says: [redacted] is spent.' },
    });
  });

  it.each<[Dialect, object]>([
    ['api', { error: true, message: 'Because.' }],
    ['nip05', { error: true, message: 'Because.' }],
    ['lnurl', { status: 'ERROR', reason: 'Because.' }],
    ['verify', { status: 'ERROR', reason: 'Not found' }],
  ])('in %s is %o', (dialect, body) => {
    expect(renderError(new Refusal('invalid', 'Because.'), dialect).body).toEqual(body);
  });
});

describe('anything else that is thrown', () => {
  it.each([
    ['an error', new Error('column "secret" does not exist')],
    ['an error with a status of the server', frameworkError(503, 'FST_ERR_SOMETHING')],
    ['an error with a code alone', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
    ['a text', 'oops'],
    ['nothing', undefined],
  ])('such as %s is told without its words, by an id', (_case, thrown) => {
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

  it.each<[Dialect, number, string]>([
    ['api', 500, 'message'],
    ['nip05', 200, 'message'],
    ['lnurl', 500, 'reason'],
    ['verify', 500, 'reason'],
  ])('has its id in %s too', (dialect, status, field) => {
    const { errorId, message, ...rendered } = renderError(new Error('inside'), dialect);
    expect(rendered).toMatchObject({ status, body: { [field]: message } });
    expect(message).toContain(`(id: ${errorId})`);
  });

  it('has an id of its own each time', () => {
    const ids = Array.from({ length: 50 }, () => renderError(new Error('inside'), 'api').errorId);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('the framework’s own errors', () => {
  it.each([
    ['FST_ERR_CTP_INVALID_JSON_BODY', 400, 'The body is not valid JSON.'],
    ['FST_ERR_CTP_BODY_TOO_LARGE', 413, 'The body is too large.'],
    ['FST_ERR_BAD_URL', 400, 'The path is not a valid url.'],
    ['FST_ERR_OF_TOMORROW', 418, 'The request is not valid.'],
  ])('%s keeps its status, in our words', (code, status, message) => {
    const rendered = renderError(frameworkError(status, code), 'api');
    expect(rendered).toMatchObject({ status, errorId: null, body: { message } });
  });

  it('a client that broke off in the middle of a body is not an error of ours', () => {
    const error = frameworkError(400, 'ECONNRESET');
    expect(renderError(error, 'api')).toMatchObject({ status: 400, errorId: null });
  });

  it('a path that is too long is a wrong request', () => {
    const error = frameworkError(414, 'FST_ERR_MAX_PARAM_LENGTH');
    expect(renderError(error, 'api').status).toBe(400);
    expect(renderError(error, 'verify')).toMatchObject({ status: 200 });
  });

  it('each field that failed its schema is named', () => {
    const error = Object.assign(frameworkError(400, 'FST_ERR_VALIDATION'), {
      validationContext: 'querystring',
      validation: [
        { instancePath: '/limit', message: 'must be a whole number' },
        { instancePath: '/deep/inside', message: 'is wrong' },
        { instancePath: '', message: 'must be an object' },
      ],
    });
    expect(renderError(error, 'api').body).toEqual({
      error: true,
      message:
        'limit: must be a whole number; deep.inside: is wrong; querystring: must be an object',
    });
  });
});

function frameworkError(statusCode: number, code: string): Error {
  return Object.assign(new Error('in its own words'), { statusCode, code });
}
