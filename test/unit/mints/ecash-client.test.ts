import { describe, expect, it } from 'vitest';
import type { BlindedMessage, BlindSignature, Proof } from '../../../src/mints/ecash.ts';
import { EcashClient } from '../../../src/mints/ecash-client.ts';
import type { GuardedRequest } from '../../../src/net/guarded-fetch.ts';
import type { HttpResponse } from '../../../src/net/http-client.ts';

const MINT_URL = 'https://mint.example/Bitcoin';
const KEYSET_ID = '01fc7e503bcea2cd4af79734c58f345988549930fafb8ae059317c3203a7e96311';
const OTHER_ID = '00ad268c4d1f5826';
const UNEXPECTED = { outcome: 'unavailable', reason: 'unexpected response' };

const PROOF: Proof = { id: KEYSET_ID, amount: 4, secret: 'secret', C: point(1) };
const [OUTPUT_1, OUTPUT_2]: [BlindedMessage, BlindedMessage] = [
  { amount: 1, id: KEYSET_ID, B_: point(11) },
  { amount: 2, id: KEYSET_ID, B_: point(12) },
];
const OUTPUTS = [OUTPUT_1, OUTPUT_2];
const [SIGNATURE_1, SIGNATURE_2]: [BlindSignature, BlindSignature] = [
  { amount: 1, id: KEYSET_ID, C_: point(21) },
  { amount: 2, id: KEYSET_ID, C_: point(22) },
];
const SIGNATURES = [SIGNATURE_1, SIGNATURE_2];

describe('readKeysets', () => {
  it('returns the keysets that Nutshell and cdk-mintd list', async () => {
    const client = clientFor({
      keysets: [
        { id: KEYSET_ID, unit: 'sat', active: true, input_fee_ppk: 100, final_expiry: null },
        { id: 'I2yN+iRY/kzT', unit: 'sat', active: false },
        { id: OTHER_ID, unit: 'usd', active: true, input_fee_ppk: null, final_expiry: 9 },
      ],
    });
    expect(await client.readKeysets(MINT_URL)).toEqual({
      outcome: 'found',
      keysets: [
        { id: KEYSET_ID, unit: 'sat', active: true, inputFeePpk: 100 },
        { id: 'I2yN+iRY/kzT', unit: 'sat', active: false, inputFeePpk: 0 },
        { id: OTHER_ID, unit: 'usd', active: true, inputFeePpk: 0, finalExpiry: 9 },
      ],
    });
    expect(client.requests).toMatchObject([{ url: `${MINT_URL}/v1/keysets` }]);
  });

  it.each([null, { id: '../swap' }, { id: 'a'.repeat(67) }, { input_fee_ppk: -1 }])(
    'skips a keyset with the malformed value %j',
    async (change) => {
      const validKeyset = { id: OTHER_ID, unit: 'sat', active: true };
      const client = clientFor({ keysets: [change && { ...validKeyset, ...change }, validKeyset] });
      const result = await client.readKeysets(MINT_URL);
      expect(result).toMatchObject({ keysets: [{ id: OTHER_ID, inputFeePpk: 0 }] });
    },
  );
});

describe('readKeys', () => {
  const MANY_KEYS = Array.from({ length: 257 }, (_, i) => [String(i + 1), point(i)]);
  const KEYS = { '1': point(1), '2': point(2), '9223372036854775808': point(3) };

  it('returns all keys of a keyset', async () => {
    const client = clientFor({
      keysets: [{ id: OTHER_ID, keys: {} }, null, { id: KEYSET_ID, keys: KEYS }],
    });
    const expected = { outcome: 'found', keys: { id: KEYSET_ID, keys: KEYS } };
    expect(await client.readKeys(MINT_URL, KEYSET_ID)).toEqual(expected);
  });

  it.each([
    ['another keyset', { id: OTHER_ID, keys: KEYS }],
    ['keys that are not points', { id: KEYSET_ID, keys: { '1': 'abc' } }],
    ['a key for the amount 0', { id: KEYSET_ID, keys: { '0': point(1) } }],
    ['257 keys', { id: KEYSET_ID, keys: Object.fromEntries(MANY_KEYS) }],
  ])('returns "unexpected response" for %s', async (_case, keyset) => {
    const client = clientFor({ keysets: [keyset] });
    expect(await client.readKeys(MINT_URL, KEYSET_ID)).toEqual(UNEXPECTED);
  });
});

describe('swap', () => {
  const responseWith = (change: object) => ({
    signatures: [SIGNATURE_1, { ...SIGNATURE_2, ...change }],
  });

  it('returns a signature for each output', async () => {
    const client = clientFor(responseWith({ amount: '2', dleq: null }));
    const result = await client.swap(MINT_URL, [PROOF], OUTPUTS);
    expect(result).toEqual({ outcome: 'signed', signatures: SIGNATURES });
    expect(client.requests).toMatchObject([{ body: { inputs: [PROOF], outputs: OUTPUTS } }]);
  });

  it.each([
    ['too few signatures', { signatures: [SIGNATURE_2] }],
    ['a signature that is not a point', responseWith({ C_: 'abc' })],
    ['an empty object', {}],
  ])('returns "unexpected response" for %s', async (_case, body) => {
    expect(await clientFor(body).swap(MINT_URL, [PROOF], OUTPUTS)).toEqual(UNEXPECTED);
  });

  const SPENT_ERROR = { detail: 'proofs already spent', code: 11001 };

  it.each<[object, number, object | string]>([
    [{ outcome: 'rejected', reason: 'spent' }, 400, SPENT_ERROR],
    [{ outcome: 'rejected', reason: 'other' }, 403, '<html>Access denied'],
    [{ outcome: 'rejected', reason: 'other' }, 422, 'Failed to deserialize the JSON body'],
    [{ outcome: 'rate_limited', retryAfterMs: null }, 429, { detail: 'Rate limit exceeded.' }],
    ...[301, 408, 500, 502, 504].map((status): [object, number, object] => [
      { outcome: 'unavailable', reason: 'unexpected status', status },
      status,
      SPENT_ERROR,
    ]),
  ])('returns %j for the status %i with the body %j', async (expected, status, body) => {
    expect(await clientFor(body, status).swap(MINT_URL, [PROOF], OUTPUTS)).toEqual(expected);
  });
});

