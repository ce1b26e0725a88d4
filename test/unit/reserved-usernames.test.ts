import { expect, it } from 'vitest';
import { parseUsername } from '../../src/recipients/lightning-address.ts';
import { BUILT_IN_RESERVED_USERNAMES } from '../../src/usernames/username-claim.ts';

// test/acceptance/username-purchase.test.ts covers names that cannot be bought.
it('lists distinct valid usernames', () => {
  expect(BUILT_IN_RESERVED_USERNAMES.map(parseUsername)).toEqual(BUILT_IN_RESERVED_USERNAMES);
  expect(new Set(BUILT_IN_RESERVED_USERNAMES).size).toBe(BUILT_IN_RESERVED_USERNAMES.length);
});
