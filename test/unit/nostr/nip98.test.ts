import fc from 'fast-check';
import { finalizeEvent, generateSecretKey, getEventHash, getPublicKey } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { type EventVerifier, loadEventVerifier } from '../../../src/nostr/events.ts';
import { verifyNip98 } from '../../../src/nostr/nip98.ts';

const NOW_SECONDS = 1_800_000_000;
const REQUEST_URL = 'https://pay.example/api/v2/user/info';
const SECRET_KEY = generateSecretKey();
const EXPECTED_REQUEST = {
  method: 'GET',
  pathname: '/api/v2/user/info',
  origins: ['https://pay.example'],
  nowSeconds: NOW_SECONDS,
};

let verifyEvent: EventVerifier;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
});

// test/acceptance/authentication.test.ts covers times, kinds, methods, encodings, bodies and forged signatures.

describe('verifyNip98', () => {
  it('returns the public key and the payload hash of a valid event', () => {
    const pubkey = getPublicKey(SECRET_KEY);
    expect(verify(signAndEncode({}))).toEqual({ pubkey, payloadHash: null });
    expect(verify(signAndEncode({ tags: [['payload', 'abc']] }))).toMatchObject({
      payloadHash: 'abc',
    });
  });

  it.each([
    'http://pay.example/api/v2/user/info',
    'https://pay.example.evil.example/api/v2/user/info',
    'https://pay.example/api/v2/user/info/more',
    'https://pay.example/',
    'https://pay.example/api/v2/user/info#x',
    'https://user:pass@pay.example/api/v2/user/info',
    ' https://pay.example/api/v2/user/info',
    'https://pay.example/x/../api/v2/user/info',
    '/api/v2/user/info',
    '',
  ])('rejects an event that signs the URL %j', (url) => {
    expect(verify(signAndEncode({ url }))).toMatch(`must sign ${REQUEST_URL}`);
  });

  it.each(['5'.padStart(64, '0'), '0'.repeat(64), 'f'.repeat(64)])(
    'rejects the key %s, which is not on the curve',
    (pubkey) => {
      const unsigned = { ...createAuthEvent(), pubkey };
      expect(verify(encode({ ...unsigned, id: getEventHash(unsigned) }))).toMatch('signature');
    },
  );

  it('rejects arbitrary text and JSON without throwing', () => {
    const anyText = fc.oneof(fc.string(), fc.base64String(), fc.jsonValue().map(encode));
    fc.assert(
      fc.property(anyText, (text) => {
        expect(verify(text)).toMatch('not a base64 encoded Nostr event');
      }),
    );
  });
});

function createAuthEvent({ url = REQUEST_URL, tags = [] as string[][] } = {}) {
  const allTags = [['u', url], ['method', 'GET'], ...tags];
  const template = { kind: 27_235, created_at: NOW_SECONDS, content: '', tags: allTags };
  return finalizeEvent(template, SECRET_KEY);
}

function signAndEncode(options: Parameters<typeof createAuthEvent>[0]): string {
  return encode(createAuthEvent(options));
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64');
}

function verify(encoded: string) {
  return verifyNip98(encoded, EXPECTED_REQUEST, verifyEvent);
}
