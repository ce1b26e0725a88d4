import fc from 'fast-check';
import { finalizeEvent, generateSecretKey, getEventHash, getPublicKey } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { type EventVerifier, loadEventVerifier } from '../../src/nostr/events.ts';
import { verifyNip98 } from '../../src/nostr/nip98.ts';

const NOW = 1_800_000_000;
const URL_HERE = 'https://pay.example/api/v2/user/info';
const SECRET_KEY = generateSecretKey();
const EXPECTED = {
  method: 'GET',
  pathname: '/api/v2/user/info',
  origins: ['https://pay.example'],
  nowSeconds: NOW,
};

let verifyEvent: EventVerifier;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
});

// test/acceptance/authentication.test.ts covers times, kinds, methods, encodings, bodies and forged signatures.

describe('verifyNip98', () => {
  it('returns the key and the payload hash', () => {
    const pubkey = getPublicKey(SECRET_KEY);
    expect(check(signed({}))).toEqual({ outcome: 'valid', pubkey, payloadHash: null });
    expect(check(signed({ tags: [['payload', 'abc']] }))).toMatchObject({ payloadHash: 'abc' });
  });

  it('accepts the method in any case', () => {
    expect(check(signed({ method: 'get' })).outcome).toBe('valid');
  });

  it.each([
    'http://pay.example/api/v2/user/info',
    'https://pay.example.evil.example/api/v2/user/info',
    'https://pay.example/api/v2/user/INFO',
    'https://pay.example/api/v2/user/info/more',
    'https://pay.example/',
    'https://pay.example/api/v2/user/info?',
    'https://pay.example/api/v2/user/info#x',
    'https://user:pass@pay.example/api/v2/user/info',
    ' https://pay.example/api/v2/user/info',
    'https://pay.example\\api\\v2\\user\\info',
    'https://pay.example/x/../api/v2/user/info',
    'https:pay.example/api/v2/user/info',
    '/api/v2/user/info',
    '',
  ])('rejects the URL %j', (url) => {
    expect(check(signed({ url }))).toMatchObject({
      outcome: 'rejected',
      reason: expect.stringMatching(`must sign ${URL_HERE}|not a valid`),
    });
  });

  it('rejects an event without tags', () => {
    expect(check(encode(event({ tags: null }))).outcome).toBe('rejected');
  });

  it.each(['5', '0', 'f'])('rejects a key off the curve (%s)', (digit) => {
    const unsigned = { ...event(), pubkey: digit.padStart(64, digit === 'f' ? 'f' : '0') };
    expect(check(encode({ ...unsigned, id: getEventHash(unsigned) })).outcome).toBe('rejected');
  });

  it('rejects arbitrary text and JSON without throwing', () => {
    const texts = fc.oneof(fc.string(), fc.base64String(), fc.jsonValue().map(encode));
    fc.assert(
      fc.property(texts, (text) => {
        expect(check(text).outcome).toBe('rejected');
      }),
    );
  });
});

/** @param tags additional tags, or null for no tags at all */
function event(order: { url?: string; method?: string; tags?: string[][] | null } = {}) {
  const { url = URL_HERE, method = 'GET', tags = [] } = order;
  return finalizeEvent(
    {
      kind: 27_235,
      created_at: NOW,
      content: '',
      tags: tags === null ? [] : [['u', url], ['method', method], ...tags],
    },
    SECRET_KEY,
  );
}

function signed(options: Parameters<typeof event>[0]): string {
  return encode(event(options));
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64');
}

function check(encoded: string) {
  return verifyNip98(encoded, EXPECTED, verifyEvent);
}
