import { describe, expect, it } from 'vitest';
import { parseBunkerUri } from '../../../../../../src/http/web/browser/account/bunker-uri.ts';

const PUBKEY = '7e'.repeat(32);
const RELAY = 'wss://relay.example';

describe('parseBunkerUri', () => {
  it('returns the key, the relays and the secret', () => {
    const uri = ` bunker://${PUBKEY}?relay=${encodeURIComponent(RELAY)}&relay=wss://b.example/x&secret=s-1 `;
    expect(parseBunkerUri(uri, { allowInsecure: false })).toEqual({
      pubkey: PUBKEY,
      relays: [RELAY, 'wss://b.example/x'],
      secret: 's-1',
    });
  });

  it('accepts an address without a secret, and upper case', () => {
    const uri = `BUNKER://${PUBKEY.toUpperCase()}?relay=${RELAY}`;
    expect(parseBunkerUri(uri, { allowInsecure: false })).toEqual({
      pubkey: PUBKEY,
      relays: [RELAY],
      secret: null,
    });
  });

  it('ignores relays that are not encrypted', () => {
    const uri = `bunker://${PUBKEY}?relay=ws://a.example&relay=${RELAY}&relay=https://b.example`;
    expect(parseBunkerUri(uri, { allowInsecure: false }).relays).toEqual([RELAY]);
    expect(parseBunkerUri(uri, { allowInsecure: true }).relays).toEqual(['ws://a.example', RELAY]);
  });

  it.each([
    ['a NIP-05 name', 'alice@signer.example', /starts with bunker:\/\//],
    ['another scheme', `nostrconnect://${PUBKEY}?relay=${RELAY}`, /starts with bunker:\/\//],
    ['no key', 'bunker://', /not complete/],
    ['no relay', `bunker://${PUBKEY}`, /no relay/],
    ['only a relay without encryption', `bunker://${PUBKEY}?relay=ws://a.example`, /no relay/],
  ])('refuses %s in words', (_case, text, message) => {
    expect(() => parseBunkerUri(text, { allowInsecure: false })).toThrow(message);
  });
});
