import { expect, it } from 'vitest';
import { parseUsername } from '../../src/domain/username.ts';

it.each([
  ['bob', 'bob'],
  ['Alice7', 'alice7'],
  ['007', '007'],
  ['npub', 'npub'],
  ['npub2', 'npub2'],
  ['nsec1', 'nsec1'],
  ['x'.repeat(64), 'x'.repeat(64)],
])('%s is a username, in lower case', (text, name) => {
  expect(parseUsername(text)).toBe(name);
});

it.each([
  '',
  'ab',
  'x'.repeat(65),
  'npub1',
  'NPUB1abc',
  `nsec1${'q'.repeat(58)}`,
  'al.ice',
  'al_ice',
  'al-ice',
  'al ice',
  'alice\n',
  'älice',
  'ａlice',
  '\u212a\u212a\u212a',
  '🥜🥜🥜',
])('%j is nobody’s name', (text) => {
  expect(parseUsername(text)).toBeNull();
});
