import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseRelayUrl, withoutQuery } from '../../src/domain/relay-url.ts';

const PUBLIC = { allowPrivate: false };
const DEVELOPMENT = { allowPrivate: true };

describe('the text by which a relay is known', () => {
  it.each([
    ['wss://relay.example', 'wss://relay.example'],
    ['wss://relay.example/', 'wss://relay.example'],
    [' WSS://Relay.EXAMPLE//\n', 'wss://relay.example'],
    ['wss://relay.example:443', 'wss://relay.example'],
    ['wss://relay.example.:8443/', 'wss://relay.example:8443'],
    ['wss://relay.example/Inbox/', 'wss://relay.example/Inbox'],
    ['wss://relay.example/npub1a?broadcast=true', 'wss://relay.example/npub1a?broadcast=true'],
    ['wss://relay.example/#top', 'wss://relay.example'],
    ['wss://relay.example/%61', 'wss://relay.example/a'],
    ['wss://relay.example//a///b', 'wss://relay.example/a/b'],
    ['wss://relay.example/%41%7eb%2D', 'wss://relay.example/A~b-'],
    ['wss://relay.example/%2561/%c3%bc', 'wss://relay.example/%2561/%C3%BC'],
    ['wss://relay.example/wss%3a%2f%2fother', 'wss://relay.example/wss%3A%2F%2Fother'],
    ['wss://relay.example/a/../b/./', 'wss://relay.example/b'],
    ['wss://relay.example//?a=%61//b', 'wss://relay.example?a=%61//b'],
    ['wss://müller.example', 'wss://xn--mller-kva.example'],
    ['wss://[2606:4700::1111]/', 'wss://[2606:4700::1111]'],
  ])('%j is %s', (text, normalised) => {
    expect(normaliseRelayUrl(text, PUBLIC)).toBe(normalised);
  });

  it.each([
    '',
    'relay.example',
    'https://relay.example',
    'ws://relay.example',
    'wss://',
    'wss://user@relay.example',
    'wss://relay..example',
    'wss://relay.example:25',
    'wss://rel ay.example',
    'wss://relay.example/a\u0000b',
    'wss://relay.example\\@evil.example',
    'wss://127.0.0.1',
    'wss://[::1]',
    'wss://[::ffff:10.0.0.1]',
    'wss://0x7f.1',
    'wss://169.254.169.254',
    'wss://localhost',
    'wss://relay.localhost.',
    `wss://relay.example/${'a'.repeat(255)}`,
  ])('%j is the address of no relay', (text) => {
    expect(normaliseRelayUrl(text, PUBLIC)).toBeNull();
  });

  it('may be private, and without TLS, in development', () => {
    expect(normaliseRelayUrl('ws://127.0.0.1:7777/', DEVELOPMENT)).toBe('ws://127.0.0.1:7777');
    expect(normaliseRelayUrl('wss://localhost', DEVELOPMENT)).toBe('wss://localhost');
    expect(normaliseRelayUrl('http://127.0.0.1:7777', DEVELOPMENT)).toBeNull();
  });

  it('never changes again', () => {
    fc.assert(
      fc.property(fc.webUrl({ withQueryParameters: true, withFragments: true }), (url) => {
        const once = normaliseRelayUrl(url.replace(/^https?/, 'wss'), PUBLIC);
        expect(once === null ? null : normaliseRelayUrl(once, PUBLIC)).toBe(once);
      }),
    );
  });
});

describe('what is told of a relay', () => {
  it.each([
    ['wss://relay.example/inbox?token=abc', 'wss://relay.example/inbox'],
    ['wss://relay.example?a=b?c', 'wss://relay.example'],
    ['wss://relay.example/inbox', 'wss://relay.example/inbox'],
  ])('of %s is %s', (url, told) => {
    expect(withoutQuery(url)).toBe(told);
  });
});
