import '../../../../../helpers/web/english-page.ts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  parseBunkerUri,
  waitForSigner,
} from '../../../../../../src/http/web/browser/account/signer.ts';

const pending = new Promise<never>(() => {});

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('waitForSigner', () => {
  const { signal } = new AbortController();

  it('says after two minutes that the signer did not respond', async () => {
    const response = waitForSigner('signer', pending, signal);
    vi.advanceTimersByTime(120_000);
    await expect(response).rejects.toThrow('Your signer did not respond within 2 minutes.');
  });
});

const PUBKEY = '7e'.repeat(32);
const RELAY = 'wss://relay.example';

describe('parseBunkerUri', () => {
  it('returns the key, the relays and the secret', () => {
    const uri = ` bunker://${PUBKEY}?relay=${encodeURIComponent(RELAY)}&relay=wss://b.example/x&secret=s-1 `;
    expect(parseBunkerUri(uri, false)).toEqual({
      pubkey: PUBKEY,
      relays: [RELAY, 'wss://b.example/x'],
      secret: 's-1',
    });
  });

  it('accepts an address without a secret, and upper case', () => {
    const uri = `BUNKER://${PUBKEY.toUpperCase()}?relay=${RELAY}`;
    expect(parseBunkerUri(uri, false)).toEqual({
      pubkey: PUBKEY,
      relays: [RELAY],
      secret: null,
    });
  });

  it('ignores relays that are not encrypted', () => {
    const uri = `bunker://${PUBKEY}?relay=ws://a.example&relay=${RELAY}&relay=https://b.example`;
    expect(parseBunkerUri(uri, false).relays).toEqual([RELAY]);
    expect(parseBunkerUri(uri, true).relays).toEqual(['ws://a.example', RELAY]);
  });

  it.each([
    ['a NIP-05 name', 'alice@signer.example', /starts with bunker:/],
    ['another scheme', `nostrconnect://${PUBKEY}?relay=${RELAY}`, /starts with bunker:/],
    ['no key', 'bunker://', /not a complete address/],
    ['no relay', `bunker://${PUBKEY}`, /no relay/],
    ['only a relay without encryption', `bunker://${PUBKEY}?relay=ws://a.example`, /no relay/],
  ])('refuses %s in words', (_case, text, message) => {
    expect(() => parseBunkerUri(text, false)).toThrow(message);
  });
});
