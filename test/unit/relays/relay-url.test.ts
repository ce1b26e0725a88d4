import fc from 'fast-check';
import { expect, it } from 'vitest';
import { normaliseRelayUrl, stripQuery } from '../../../src/relays/relay-url.ts';

const PUBLIC_ONLY = { allowPrivateNetworks: false };
const PRIVATE_ALLOWED = { allowPrivateNetworks: true };

it.each([
  ['wss://relay.example', 'wss://relay.example'],
  ['wss://relay.example/', 'wss://relay.example'],
  [' WSS://Relay.EXAMPLE//\n', 'wss://relay.example'],
  ['wss://relay.example.:8443/', 'wss://relay.example:8443'],
  ['wss://relay.example/Inbox/', 'wss://relay.example/Inbox'],
  ['wss://relay.example/npub1a?broadcast=true', 'wss://relay.example/npub1a?broadcast=true'],
  ['wss://relay.example/#top', 'wss://relay.example'],
  ['wss://relay.example/wss%3A%2F%2Fother', 'wss://relay.example/wss%3A%2F%2Fother'],
  ['wss://[2606:4700::1111]/', 'wss://[2606:4700::1111]'],
])('normaliseRelayUrl(%j) returns %s', (text, normalised) => {
  expect(normaliseRelayUrl(text, PUBLIC_ONLY)).toBe(normalised);
});

it.each([
  '',
  'relay.example',
  'ws://relay.example',
  'wss://',
  'wss://relay.example/a\u0000b',
  'wss://127.0.0.1',
  'wss://[::ffff:10.0.0.1]',
  'wss://169.254.169.254',
  'wss://localhost',
  `wss://relay.example/${'a'.repeat(255)}`,
])('normaliseRelayUrl rejects %j', (text) => {
  expect(normaliseRelayUrl(text, PUBLIC_ONLY)).toBeNull();
});

it.each([
  ['ws://127.0.0.1:7777/', 'ws://127.0.0.1:7777'],
  ['wss://localhost', 'wss://localhost'],
  ['http://127.0.0.1:7777', null],
])('normaliseRelayUrl(%j) returns %s if private networks are allowed', (text, normalised) => {
  expect(normaliseRelayUrl(text, PRIVATE_ALLOWED)).toBe(normalised);
});

it('normaliseRelayUrl leaves a normalised URL unchanged', () => {
  const part = fc.constantFrom('a', 'B', 'ü', '%41', '%2d', '.', '..', '/', '//', '?', '=', '#');
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const normalised = normaliseRelayUrl(`wss://Relay.example./${parts.join('')}`, PUBLIC_ONLY);
      expect(normalised === null ? null : normaliseRelayUrl(normalised, PUBLIC_ONLY)).toBe(
        normalised,
      );
    }),
  );
});

it.each([
  ['wss://relay.example/inbox?token=abc', 'wss://relay.example/inbox'],
  ['wss://relay.example/inbox', 'wss://relay.example/inbox'],
])('stripQuery(%s) returns %s', (url, expected) => {
  expect(stripQuery(url)).toBe(expected);
});
