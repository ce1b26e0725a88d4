import { describe, expect, it } from 'vitest';
import type { BlindedMessage, BlindSignature, Proof } from '../../src/mints/ecash.ts';
import { EcashClient } from '../../src/mints/ecash-client.ts';
import type { GuardedRequest, GuardedResponse } from '../../src/net/guarded-fetch.ts';

const MINT = 'https://mint.example/Bitcoin';
const ID = '01fc7e503bcea2cd4af79734c58f345988549930fafb8ae059317c3203a7e96311';
const OTHER_ID = '00ad268c4d1f5826';
const UNEXPECTED = { outcome: 'unavailable', reason: 'unexpected response' };

const PROOF: Proof = { id: ID, amount: 4, secret: 'secret', C: point(1) };
const [FIRST, SECOND]: [BlindedMessage, BlindedMessage] = [
  { amount: 1, id: ID, B_: point(11) },
  { amount: 2, id: ID, B_: point(12) },
];
const OUTPUTS = [FIRST, SECOND];
const [SIGNATURE_1, SIGNATURE_2]: [BlindSignature, BlindSignature] = [
  { amount: 1, id: ID, C_: point(21), dleq: { e: '0a'.repeat(32), s: '0b'.repeat(32) } },
  { amount: 2, id: ID, C_: point(22) },
];
const SIGNATURES = [SIGNATURE_1, SIGNATURE_2];

describe('readKeysets', () => {
  it('returns the keysets as Nutshell and cdk-mintd list them', async () => {
    const client = answering({
      keysets: [
        { id: ID, unit: 'sat', active: true, input_fee_ppk: 100, final_expiry: null },
        { id: 'I2yN+iRY/kzT', unit: 'sat', active: false },
        { id: OTHER_ID, unit: 'usd', active: true, input_fee_ppk: null, final_expiry: 9 },
      ],
    });
    expect(await client.readKeysets(MINT)).toEqual({
      outcome: 'found',
      keysets: [
        { id: ID, unit: 'sat', active: true, inputFeePpk: 100 },
        { id: 'I2yN+iRY/kzT', unit: 'sat', active: false, inputFeePpk: 0 },
        { id: OTHER_ID, unit: 'usd', active: true, inputFeePpk: 0, finalExpiry: 9 },
      ],
    });
    expect(client.sent).toMatchObject([{ method: 'GET', url: `${MINT}/v1/keysets` }]);
  });

  it.each([
    null,
    { id: 7 },
    { id: '../swap' },
    { id: 'a'.repeat(67) },
    { active: 'yes' },
    { unit: 7 },
    { input_fee_ppk: -1 },
    { input_fee_ppk: 0.5 },
    { input_fee_ppk: 1e15 },
    { final_expiry: 'soon' },
  ])('skips a malformed keyset: %j', async (change) => {
    const good = { id: OTHER_ID, unit: 'sat', active: true };
    const client = answering({ keysets: [change && { ...good, ...change }, good] });
    const answer = await client.readKeysets(MINT);
    expect(answer).toMatchObject({ keysets: [{ id: OTHER_ID, inputFeePpk: 0 }] });
  });

  it('returns at most 1,000 keysets', async () => {
    const keysets = Array(5_000).fill({ id: OTHER_ID, unit: 'sat', active: false });
    const answer = await answering({ keysets }).readKeysets(MINT);
    expect(answer.outcome === 'found' && answer.keysets).toHaveLength(1_000);
  });
});

