import { describe, expect, it } from 'vitest';
import { REDACTED, redact } from '../../src/domain/redaction.ts';
import { LogCapture } from '../helpers/log-capture.ts';

/** The one list of what leaves the process neither in the log nor in an error. */

const HEX = '0123456789abcdef'.repeat(4);
const POINT = `02${HEX}`;
const JWT = `eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJudXRwb3N0In0.${'s'.repeat(43)}`;
const EVENT = Buffer.from(JSON.stringify({ id: HEX, kind: 27_235, sig: HEX })).toString('base64');
const SPACED_EVENT = Buffer.from(`{ "id": "${HEX}" }`).toString('base64');
const TOKEN = `cashuB${'o2FteB'.repeat(20)}==`;
const NSEC = `nsec1${'q'.repeat(58)}`;
const QUOTE_ID = '019abcde-1234-7000-8000-0123456789ab';

describe('what is secret by its shape', () => {
  it.each<[string, string, string]>([
    ['a token of ecash', `spent: ${TOKEN}.`, `spent: ${REDACTED}.`],
    ['a token of the older kind', `cashuA${'eyJ0'.repeat(9)}, twice`, `${REDACTED}, twice`],
    ['a token in an address', `https://m.example/${TOKEN}`, `https://m.example/${REDACTED}`],
    ['a token behind a scheme', `cashu:${TOKEN}`, `cashu:${REDACTED}`],
    ['a token behind an encoded space', `%20${TOKEN}`, `%20${REDACTED}`],
    ['a signed event', `Nostr ${EVENT}`, `Nostr ${REDACTED}`],
    ['a signed event that is spaced', `nostr  ${SPACED_EVENT}`, `nostr  ${REDACTED}`],
    ['a signed event alone', `got ${EVENT}`, `got ${REDACTED}`],
    ['a JWT', `bearer ${JWT}`, `bearer ${REDACTED}`],
    ['a JWT alone', `(${JWT})`, `(${REDACTED})`],
    ['some other bearer token', `Bearer ${'k'.repeat(20)}`, `Bearer ${REDACTED}`],
    ['a secret key in words', `${NSEC}!`, `${REDACTED}!`],
    ['a secret key in upper case', NSEC.toUpperCase(), REDACTED],
    ['a secret key that is encrypted', `ncryptsec1${'q'.repeat(99)}`, REDACTED],
    [
      'the password of a database',
      'postgres://nut:p@ss@db.example:5432/nut',
      `postgres://${REDACTED}@db.example:5432/nut`,
    ],
    [
      'a password in the query of an address',
      'postgresql://db.example/nut?user=nut&password=p%20w&sslmode=require',
      `postgresql://db.example/nut?user=nut&password=${REDACTED}&sslmode=require`,
    ],
    ['a user in the address of a mint', 'https://u:p@m.example', `https://${REDACTED}@m.example`],
    [
      'a verify url',
      `https://n.example/lnurl/verify/${HEX}?x`,
      `https://n.example/lnurl/verify/${REDACTED}?x`,
    ],
    ['a verify url that is mangled', `/lnurl/verify/${HEX}%zz`, `/lnurl/verify/${REDACTED}`],
    [
      'the id of a mint quote',
      `GET https://m.example/v1/mint/quote/bolt11/${QUOTE_ID}: 404`,
      `GET https://m.example/v1/mint/quote/bolt11/${REDACTED}: 404`,
    ],
    [
      'the id of a melt quote',
      `/v1/melt/quote/bolt11/${QUOTE_ID}`,
      `/v1/melt/quote/bolt11/${REDACTED}`,
    ],
  ])('%s is taken out', (_case, text, expected) => {
    expect(redact(text)).toBe(expected);
  });
});