describe('checkState', () => {
  const [Y_1, Y_2] = [point(31), point(32)] as const;
  const spentState = { Y: Y_1, state: 'SPENT' };

  it('returns states by point', async () => {
    const states = [
      { Y: Y_2, state: 'PENDING', witness: null },
      { Y: Y_1.toUpperCase(), state: 'SPENT' },
      { Y: point(33), state: 'UNSPENT' },
    ];
    const expected = new Map([
      [Y_1, 'SPENT'],
      [Y_2, 'PENDING'],
    ]);
    const result = await clientFor({ states }).checkState(MINT_URL, [Y_1, Y_2]);
    expect(result).toEqual({ outcome: 'found', states: expected });
  });

  it.each([
    ['a missing state', [spentState]],
    ['an unknown state', [spentState, { Y: Y_2, state: 'BURNT' }]],
    ['too many states', [...Array(4).fill(spentState), { Y: Y_2, state: 'SPENT' }]],
  ])('returns "unexpected response" for %s', async (_case, states) => {
    expect(await clientFor({ states }).checkState(MINT_URL, [Y_1, Y_2])).toEqual(UNEXPECTED);
  });
});

describe('restore', () => {
  it.each([
    [
      'a signature with its output',
      { outputs: [{ ...OUTPUT_2, C_: null }], signatures: [SIGNATURE_2] },
      [SIGNATURE_2],
    ],
    [
      'a signature that an older mint calls a promise',
      { outputs: [OUTPUT_2], promises: [SIGNATURE_2] },
      [SIGNATURE_2],
    ],
    ['an empty list if the mint has signed no output', { outputs: [], signatures: [] }, []],
  ])('returns %s', async (_case, body, signatures) => {
    const client = clientFor(body);
    expect(await client.restore(MINT_URL, OUTPUTS)).toEqual({
      outcome: 'found',
      restored: signatures.map((signature) => ({ B_: OUTPUT_2.B_, signature })),
    });
    expect(client.requests).toMatchObject([
      { url: `${MINT_URL}/v1/restore`, body: { outputs: OUTPUTS } },
    ]);
  });

  it("ignores the letter case of outputs and uses the signature's amount", async () => {
    const blankOutput = { ...OUTPUT_2, amount: 0 };
    const signature = { ...SIGNATURE_2, amount: 1024 };
    const outputs = [{ ...blankOutput, B_: OUTPUT_2.B_.toUpperCase() }];
    const client = clientFor({ outputs, signatures: [signature] });
    const result = await client.restore(MINT_URL, [blankOutput]);
    expect(result).toEqual({ outcome: 'found', restored: [{ B_: OUTPUT_2.B_, signature }] });
  });

  it.each([
    ['an empty object', {}],
    ['outputs without signatures', { outputs: [OUTPUT_1], signatures: [] }],
    ['signatures without outputs', { outputs: [], signatures: [SIGNATURE_2] }],
    ['unknown outputs', { outputs: [{ B_: point(99) }], signatures: [SIGNATURE_2] }],
    ['an output twice', { outputs: [OUTPUT_2, OUTPUT_2], signatures: [SIGNATURE_2, SIGNATURE_2] }],
    [
      'a signature of another keyset',
      { outputs: [OUTPUT_2], signatures: [{ ...SIGNATURE_2, id: '00aa' }] },
    ],
    ['a malformed signature', { outputs: [OUTPUT_2], signatures: [{ ...SIGNATURE_2, C_: 'abc' }] }],
  ])('returns "unexpected response" for %s', async (_case, body) => {
    // An empty list would mean that the mint has not signed the outputs.
    expect(await clientFor(body).restore(MINT_URL, OUTPUTS)).toEqual(UNEXPECTED);
  });
});

function clientFor(body: unknown, status = 200) {
  const isText = typeof body === 'string';
  const requests: GuardedRequest[] = [];
  const fetch = {
    request: async (request: GuardedRequest): Promise<HttpResponse> => {
      requests.push(JSON.parse(JSON.stringify(request)));
      const headers = new Map([['content-type', isText ? 'text/html' : 'application/json']]);
      const json = isText ? undefined : body;
      return { outcome: 'responded', status, headers, json, text: isText ? body : '' };
    },
  };
  return Object.assign(new EcashClient({ fetch, clock: Date.now }), { requests });
}

/** Returns a number in the format of a compressed point. It need not be on the curve. */
function point(number: number): string {
  return `02${number.toString(16).padStart(64, 'a')}`;
}
