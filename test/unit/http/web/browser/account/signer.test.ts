import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  parseBunkerUri,
  SignerError,
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
    const response = waitForSigner('Your signer', pending, signal);
    vi.advanceTimersByTime(120_000);
    await expect(response).rejects.toThrow('Your signer did not respond within 2 minutes.');
  });

  it('ends with the reason of the abort', async () => {
    const controller = new AbortController();
    const response = waitForSigner('Your signer', pending, controller.signal);
    controller.abort(new SignerError('Cancelled.'));
    await expect(response).rejects.toThrow('Cancelled.');
    await expect(waitForSigner('Your signer', pending, controller.signal)).rejects.toThrow(
      'Cancelled.',
    );
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each([
    ['an error', new Error('User rejected'), 'Your signer did not sign: User rejected'],
    ['an object', { message: 'denied' }, 'Your signer did not sign: denied'],
    ['nothing', undefined, 'Your signer did not sign.'],
  ])('shows the reason if the signer rejects with %s', async (_case, reason, message) => {
    const error = await waitForSigner('Your signer', Promise.reject(reason), signal).catch(
      (caught: unknown) => caught,
    );
    expect(error).toBeInstanceOf(SignerError);
    expect(error).toHaveProperty('message', message);
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