describe('what is secret by its name', () => {
  it.each<[string, unknown]>([
    ['authorization', 'Digest abc'],
    ['Authorization', 'x'],
    ['x-cashu', 'not even a token'],
    ['X-Cashu', 'x'],
    ['cookie', 'a=b'],
    ['token', 'x'],
    ['access_token', 'x'],
    ['accessToken', 'x'],
    ['jwt', 'x'],
    ['password', 12_345],
    ['sig', HEX],
    ['signature', HEX],
    ['secret', HEX],
    ['secret', '["P2PK",{"nonce":"0","data":"02","tags":[["a","\\\\"]]}]'],
    ['secret', 'ends in a backslash \\'],
    ['secretKey', { type: 'Buffer', data: [1, 2, 3] }],
    ['secretKey', { 0: 1, 1: 2 }],
    ['privateKey', HEX],
    ['nsec', 'x'],
    ['jwtSecret', 'x'],
    ['jwtSecretPrevious', 'x'],
    ['JWT_SECRET', 'x'],
    ['JWT_SECRET_PREVIOUS', 'x'],
    ['treasurySecret', 'x'],
    ['TREASURY_SECRET', 'x'],
    ['ZAP_SECRET_KEY', 'x'],
    ['databaseUrl', 'x'],
    ['DATABASE_URL', 'x'],
    ['connectionString', 'x'],
    ['quote', QUOTE_ID],
    ['quoteId', QUOTE_ID],
    ['quote_id', QUOTE_ID],
    ['quoteIds', [QUOTE_ID, QUOTE_ID]],
    ['verifyToken', HEX],
    ['verify_token', HEX],
    ['proofs', ['x']],
    ['C', POINT],
    ['C_', POINT],
    ['B_', POINT],
    ['r', HEX],
    ['dleq', { e: HEX, s: HEX, r: HEX }],
    ['dleq', { e: '}', s: ']"}' }],
    ['proofs', [{ id: '00ad', amount: 1, secret: HEX, C: POINT }, { id: '"]' }]],
    ['witness', '{"signatures":["x"]}'],
    ['nonce', 'x'],
    ['blindingFactor', HEX],
    ['preimage', HEX],
    ['payment_preimage', HEX],
  ])(
    '%s is taken out of a field, of one deeper inside, and of a text that quotes it',
    (name, value) => {
      const field = JSON.stringify({ [name]: value, last: 1 });
      const clean = { [name]: REDACTED, last: 1 };
      expect(JSON.parse(redact(field))).toEqual(clean);
      expect(JSON.parse(redact(JSON.stringify({ a: [{ [name]: value, last: 1 }] })))).toEqual({
        a: [clean],
      });
      const msg = `the mint said ${field}`;
      const { msg: said } = JSON.parse(redact(JSON.stringify({ msg, level: 30 })));
      expect(said).toBe(`the mint said ${JSON.stringify(clean)}`);
    },
  );

  it('is taken out where whoever wrote it left spaces', () => {
    expect(redact('{ "secret" : "a", "amount": 1 }')).toBe(
      `{ "secret":"${REDACTED}", "amount": 1 }`,
    );
  });

  it('is taken out of whatever else is too deep to be taken out as a whole', () => {
    const proofs = [{ id: '00ad', tags: [1], secret: HEX, C: POINT }];
    expect(JSON.parse(redact(JSON.stringify({ proofs })))).toEqual({
      proofs: [{ id: '00ad', tags: [1], secret: REDACTED, C: REDACTED }],
    });
  });

  it('is taken out of a text within a text within a text', () => {
    let text = JSON.stringify({ amount: 1, secret: HEX, last: 1 });
    for (let depth = 1; depth <= 5; depth += 1) {
      text = JSON.stringify({ msg: text });
      expect(redact(text), text).toBe(text.replace(HEX, REDACTED));
    }
  });

  it('is taken out of a text that was cut off in it', () => {
    const msg = `it said {"amount":1,"secret":"${HEX}`;
    expect(JSON.parse(redact(JSON.stringify({ msg, level: 30 })))).toEqual({
      msg: `it said {"amount":1,"secret":"${REDACTED}"`,
      level: 30,
    });
  });
});

