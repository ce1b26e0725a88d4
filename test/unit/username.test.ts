import { expect, it } from 'vitest';
import {
  BUILT_IN_RESERVED_NAMES,
  isReservedUsername,
} from '../../src/domain/reserved-usernames.ts';
import { parseUsername } from '../../src/domain/username.ts';

it.each([
  ['bob', 'bob'],
  ['Alice7', 'alice7'],
  ['007', '007'],
  ['npub', 'npub'],
  ['npub2', 'npub2'],
  ['nsec1', 'nsec1'],
  ['x'.repeat(64), 'x'.repeat(64)],
])('parseUsername(%j) is %s', (text, name) => {
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
])('%j is not a username', (text) => {
  expect(parseUsername(text)).toBeNull();
});

it.each([
  ...['admin', 'support', 'postmaster', 'hostmaster', 'webmaster', 'root', 'abuse', 'security'],
  ...['billing', 'noreply', 'www', 'treasury', 'wallet', 'zap', 'acme', 'acmeceo'],
])('%s is reserved', (name) => {
  expect(isReservedUsername(name, ['acme', 'acmeceo'])).toBe(true);
});

it.each(['alice', 'adminton', 'supporter', '007', 'constructor', 'tostring', 'acmecto'])(
  '%s is not reserved',
  (name) => {
    expect(isReservedUsername(name, ['acme', 'acmeceo'])).toBe(false);
  },
);

it('the built-in reserved names are distinct usernames', () => {
  expect(BUILT_IN_RESERVED_NAMES.map(parseUsername)).toEqual(BUILT_IN_RESERVED_NAMES);
  expect(new Set(BUILT_IN_RESERVED_NAMES).size).toBe(BUILT_IN_RESERVED_NAMES.length);
});