describe('readKeys', () => {
  const MANY_KEYS = Array.from({ length: 257 }, (_, i) => [String(i + 1), point(i)]);
  const KEYS = { '1': point(1), '2': point(2), '9223372036854775808': point(3) };

  it.each([
    [ID, ID],
    ['I2yN+iRY/kz=', 'I2yN-iRY_kz%3D'],
  ])('returns all keys of %s', async (id, path) => {
    const client = answering({ keysets: [{ id: OTHER_ID, keys: {} }, null, { id, keys: KEYS }] });
    const expected = { outcome: 'found', keys: { id, keys: KEYS } };
    expect(await client.readKeys(MINT, id)).toEqual(expected);
    expect(client.sent).toMatchObject([{ method: 'GET', url: `${MINT}/v1/keys/${path}` }]);
  });

  it.each([
    ['another keyset', { id: OTHER_ID, keys: KEYS }],
    ['no points', { id: ID, keys: { '1': 'abc' } }],
    ['uncompressed points', { id: ID, keys: { '1': `04${'11'.repeat(64)}` } }],
    ['a fractional amount', { id: ID, keys: { '0.5': point(1) } }],
    ['the amount 0', { id: ID, keys: { '0': point(1) } }],
    ['a word as amount', { id: ID, keys: { one: point(1) } }],
    ['257 keys', { id: ID, keys: Object.fromEntries(MANY_KEYS) }],
  ])('rejects %s', async (_case, keyset) => {
    expect(await answering({ keysets: [keyset] }).readKeys(MINT, ID)).toEqual(UNEXPECTED);
  });

  it.each([
    [400, { detail: `keyset not found: ${ID}`, code: 12001 }, { outcome: 'not_found' }],
    [404, { detail: 'Not Found' }, { outcome: 'unavailable', reason: 'status 404' }],
  ])('interprets status %i with %j', async (status, body, expected) => {
    expect(await answering(body, status).readKeys(MINT, ID)).toEqual(expected);
  });
});

describe('swap', () => {
  it('sends proofs without DLEQ proofs and returns a signature for each output', async () => {
    const client = answering({ signatures: [SIGNATURE_1, { ...SIGNATURE_2, dleq: null }] });
    const dleq = { e: '1', s: '2', r: '3' };
    const answer = await client.swap(MINT, [{ ...PROOF, dleq }], OUTPUTS);
    expect(answer).toEqual({ outcome: 'signed', signatures: SIGNATURES });
    expect(client.sent).toEqual([
      {
        method: 'POST',
        url: `${MINT}/v1/swap`,
        body: { inputs: [PROOF], outputs: OUTPUTS },
        maxBodyBytes: 66 * 1024,
      },
    ]);
  });

  it.each([
    ['too few signatures', { signatures: [SIGNATURE_2] }],
    ['too many signatures', { signatures: [...SIGNATURES, SIGNATURE_1] }],
    ['another order', { signatures: SIGNATURES.toReversed() }],
    ['another amount', { signatures: [SIGNATURE_1, { ...SIGNATURE_2, amount: 1 }] }],
    ['another keyset', { signatures: [SIGNATURE_1, { ...SIGNATURE_2, id: '00aa' }] }],
    ['no points', { signatures: [SIGNATURE_1, { ...SIGNATURE_2, C_: 'abc' }] }],
    ['amounts as text', { signatures: [SIGNATURE_1, { ...SIGNATURE_2, amount: '2' }] }],
    ['an empty object', {}],
    ['null', null],
    ['HTML', '<html>'],
  ])('returns an unknown outcome after %s', async (_case, body) => {
    expect(await answering(body).swap(MINT, [PROOF], OUTPUTS)).toEqual(UNEXPECTED);
  });

  const SPENT = { detail: 'proofs already spent', code: 11001 };

  it.each<[number, object | string, object]>([
    [400, SPENT, { outcome: 'rejected', reason: 'spent' }],
    [403, '<html>Access denied', { outcome: 'rejected', reason: 'other' }],
    [422, 'Failed to deserialize the JSON body', { outcome: 'rejected', reason: 'other' }],
    [429, { detail: 'Rate limit exceeded.' }, { outcome: 'rate_limited', retryAfterMs: null }],
    ...[301, 408, 500, 502, 504].map((status): [number, object, object] => [
      status,
      SPENT,
      { outcome: 'unavailable', reason: `status ${status}` },
    ]),
  ])('interprets status %i with %j', async (status, body, expected) => {
    expect(await answering(body, status).swap(MINT, [PROOF], OUTPUTS)).toEqual(expected);
  });

  it.each([{ isUnsent: true }, {}] as const)('keeps whether it was sent: %j', async (sent) => {
    const client = saying({ outcome: 'unreachable', reason: 'timed out', ...sent });
    const expected = { outcome: 'unavailable', reason: 'timed out', ...sent };
    expect(await client.swap(MINT, [PROOF], OUTPUTS)).toEqual(expected);
  });
});

