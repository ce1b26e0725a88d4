import fc from 'fast-check';
import { expect, it } from 'vitest';
import { normaliseMintUrl } from '../../../src/net/server-url.ts';

const MAX_URL_BYTES = 512;
const HTTPS_ONLY = { allowHttp: false };
const HTTP_ALLOWED = { allowHttp: true };

it.each([
  ['https://mint.example', 'https://mint.example'],
  ['https://mint.example/', 'https://mint.example'],
  ['HTTPS://Mint.EXAMPLE', 'https://mint.example'],
  ['https://mint.example/Bitcoin/', 'https://mint.example/Bitcoin'],
  ['https://mint.example//a///b', 'https://mint.example/a/b'],
  ['https://mint.example/a/../b', 'https://mint.example/b'],
  ['https://müller.example/ü', 'https://xn--mller-kva.example/%C3%BC'],
  [' https://mint.example\n', 'https://mint.example'],
  ['https://mint.example.', 'https://mint.example'],
  ['https://mint.example/%2e%2e/a', 'https://mint.example/a'],
  ['https://ｍｉｎｔ.example', 'https://mint.example'],
  ['https://mіnt.example', 'https://xn--mnt-jhd.example'],
  ['https://0x5d.184.55522', 'https://93.184.216.226'],
  ['https://[2001:DB8::0:1]:3338/', 'https://[2001:db8::1]:3338'],
])('normalises %j to %s', (text, expected) => {
  expect(normaliseMintUrl(text, HTTPS_ONLY)).toBe(expected);
});

it.each<[string, string]>([
  ['http://127.0.0.1:80/', 'http://127.0.0.1'],
  ['http://127.0.0.1:3338/', 'http://127.0.0.1:3338'],
  ...[0, 1, 22, 25, 80, 442, 444, 1023].map((port): [string, string] => {
    const url = `https://mint.example:${port}`;
    return [url, url];
  }),
])('accepts %s only if http is allowed', (text, expected) => {
  expect(normaliseMintUrl(text, HTTPS_ONLY)).toBeNull();
  expect(normaliseMintUrl(text, HTTP_ALLOWED)).toBe(expected);
});

it.each([
  '',
  'mint.example',
  '//mint.example',
  'https://',
  'ftp://mint.example',
  'https://user:password@mint.example',
  'https://@mint.example',
  'https:user@mint.example',
  'https://mint.example\\@other.example',
  'https://mint.example\\path',
  'https://mint.exa\tmple',
  'https://mint.example/a b',
  'https://mint.example/a\u0000b',
  'https://mint.example..',
  'https://mint.example:65536',
  'https://[fe80::1%25eth0]',
  'https://256.256.256.256',
  'https://mint.example%00',
  'https://mint.example/a%2fb',
  'https://mint.example/a%5Cb',
  'https://mint.example?x=1',
  'https://mint.example#',
  `https://mint.example/${'x'.repeat(MAX_URL_BYTES)}`,
])('rejects %j', (text) => {
  expect(normaliseMintUrl(text, HTTP_ALLOWED)).toBeNull();
});

it('returns URLs of at most 512 bytes', () => {
  const anyPath = fc.string({ unit: fc.constantFrom('a', 'ü', '€', '😀', '/'), maxLength: 520 });
  fc.assert(
    fc.property(anyPath, (path) => {
      const url = normaliseMintUrl(`https://mint.example/${path}`, HTTPS_ONLY);
      expect(url?.length ?? 0).toBeLessThanOrEqual(MAX_URL_BYTES);
    }),
  );
  // 512 bytes: 21 for the origin, 54 * 9 for the percent-encoded euro signs, and 5.
  const longestUrl = `https://mint.example/${'€'.repeat(54)}aaaaa`;
  expect(normaliseMintUrl(longestUrl, HTTPS_ONLY)).toHaveLength(MAX_URL_BYTES);
  expect(normaliseMintUrl(`${longestUrl}a`, HTTPS_ONLY)).toBeNull();
});

it('leaves a normalised URL unchanged', () => {
  const part = fc.constantFrom('a', 'B', 'ü', '%41', '%2d', '%c3%bc', '.', '..', '/', '//');
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const url = `https://Mint.example./${parts.join('')}`;
      const normalised = normaliseMintUrl(url, HTTP_ALLOWED) ?? '';
      expect(normalised).toMatch(/[^/]$/);
      expect(normaliseMintUrl(normalised, HTTP_ALLOWED)).toBe(normalised);
    }),
  );
});
