import { expect, it } from 'vitest';
import {
  BUILT_IN_RESERVED_USERNAMES,
  parseUsername,
} from '../../../src/recipients/lightning-address.ts';

// test/acceptance/username-purchase.test.ts checks that reserved names cannot be bought.
it('BUILT_IN_RESERVED_USERNAMES contains only valid usernames, each once', () => {
  expect(BUILT_IN_RESERVED_USERNAMES.map(parseUsername)).toEqual(BUILT_IN_RESERVED_USERNAMES);
  expect(new Set(BUILT_IN_RESERVED_USERNAMES).size).toBe(BUILT_IN_RESERVED_USERNAMES.length);
});
