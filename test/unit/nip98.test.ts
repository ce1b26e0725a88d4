import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { finalizeEvent, generateSecretKey, getEventHash, getPublicKey } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { type EventVerifier, loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { payloadMatches, verifyNip98 } from '../../src/auth/nip98.ts';

const NOW = 1_800_000_000;
const URL_HERE = 'https://pay.example/api/v2/user/info';
const SECRET_KEY = generateSecretKey();
const EXPECTED = {
  method: 'GET',
  pathname: '/api/v2/user/info',
  origins: ['https://pay.example', 'https://two.example:8443'],
  nowSeconds: NOW,
};

let verifyEvent: EventVerifier;

beforeAll(async () => {
  verifyEvent = await loadEventVerifier();
});

describe('an event', () => {
  it('tells who signed it, and the hash of the body where it has one', () => {
    const pubkey = getPublicKey(SECRET_KEY);
    expect(check(signed())).toEqual({ outcome: 'valid', pubkey, payload: null });
    expect(check(signed({ tags: [['payload', 'abc']] }))).toMatchObject({ payload: 'abc' });
  });

  it('signs a method in any case', () => {
    expect(check(signed({ method: 'get' })).outcome).toBe('valid');
  });

  it.each([
    'https://pay.example/api/v2/user/info',
    'https://PAY.example:443/api/v2/user/info',
    'https://two.example:8443/api/v2/user/info',
    'https://pay.example//api/v2/user/info',
    'https://pay.example/api/v2/user/info/',
  ])('may sign %s', (url) => {
    expect(check(signed({ url })).outcome).toBe('valid');
  });

  it.each([
    'http://pay.example/api/v2/user/info',
    'https://two.example/api/v2/user/info',
    'https://pay.example.evil.example/api/v2/user/info',
    'https://pay.example/api/v2/user/INFO',
    'https://pay.example/api/v2/user/info/more',
    'https://pay.example/',
    'https://pay.example/api/v2/user/info?',
    'https://pay.example/api/v2/user/info?x=1',
    'https://pay.example/api/v2/user/info#x',
    '/api/v2/user/info',
    '',
  ])('may not sign %j', (url) => {
    expect(check(signed({ url }))).toEqual({
      outcome: 'refused',
      reason: `The authorization event must sign ${URL_HERE}.`,
    });
  });

  it.each([
    ['a user', URL_HERE.replace('://', '://user:pass@')],
    ['a space before it', ` ${URL_HERE}`],
    ['backslashes', URL_HERE.replace(/([^:/])\//, '$1\\\\')],
    ['a detour', URL_HERE.replace(/([^:/])\//, '$1/x/../')],
    ['no slashes', URL_HERE.replace('://', ':')],
  ])('is refused for our url with %s', (_case, url) => {
    expect(check(signed({ url })).outcome).toBe('refused');
  });

  it.each([
    ['an old time', signed({ createdAt: NOW - 61 }), /too old or too far/],
    ['a time to come', signed({ createdAt: NOW + 61 }), /too old or too far/],
    ['another kind', signed({ kind: 22_242 }), /kind 27235/],
    ['another method', signed({ method: 'POST' }), /method GET/],
    ['no tags', encode(event({ tags: null })), /must sign https/],
    ['a wrong signature', encode({ ...event(), sig: '0'.repeat(128) }), /signature/],
    ['a signature for another key', encode({ ...event(), pubkey: otherKey() }), /signature/],
  ])('is refused for %s', (_case, encoded, reason) => {
    expect(check(encoded)).toEqual({ outcome: 'refused', reason: expect.stringMatching(reason) });
  });

  it('is refused, and nothing thrown, for a key that is no point of the curve', () => {
    for (const pubkey of ['5'.padStart(64, '0'), '0'.repeat(64), 'f'.repeat(64)]) {
      const unsigned = { ...event(), pubkey };
      const forged = { ...unsigned, id: getEventHash(unsigned) };
      expect(check(encode(forged)).outcome).toBe('refused');
    }
  });

  it('is refused, and nothing thrown, for anything at all', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
        expect(check(text).outcome).toBe('refused');
      }),
    );
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(check(encode(value)).outcome).toBe('refused');
      }),
    );
  });
});

describe('the hash of a body', () => {
  const body = Buffer.from('{ "a": [1,\n 2], "b": "ü" }');

  it.each([
    ['its bytes', sha256(body)],
    ['its bytes, in upper case', sha256(body).toUpperCase()],
    ['its compact form', sha256('{"a":[1,2],"b":"ü"}')],
  ])('may be of %s', (_case, hash) => {
    expect(payloadMatches(hash, body)).toBe(true);
  });

  it.each([
    ['another document', sha256('{"a":[1,2],"b":"u"}')],
    ['nothing', sha256('')],
    ['no hash', ''],
  ])('may not be of %s', (_case, hash) => {
    expect(payloadMatches(hash, body)).toBe(false);
  });

  it('of what is no JSON is that of its bytes alone', () => {
    expect(payloadMatches(sha256('{'), Buffer.from('{'))).toBe(true);
    expect(payloadMatches(sha256('{}'), Buffer.from('{'))).toBe(false);
    expect(payloadMatches(sha256(''), Buffer.alloc(0))).toBe(true);
  });
});

interface EventOptions {
  url?: string;
  method?: string;
  createdAt?: number;
  kind?: number;
  /** More tags; null for none at all. */
  tags?: string[][] | null;
}

function event({ url, method, createdAt, kind, tags = [] }: EventOptions = {}) {
  const needed = [
    ['u', url ?? URL_HERE],
    ['method', method ?? 'GET'],
  ];
  const template = {
    kind: kind ?? 27_235,
    created_at: createdAt ?? NOW,
    content: '',
    tags: tags === null ? [] : [...needed, ...tags],
  };
  return finalizeEvent(template, SECRET_KEY);
}

function signed(options: EventOptions = {}): string {
  return encode(event(options));
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64');
}

function check(encoded: string) {
  return verifyNip98(encoded, EXPECTED, verifyEvent);
}

function otherKey(): string {
  return getPublicKey(generateSecretKey());
}

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
