import { expect, it } from 'vitest';
import { parseLightningAddress } from '../../src/domain/lightning-address.ts';

/** Whom the operator pays (LUD-16). */

it.each([
  ['alice@example.com', 'alice', 'example.com'],
  [' Alice.B-2_c+tip@Example.COM:8080 ', 'alice.b-2_c+tip', 'example.com:8080'],
  ['npub1xyz@127.0.0.1:3000', 'npub1xyz', '127.0.0.1:3000'],
  ['a@[::1]:3000', 'a', '[::1]:3000'],
])('%s is an address', (text, user, host) => {
  expect(parseLightningAddress(text)).toEqual({ text: text.trim().toLowerCase(), user, host });
});

it.each([
  '',
  'alice',
  '@example.com',
  'alice@',
  'a b@example.com',
  'alice@example.com/x',
  'alice@example.com?x=1',
  'alice@user@example.com',
  'alice@exa mple.com',
  'alice@example.com:99999',
  'ålice@example.com',
  `alice@${'a.'.repeat(200)}com`,
])('%j is none', (text) => {
  expect(parseLightningAddress(text)).toBeNull();
});
