import { expect, it } from 'vitest';
import { parseUsername } from '../../src/recipients/address.ts';
import { BUILT_IN_RESERVED_NAMES } from '../../src/usernames/reserved-usernames.ts';

// test/acceptance/username.test.ts covers names that nobody can buy.
it('the built-in reserved names are distinct usernames', () => {
  expect(BUILT_IN_RESERVED_NAMES.map(parseUsername)).toEqual(BUILT_IN_RESERVED_NAMES);
  expect(new Set(BUILT_IN_RESERVED_NAMES).size).toBe(BUILT_IN_RESERVED_NAMES.length);
});
