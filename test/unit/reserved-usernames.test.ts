import { expect, it } from 'vitest';
import {
  BUILT_IN_RESERVED_NAMES,
  isReservedUsername,
} from '../../src/domain/reserved-usernames.ts';
import { parseUsername } from '../../src/domain/username.ts';

it.each([
  'admin',
  'support',
  'postmaster',
  'hostmaster',
  'webmaster',
  'root',
  'abuse',
  'security',
  'billing',
  'noreply',
  'www',
  'treasury',
  'wallet',
  'zap',
])('%s is nobody’s to buy, without any setting', (name) => {
  expect(isReservedUsername(name, [])).toBe(true);
});

it.each(['alice', 'bob', 'adminton', 'supporter', '007', 'constructor', 'tostring'])(
  '%s can be bought',
  (name) => {
    expect(isReservedUsername(name, [])).toBe(false);
  },
);

it('the operator’s own are reserved beside the built-in ones', () => {
  const operatorNames = ['acme', 'acmeceo'];
  expect(isReservedUsername('acme', operatorNames)).toBe(true);
  expect(isReservedUsername('acmeceo', operatorNames)).toBe(true);
  expect(isReservedUsername('acmecto', operatorNames)).toBe(false);
  expect(isReservedUsername('admin', operatorNames)).toBe(true);
});

it('each built-in name is one that somebody could ask for, and stands there once', () => {
  expect(BUILT_IN_RESERVED_NAMES.map(parseUsername)).toEqual(BUILT_IN_RESERVED_NAMES);
  expect(new Set(BUILT_IN_RESERVED_NAMES).size).toBe(BUILT_IN_RESERVED_NAMES.length);
});
