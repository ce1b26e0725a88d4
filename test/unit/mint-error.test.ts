import { describe, expect, it } from 'vitest';
import { isUnknownQuoteError, parseErrorDetail } from '../../src/mints/mint-error.ts';

describe('mint error details', () => {
  it.each([
    ['a detail', { detail: 'Unit unsupported', code: 11013 }, 'Unit unsupported'],
    [
      'a list of validation errors',
      {
        detail: [{ type: 'missing', loc: ['body', 'amount'], msg: 'Field required' }, { msg: 'b' }],
      },
      'Field required; b',
    ],
    ['line breaks and control characters', { detail: 'a\u0000\u001b[31m\nb\u202e c' }, 'a[31m b c'],
    ['a long detail', { detail: 'x'.repeat(5_000) }, 'x'.repeat(200)],
    ['no detail', { error: 'x' }, ''],
    ['an endless detail', { detail: 'x'.repeat(70_000) }, ''],
    ['a list without an end', { detail: Array.from({ length: 101 }, () => ({ msg: 'x' })) }, ''],
    ['a detail of another type', { detail: 7 }, ''],
  ])('are read from %s', (_what, body, expected) => {
    expect(parseErrorDetail(answer('application/json', JSON.stringify(body)))).toBe(expected);
  });

  it('are read from plain text but not from HTML', () => {
    expect(parseErrorDetail(answer('text/plain; charset=utf-8', 'Failed to parse'))).toBe(
      'Failed to parse',
    );
    expect(parseErrorDetail(answer('text/html', '<html>Bad gateway</html>'))).toBe('');
  });

  it.each([
    ['quote not found', true],
    ['Unknown quote', true],
    ['Quote abc not found', true],
    ['Not Found', false],
    ['backend error', false],
    ['', false],
  ])('with the text %j mean an unknown quote: %s', (detail, expected) => {
    expect(isUnknownQuoteError(detail)).toBe(expected);
  });
});

function answer(contentType: string, text: string) {
  return { headers: new Map([['content-type', contentType]]), text };
}
