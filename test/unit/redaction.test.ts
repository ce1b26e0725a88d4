import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { MAX_TEXT_CHARS, REDACTED, redact } from '../../src/domain/redaction.ts';
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
const IN_PERCENTS = `cashuA${'eyJ0'.repeat(4)}%2BmI0dHBzOi8v%2Fx%3D%3D`;

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
    ['a token in percents', `GET /x?t=${IN_PERCENTS}&a=1`, `GET /x?t=${REDACTED}&a=1`],
    ['a short token in percents', '/cashuBo%2FmFteB', `/${REDACTED}`],
    ['a signed event in percents', `Nostr ${'a'.repeat(16)}%2BmI%3D.`, `Nostr ${REDACTED}`],
    ['one behind a blank in percents', `Bearer%20${'k'.repeat(20)}`, `Bearer%20${REDACTED}`],
    ['a JWT in percents', `/x?j=${JWT.replaceAll('.', '%2E')}`, `/x?j=${REDACTED}`],
    ['base64 of a list', `(${base64([{ secret: HEX }])})`, `(${REDACTED})`],
    ['base64 of a list that is spaced', `(${base64([{ secret: HEX }], 2)})`, `(${REDACTED})`],
    ['base64 of an object that is spaced', `(${base64({ secret: HEX }, 1)})`, `(${REDACTED})`],
    ['base64 of one with tabs', `(${base64({ secret: HEX }, '\t')})`, `(${REDACTED})`],
    ['base64 of a secret', `(${base64(['P2PK', { nonce: HEX }])})`, `(${REDACTED})`],
    ['a verify url in percents', `%2Fverify%2F${HEX}`, `%2Fverify%2F${REDACTED}`],
    ['a verify url in percents twice', `%252Fverify%252F${HEX}`, `%252Fverify%252F${REDACTED}`],
    ['a verify url with a slash too many', `/verify//${HEX}`, `/verify//${REDACTED}`],
    [
      'the id of a quote with a slash too many',
      `/v1/mint/quote/bolt11//${QUOTE_ID}`,
      `/v1/mint/quote/bolt11//${REDACTED}`,
    ],
    [
      'the id of a quote in percents',
      `%2Fv1%2Fmint%2Fquote%2Fbolt11%2F${QUOTE_ID}`,
      `%2Fv1%2Fmint%2Fquote%2Fbolt11%2F${REDACTED}`,
    ],
    [
      'an id that begins like the batch route',
      `/v1/mint/quote/bolt11/check-${QUOTE_ID}`,
      `/v1/mint/quote/bolt11/${REDACTED}`,
    ],
    [
      'a secret parameter in percents',
      `/login?next=%2Fx%3Fa%3D1%26token%3D${HEX}&b=2`,
      `/login?next=%2Fx%3Fa%3D1%26token%3D${REDACTED}&b=2`,
    ],
    [
      'a field of JSON in percents',
      `/x?p=${encodeURIComponent(JSON.stringify({ amount: 1, secret: HEX }))}&a=1`,
      `/x?p=%7B%22amount%22%3A1%2C%22secret%22%3A${REDACTED}&a=1`,
    ],
    [
      'a list in JSON in percents',
      `/x?p=${encodeURI(JSON.stringify({ quoteIds: [QUOTE_ID] }))} failed`,
      `/x?p=%7B%22quoteIds%22:${REDACTED} failed`,
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
    ['quoteIds', [[QUOTE_ID], [QUOTE_ID, QUOTE_ID]]],
    ['tokens', [TOKEN]],
    ['secrets', [HEX, HEX]],
    ['secrets', [Buffer.from(HEX, 'hex'), Buffer.from(HEX, 'hex')]],
    ['privkey', HEX],
    ['privKey', Buffer.from(HEX, 'hex')],
    ['priv_key', HEX],
    ['seed', Buffer.from(HEX, 'hex')],
    ['seed', new Uint8Array(32)],
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

  it('is taken out however many blanks there are', () => {
    const blanks = ' '.repeat(100);
    expect(redact(`{"secret"${blanks}:${blanks}"${HEX}"}`)).toBe(`{"secret":"${REDACTED}"}`);
    const spaced = JSON.stringify({ quoteIds: [QUOTE_ID, { id: QUOTE_ID }], seed: {} }, null, 9);
    expect(redact(spaced)).not.toContain(QUOTE_ID);
    const { msg } = JSON.parse(redact(JSON.stringify({ msg: spaced })));
    expect(JSON.parse(msg)).toEqual({ quoteIds: REDACTED, seed: REDACTED });
  });

  it.each([
    { secret: HEX, amount: 1 },
    { secret: '["P2PK",{"nonce":"0"}]', amount: 1 },
    { secret: "it's", amount: 1 },
    { secret: `it's "so"`, amount: 1 },
    { 'x-cashu': TOKEN, amount: 1 },
    { proof: { C: POINT }, amount: 1 },
    { quoteIds: [QUOTE_ID, QUOTE_ID], amount: 1 },
    { secretKey: Buffer.from(HEX, 'hex'), amount: 1 },
    { secretKey: new Uint8Array(32).fill(7), amount: 1 },
    { dleq: { e: HEX, s: HEX, r: HEX }, amount: 1 },
  ])('is taken out of what Node prints of an object: %o', (value) => {
    for (const compact of [true, 3]) {
      const line = JSON.stringify({ msg: `got ${inspect(value, { compact })}`, last: 1 });
      const { msg, last } = JSON.parse(redact(line));
      expect(msg).toMatch(/^got \{\s+'?(?:proof: \{ )?[\w-]+'?:\s+\[redacted\]/);
      expect(msg).toMatch(/\samount: 1\s\}$/);
      expect(last).toBe(1);
    }
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

  it('is taken out of a list or an object that was cut off in it', () => {
    for (const cut of [`["${QUOTE_ID}","${QUOTE_ID}`, `{"a":"${QUOTE_ID}","b":"${QUOTE_ID}`]) {
      const text = `it said {"amount":1,"quoteIds":${cut}`;
      const clean = `it said {"amount":1,"quoteIds":"${REDACTED}"`;
      expect(redact(text)).toBe(clean);
      expect(JSON.parse(redact(JSON.stringify({ msg: text, level: 30 })))).toEqual({
        msg: clean,
        level: 30,
      });
    }
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
    { msg: `the mint quote of ${QUOTE_ID} is of operation ${HEX}: 'pending'` },
    { msg: `GET https://mint.example/a%20b/v1/keys?next=%2Fv1%2Fkeysets%2F${HEX}` },
    { invoice: `lnbc210n1p${'q'.repeat(200)}` },
    { payload: { type: 'Buffer', data: [1, 2, 3] } },
    { msg: inspect({ pubkey: HEX, mintUrl: 'https://mint.example', ids: [QUOTE_ID] }) },
    { msg: 'POST %2Fv1%2Fmint%2Fquote%2Fbolt11%2Fcheck' },
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
      '%22secret%22%3A',
      'secret: ',
      "secret: '",
      'secret: {',
      '"secret":[',
      '\n',
      "'",
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
    'cashuA%',
    'Bearer%20',
    '%2525',
    '/',
    '\\\\/',
    '/verify//',
    '%2Fmint%2Fquote%2Fx%2F',
    '%26token%3D',
    '%22secret%22%3A',
    '%22secret%22%20',
    '"secret" ',
    '"secret":[[',
    '"secret":[[],',
    '"secret":["",',
    '\\\\"secret\\\\":[\\\\"',
    'secret: ',
    "secret: '",
    'secret: [',
    'secret: {',
    'secret: <Buffer ',
    'secret: Buffer(1) [',
    'secret:\\\\n',
    '[],',
    '"a",',
  ])('holds up nobody, such as %j a great many times', (piece) => {
    const pieces = piece.repeat(MAX_TEXT_CHARS / piece.length);
    for (const before of ['Nostr ', '"secret":[', 'secret: {']) {
      const startedAtMs = performance.now();
      redact((before + pieces).slice(0, MAX_TEXT_CHARS));
      // It takes milliseconds; what grows with the square of the length would take hours.
      expect(performance.now() - startedAtMs).toBeLessThan(2_000);
    }
  });

  it('is looked at up to a bound, and what is beyond it dropped', () => {
    const { length } = '"secret":"';
    for (const mebibytes of [2, 20]) {
      const chars = mebibytes * 2 ** 20;
      expect(redact(`"secret":"${'s'.repeat(chars)}`)).toBe(
        `"secret":"${REDACTED}" [cut: ${chars + length - MAX_TEXT_CHARS} more characters]`,
      );
      redact(`"secret":[${'"s",'.repeat(chars / 4)}`);
      redact(`say secret: { ${'s'.repeat(chars)} }`);
    }
    const fits = 'x'.repeat(MAX_TEXT_CHARS);
    expect(redact(fits)).toBe(fits);
  });
});

function base64(value: unknown, space?: string | number): string {
  return Buffer.from(JSON.stringify(value, null, space)).toString('base64');
}

/** The same numbers every time (Lehmer's generator). */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state;
  };
}
