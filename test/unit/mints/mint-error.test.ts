import { describe, expect, it } from 'vitest';
import { parseErrorDetail } from '../../../src/mints/mint-client.ts';

describe('parseErrorDetail', () => {
  it.each([
    ['the detail', { detail: 'Unit unsupported', code: 11013 }, 'Unit unsupported'],
    [
      'the messages of a list of validation errors',
      {
        detail: [{ type: 'missing', loc: ['body', 'amount'], msg: 'Field required' }, { msg: 'b' }],
      },
      'Field required; b',
    ],
    [
      'a detail without its line breaks and control characters',
      { detail: 'a\u0000\u001b[31m\nb\u202e c' },
      'a[31m b c',
    ],
    ['the first 200 characters of a long detail', { detail: 'x'.repeat(5_000) }, 'x'.repeat(200)],
    [
      'no text from a list of 101 errors',
      { detail: Array.from({ length: 101 }, () => ({ msg: 'x' })) },
      '',
    ],
  ])('returns %s', (_case, body, expected) => {
    expect(parseErrorDetail(response('application/json', body, ''))).toBe(expected);
  });

  it('returns plain text but not HTML', () => {
    expect(
      parseErrorDetail(response('text/plain; charset=utf-8', undefined, 'Failed to parse')),
    ).toBe('Failed to parse');
    expect(parseErrorDetail(response('text/html', undefined, '<html>Bad gateway</html>'))).toBe('');
  });
});

function response(contentType: string, json: unknown, text: string) {
  return { headers: new Map([['content-type', contentType]]), json, text };
}