describe('checkState', () => {
  const [A, B] = [point(31), point(32)] as const;
  const spent = { Y: A, state: 'SPENT' };

  it('sends lower-case points, which Nutshell requires, and returns states by point', async () => {
    const states = [
      { Y: B, state: 'PENDING', witness: null },
      { Y: A.toUpperCase(), state: 'SPENT' },
      { Y: point(33), state: 'UNSPENT' },
    ];
    const client = answering({ states });
    expect(await client.checkState(MINT, [A.toUpperCase(), B])).toEqual({
      outcome: 'found',
      states: new Map([
        [A, 'SPENT'],
        [B, 'PENDING'],
      ]),
    });
    expect(client.sent).toMatchObject([{ body: { Ys: [A, B] }, maxBodyBytes: 68 * 1024 }]);
  });

  it.each([
    ['a missing proof', [spent]],
    ['two states', [spent, { Y: B, state: 'UNSPENT' }, { Y: A.toUpperCase(), state: 'UNSPENT' }]],
    ['an unknown state', [spent, { Y: B, state: 'BURNT' }]],
    ['no states', undefined],
    ['too many states', [...Array(1_000).fill(spent), { Y: B, state: 'SPENT' }]],
  ])('rejects %s', async (_case, states) => {
    expect(await answering({ states }).checkState(MINT, [A, B])).toEqual(UNEXPECTED);
  });

  it('returns unavailable if the mint rejects the request', async () => {
    const expected = { outcome: 'unavailable', reason: 'status 400' };
    expect(await answering({ detail: 'no' }, 400).checkState(MINT, [A])).toEqual(expected);
  });
});

describe('restore', () => {
  it.each([
    ['one', { outputs: [{ ...SECOND, C_: null }], signatures: [SIGNATURE_2] }, [SIGNATURE_2]],
    ['one of an older mint', { outputs: [SECOND], promises: [SIGNATURE_2] }, [SIGNATURE_2]],
    ['none', { outputs: [], signatures: [] }, []],
  ])('returns the signatures by output: %s', async (_case, body, signatures) => {
    const client = answering(body);
    expect(await client.restore(MINT, OUTPUTS)).toEqual({
      outcome: 'found',
      restored: signatures.map((signature) => ({ B_: SECOND.B_, signature })),
    });
    expect(client.sent).toMatchObject([{ url: `${MINT}/v1/restore`, body: { outputs: OUTPUTS } }]);
  });

  it("matches outputs in any case and uses the signature's amount", async () => {
    const blank = { ...SECOND, amount: 0 };
    const signature = { ...SIGNATURE_2, amount: 1024 };
    const outputs = [{ ...blank, B_: SECOND.B_.toUpperCase() }];
    const answer = await answering({ outputs, signatures: [signature] }).restore(MINT, [blank]);
    expect(answer).toEqual({ outcome: 'found', restored: [{ B_: SECOND.B_, signature }] });
  });

  it.each([
    ['an empty object', {}],
    ['outputs without signatures', { outputs: [FIRST], signatures: [] }],
    ['signatures without outputs', { outputs: [], signatures: [SIGNATURE_2] }],
    ['neither signatures nor promises', { outputs: [] }],
    ['unknown outputs', { outputs: [{ B_: point(99) }], signatures: [SIGNATURE_2] }],
    ['an output twice', { outputs: [SECOND, SECOND], signatures: [SIGNATURE_2, SIGNATURE_2] }],
    ['another keyset', { outputs: [SECOND], signatures: [{ ...SIGNATURE_2, id: '00aa' }] }],
    ['a malformed signature', { outputs: [SECOND], signatures: [{ ...SIGNATURE_2, C_: 'abc' }] }],
  ])('rejects %s instead of reporting that nothing was signed', async (_case, body) => {
    expect(await answering(body).restore(MINT, OUTPUTS)).toEqual(UNEXPECTED);
  });
});

/** Creates a client of a mint that returns the same response to every request. */
function saying(answer: GuardedResponse) {
  const sent: GuardedRequest[] = [];
  const fetch = {
    request: async (request: GuardedRequest) => {
      sent.push(JSON.parse(JSON.stringify(request)));
      return answer;
    },
  };
  return Object.assign(new EcashClient({ fetch, clock: Date.now }), { sent });
}

function answering(body: unknown, status = 200) {
  const isText = typeof body === 'string';
  return saying({
    outcome: 'responded',
    status,
    headers: new Map([['content-type', isText ? 'text/html' : 'application/json']]),
    text: isText ? body : JSON.stringify(body),
  });
}

/** Looks like a compressed point; the client does not check that it is on the curve. */
function point(number: number): string {
  return `02${number.toString(16).padStart(64, 'a')}`;
}