describe('what an operator needs', () => {
  it.each([
    { pubkey: HEX, name: 'alice' },
    { npub: `npub1${'q'.repeat(58)}` },
    { mintUrl: 'https://mint.example/cashu/api/v1/4gr9Xcmz3XEkUNwiBiQGoL' },
    { paymentHash: HEX },
    { purchase: QUOTE_ID, reason: 'spent' },
    { withdrawal: QUOTE_ID, kind: 'token', amountSat: 21 },
    { errorId: '3f9c2a1b', route: '/lnurl/verify/:token' },
    { route: 'GET /v1/mint/quote/bolt11/:id' },
    { route: 'POST /v1/mint/quote/bolt11/check' },
    { url: 'https://mint.example/v1/mint/quote/bolt11/check' },
    { err: { code: '42P01', message: 'relation "quotes" does not exist' } },
    { stack: 'at verify (/app/node_modules/jose/dist/webapi/jws/flattened/verify.js:20:3)' },
    { quotes: [1, 2, 3] },
    { proofs: null, secret: true },
    { request: `creqA${'o2FpZ'.repeat(9)}` },
    { address: 'alice@nutpost.example' },
    { msg: 'JWT_SECRET: must have at least 32 characters' },
    { msg: 'Authorization with Nostr (NIP-98) or Bearer is required.' },
    { msg: 'told 12 sockets; a token was bought for: 21 sat' },
  ])('stays: %j', (fields) => {
    const line = JSON.stringify(fields);
    expect(redact(line)).toBe(line);
  });
});

describe('the log', () => {
  it('goes by it in fields, words, errors and their causes, at every level and in every child', () => {
    const captured = new LogCapture('trace');
    const child = captured.log.child({ reqId: 1, token: HEX });
    child.trace({ mintUrl: `https://mint.example/${TOKEN}`, deep: [{ quoteId: QUOTE_ID }] }, JWT);
    const cause = Object.assign(new Error(`Bearer ${'k'.repeat(20)}`), { detail: QUOTE_ID });
    child.error({ err: new Error(`{"secret":"${HEX}"}`, { cause }) }, 'a request failed');
    child.fatal(new Error(NSEC));
    expect(captured.lines).toHaveLength(3);
    for (const line of captured.lines) {
      expect(JSON.parse(line)).toMatchObject({ reqId: 1, token: REDACTED });
      for (const secret of [HEX, TOKEN, QUOTE_ID, JWT, 'k'.repeat(20), NSEC]) {
        expect(line).not.toContain(secret);
      }
    }
    const [told, failed] = captured.lines.map((line) => JSON.parse(line));
    expect(told).toMatchObject({
      mintUrl: `https://mint.example/${REDACTED}`,
      deep: [{ quoteId: REDACTED }],
      msg: REDACTED,
    });
    expect(failed.err).toMatchObject({
      message: `{"secret":"${REDACTED}"}`,
      stack: expect.stringContaining('redaction.test.ts'),
      cause: { message: `Bearer ${REDACTED}` },
    });
  });
});

describe('whatever a stranger wrote', () => {
  it('leaves a line of JSON one', () => {
    const pieces = [
      '"',
      '\\',
      '\\"',
      '{',
      '}',
      '[',
      ']',
      ':',
      ',',
      ' ',
      '@',
      '://',
      '=',
      '?c',
      '&',
    ];
    const words = [
      '"secret"',
      '"secret":"',
      'cashuBxxxxxxxx',
      'Nostr ',
      '/verify/',
      HEX,
      'eyJ',
      '😀',
    ];
    const parts = [...pieces, ...words];
    const next = dice(7);
    for (let round = 0; round < 20_000; round += 1) {
      const value = Array.from({ length: 1 + (next() % 9) }, () => parts[next() % parts.length]);
      const line = JSON.stringify({ level: 30, msg: value.join(''), last: { a: 1 } });
      const read = JSON.parse(redact(line));
      expect(Object.keys(read), line).toEqual(['level', 'msg', 'last']);
      expect(read.last, line).toEqual({ a: 1 });
    }
  });

  it.each([
    'Nostr ',
    ' ',
    '"secret"',
    '"secret":"',
    '\\"secret\\":\\"',
    '"secret":{',
    '"secret":[',
    'a://',
    'a@',
    '?c=',
    '/verify/',
    '/mint/quote/',
    'eyJ',
    'cashuA',
    '\\',
    '\\\\\\"secret\\\\\\":',
    '\\\\\\"secret\\\\\\":\\\\\\"\\\\',
  ])('holds up nobody, such as %j a great many times', (piece) => {
    const text = `Nostr ${piece.repeat(100_000 / piece.length)}`;
    const startedAtMs = performance.now();
    redact(text);
    // It takes milliseconds; what grows with the square of the length would take minutes.
    expect(performance.now() - startedAtMs).toBeLessThan(2_000);
  });
});

/** The same numbers every time (Lehmer's generator). */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state;
  };
}
