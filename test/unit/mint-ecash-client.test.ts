import { describe, expect, it } from 'vitest';
import type { BlindedMessage, BlindSignature, Proof } from '../../src/domain/ecash.ts';
import { EcashClient } from '../../src/mint/ecash-client.ts';
import type { GuardedAnswer, GuardedRequest } from '../../src/net/guarded-fetch.ts';

const MINT = 'https://mint.example/Bitcoin';
const NOW = Date.parse('2026-11-21T10:00:00Z');
const ID = '01fc7e503bcea2cd4af79734c58f345988549930fafb8ae059317c3203a7e96311';
const UNEXPECTED = { outcome: 'unavailable', reason: 'unexpected answer' };

const PROOF: Proof = { id: ID, amount: 4, secret: 'secret', C: point(1) };
const OUTPUTS: BlindedMessage[] = [
  { amount: 1, id: ID, B_: point(11) },
  { amount: 2, id: ID, B_: point(12) },
];
const SIGNATURES: BlindSignature[] = [
  { amount: 1, id: ID, C_: point(21), dleq: { e: '0a'.repeat(32), s: '0b'.repeat(32) } },
  { amount: 2, id: ID, C_: point(22) },
];

describe('the keysets of a mint', () => {
  it('are read as Nutshell and cdk-mintd list them', async () => {
    const client = answering({
      keysets: [
        { id: ID, unit: 'sat', active: true, input_fee_ppk: 100, final_expiry: null },
        { id: 'I2yN+iRY/kzT', unit: 'sat', active: false },
        { id: '00ad268c4d1f5826', unit: 'usd', active: true, input_fee_ppk: null, final_expiry: 9 },
      ],
    });
    expect(await client.readKeysets(MINT)).toEqual({
      outcome: 'found',
      keysets: [
        { id: ID, unit: 'sat', active: true, inputFeePpk: 100 },
        { id: 'I2yN+iRY/kzT', unit: 'sat', active: false, inputFeePpk: 0 },
        { id: '00ad268c4d1f5826', unit: 'usd', active: true, inputFeePpk: 0, finalExpiry: 9 },
      ],
    });
    expect(client.sent).toEqual([{ method: 'GET', url: `${MINT}/v1/keysets` }]);
  });

  it('are without those that are malformed', async () => {
    const good = { id: '00ad268c4d1f5826', unit: 'sat', active: true };
    const client = answering({
      keysets: [
        null,
        7,
        { ...good, id: 7 },
        { ...good, id: '../swap' },
        { ...good, id: 'a'.repeat(67) },
        { ...good, active: 'yes' },
        { ...good, unit: undefined },
        { ...good, input_fee_ppk: -1 },
        { ...good, input_fee_ppk: 0.5 },
        { ...good, final_expiry: 'soon' },
        { ...good, input_fee_ppk: 1e15 },
        good,
      ],
    });
    expect(await client.readKeysets(MINT)).toMatchObject({
      keysets: [{ id: '00ad268c4d1f5826' }],
    });
  });

  it('are no more than there can be', async () => {
    const keysets = Array.from({ length: 5_000 }, (_, i) => ({
      id: `00${i.toString(16).padStart(14, '0')}`,
      unit: 'sat',
      active: false,
    }));
    const answer = await answering({ keysets }).readKeysets(MINT);
    expect(answer.outcome === 'found' && answer.keysets).toHaveLength(1_000);
  });
});

describe('the keys of a keyset', () => {
  const KEYS = { '1': point(1), '2': point(2), '9223372036854775808': point(3) };

  it('are read in full: its id follows from all of them', async () => {
    const other = { id: '00ad268c4d1f5826', unit: 'sat', keys: { '1': point(9) } };
    const asked = { id: ID, unit: 'sat', active: true, input_fee_ppk: 0, keys: KEYS };
    const client = answering({ keysets: [other, null, asked] });
    expect(await client.readKeys(MINT, ID)).toEqual({
      outcome: 'found',
      keys: { id: ID, keys: KEYS },
    });
    expect(client.sent).toEqual([{ method: 'GET', url: `${MINT}/v1/keys/${ID}` }]);
  });

  it('are asked for by an old id in the way that Nutshell understands', async () => {
    const client = answering({ keysets: [{ id: 'I2yN+iRY/kz=', keys: KEYS }] });
    expect(await client.readKeys(MINT, 'I2yN+iRY/kz=')).toMatchObject({ outcome: 'found' });
    expect(client.sent[0]?.url).toBe(`${MINT}/v1/keys/I2yN-iRY_kz%3D`);
  });

  it.each([
    ['of another keyset', { id: '00ad268c4d1f5826', keys: KEYS }],
    ['that are no points', { id: ID, keys: { '1': 'abc' } }],
    ['that are uncompressed', { id: ID, keys: { '1': `04${'11'.repeat(64)}` } }],
    ['of a fraction', { id: ID, keys: { '0.5': point(1) } }],
    ['of nothing', { id: ID, keys: { '0': point(1) } }],
    ['of words', { id: ID, keys: { one: point(1) } }],
    ['without end', { id: ID, keys: Object.fromEntries(manyKeys()) }],
  ])('are not taken %s', async (_what, keyset) => {
    expect(await answering({ keysets: [keyset] }).readKeys(MINT, ID)).toEqual(UNEXPECTED);
  });

  it.each([
    { detail: `keyset not found: ${ID}`, code: 12001 },
    { code: 12001, detail: 'Unknown Keyset' },
  ])('are not found where the mint says %j', async (body) => {
    expect(await answering(body, 400).readKeys(MINT, ID)).toEqual({ outcome: 'not_found' });
  });

  it('are not given up for a route that is not there', async () => {
    expect(await answering({ detail: 'Not Found' }, 404).readKeys(MINT, ID)).toEqual({
      outcome: 'unavailable',
      reason: 'status 404',
    });
  });
});

describe('a swap', () => {
  it('gives what the mint needs of the proofs and not where they come from', async () => {
    const client = answering({ signatures: SIGNATURES });
    const dleq = { e: '1', s: '2', r: '3' };
    const locked: Proof = { ...PROOF, secret: 'locked', witness: '{"signatures":[]}' };
    await client.swap(MINT, [{ ...PROOF, dleq }, locked], OUTPUTS);
    expect(client.sent).toEqual([
      {
        method: 'POST',
        url: `${MINT}/v1/swap`,
        body: {
          inputs: [
            { id: ID, amount: 4, secret: 'secret', C: point(1) },
            { id: ID, amount: 4, secret: 'locked', C: point(1), witness: '{"signatures":[]}' },
          ],
          outputs: OUTPUTS,
        },
      },
    ]);
  });

  it('ends with a signature on each output', async () => {
    const client = answering({ signatures: [SIGNATURES[0], { ...SIGNATURES[1], dleq: null }] });
    expect(await client.swap(MINT, [PROOF], OUTPUTS)).toEqual({
      outcome: 'signed',
      signatures: SIGNATURES,
    });
  });

  it.each([
    ['too few signatures', { signatures: SIGNATURES.slice(1) }],
    ['too many signatures', { signatures: [...SIGNATURES, SIGNATURES[0]] }],
    ['signatures in another order', { signatures: SIGNATURES.toReversed() }],
    ['another amount', { signatures: [SIGNATURES[0], { ...SIGNATURES[1], amount: 1 }] }],
    ['another keyset', { signatures: [SIGNATURES[0], { ...SIGNATURES[1], id: '00aa' }] }],
    ['no points', { signatures: [SIGNATURES[0], { ...SIGNATURES[1], C_: 'abc' }] }],
    ['amounts in text', { signatures: [SIGNATURES[0], { ...SIGNATURES[1], amount: '2' }] }],
    ['nothing', {}],
    ['null', null],
    ['no JSON', '<html>'],
  ])('may have been done where the mint answers with %s', async (_what, body) => {
    expect(await answering(body).swap(MINT, [PROOF], OUTPUTS)).toEqual(UNEXPECTED);
  });

  it('is refused with the reason and the words of the mint', async () => {
    const client = answering({ detail: 'proofs already spent', code: 11001 }, 400);
    expect(await client.swap(MINT, [PROOF], OUTPUTS)).toEqual({
      outcome: 'refused',
      reason: 'spent',
      detail: 'proofs already spent',
    });
  });

  it.each([
    [403, '<html>Access denied'],
    [404, { detail: 'Not Found' }],
    [422, 'Failed to deserialize the JSON body into the target type'],
  ])('is refused for no sure reason with status %i', async (status, body) => {
    expect(await answering(body, status).swap(MINT, [PROOF], OUTPUTS)).toMatchObject({
      outcome: 'refused',
      reason: 'other',
    });
  });

  it('was not done where the mint wants to be left alone', async () => {
    const client = answering({ detail: 'Rate limit exceeded.' }, 429);
    expect(await client.swap(MINT, [PROOF], OUTPUTS)).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: null,
    });
  });

  it.each([301, 408, 500, 502, 504])('may have been done with status %i', async (status) => {
    const spent = { detail: 'proofs already spent', code: 11001 };
    expect(await answering(spent, status).swap(MINT, [PROOF], OUTPUTS)).toEqual({
      outcome: 'unavailable',
      reason: `status ${status}`,
    });
  });

  it('was certainly not done where not a byte was sent, and may have been otherwise', async () => {
    const refused = { outcome: 'unreachable', reason: 'connection refused' } as const;
    expect(await saying({ ...refused, isUnsent: true }).swap(MINT, [PROOF], OUTPUTS)).toEqual({
      outcome: 'unavailable',
      reason: 'connection refused',
      isUnsent: true,
    });
    const lost = { outcome: 'unreachable', reason: 'timed out' } as const;
    expect(await saying(lost).swap(MINT, [PROOF], OUTPUTS)).toEqual({
      outcome: 'unavailable',
      reason: 'timed out',
    });
  });
});

describe('the state of proofs', () => {
  const [A, B] = [point(31), point(32)] as const;

  it('is found by their point', async () => {
    const client = answering({
      states: [
        { Y: B, state: 'PENDING', witness: null },
        { Y: A, state: 'SPENT' },
        { Y: point(33), state: 'UNSPENT' },
      ],
    });
    expect(await client.checkState(MINT, [A, B])).toEqual({
      outcome: 'found',
      states: new Map([
        [A, 'SPENT'],
        [B, 'PENDING'],
      ]),
    });
  });

  it('is asked for in lower case, in which alone Nutshell finds that a proof is spent', async () => {
    const client = answering({ states: [{ Y: A.toUpperCase(), state: 'SPENT' }] });
    expect(await client.checkState(MINT, [A.toUpperCase()])).toEqual({
      outcome: 'found',
      states: new Map([[A, 'SPENT']]),
    });
    expect(client.sent[0]?.body).toEqual({ Ys: [A] });
  });

  it.each([
    ['one is missing', [{ Y: A, state: 'SPENT' }]],
    [
      'one has two states',
      [
        { Y: A, state: 'SPENT' },
        { Y: B, state: 'UNSPENT' },
        { Y: A.toUpperCase(), state: 'UNSPENT' },
      ],
    ],
    [
      'one has no known state',
      [
        { Y: A, state: 'SPENT' },
        { Y: B, state: 'BURNT' },
      ],
    ],
    ['there are none', undefined],
    [
      'there are more than can be asked for',
      Array.from({ length: 1_001 }, (_, index) => ({ Y: index % 2 === 0 ? A : B, state: 'SPENT' })),
    ],
  ])('is not known where %s', async (_what, states) => {
    expect(await answering({ states }).checkState(MINT, [A, B])).toEqual(UNEXPECTED);
  });

  it('is not known of a mint that refuses to say', async () => {
    expect(await answering({ detail: 'no' }, 400).checkState(MINT, [A])).toEqual({
      outcome: 'unavailable',
      reason: 'status 400',
    });
  });
});

describe('what a mint signed before', () => {
  const [FIRST, SECOND] = OUTPUTS as [BlindedMessage, BlindedMessage];
  const [, SIGNATURE] = SIGNATURES as [BlindSignature, BlindSignature];

  it('is restored by the output that it was signed on', async () => {
    const client = answering({
      outputs: [{ ...SECOND, B_: SECOND.B_.toUpperCase(), C_: null }],
      signatures: [SIGNATURE],
    });
    expect(await client.restore(MINT, OUTPUTS)).toEqual({
      outcome: 'found',
      restored: [{ B_: SECOND.B_, signature: SIGNATURE }],
    });
    expect(client.sent).toEqual([
      { method: 'POST', url: `${MINT}/v1/restore`, body: { outputs: OUTPUTS } },
    ]);
  });

  it('is restored from an older mint', async () => {
    const client = answering({ outputs: [SECOND], promises: [SIGNATURE] });
    expect(await client.restore(MINT, OUTPUTS)).toMatchObject({ restored: [{ B_: SECOND.B_ }] });
  });

  it('has the amount of the signature where the output had none', async () => {
    const blank = { ...SECOND, amount: 0 };
    const client = answering({ outputs: [blank], signatures: [{ ...SIGNATURE, amount: 1024 }] });
    expect(await client.restore(MINT, [blank])).toMatchObject({
      restored: [{ signature: { amount: 1024 } }],
    });
  });

  it('is nothing only where the mint says so in so many words', async () => {
    expect(await answering({ outputs: [], signatures: [] }).restore(MINT, OUTPUTS)).toEqual({
      outcome: 'found',
      restored: [],
    });
  });

  it.each([
    ['an empty answer', {}],
    ['outputs without signatures', { outputs: [FIRST], signatures: [] }],
    ['signatures without outputs', { outputs: [], signatures: [SIGNATURE] }],
    ['neither signatures nor promises', { outputs: [] }],
    ['outputs that were not asked for', { outputs: [{ B_: point(99) }], signatures: [SIGNATURE] }],
    [
      'one output twice',
      { outputs: [SECOND, SECOND], signatures: [SIGNATURE, { ...SIGNATURE, C_: point(77) }] },
    ],
    ['another keyset', { outputs: [SECOND], signatures: [{ ...SIGNATURE, id: '00aa' }] }],
    ['a malformed signature', { outputs: [SECOND], signatures: [{ ...SIGNATURE, C_: 'abc' }] }],
  ])('is not taken for nothing where the mint answers %s', async (_what, body) => {
    expect(await answering(body).restore(MINT, OUTPUTS)).toEqual(UNEXPECTED);
  });
});

describe('a melt quote', () => {
  const QUOTE = {
    quote: '01a1fd7f-50e8-7642-a78a-937b2d85ab75',
    amount: 1000,
    unit: 'sat',
    fee_reserve: 10,
    paid: false,
    state: 'UNPAID',
    expiry: 1_708_197_447,
    change: null,
  };

  it('tells what it costs to pay an invoice', async () => {
    const client = answering(QUOTE);
    expect(await client.createMeltQuote(MINT, 'lnbc10u1')).toEqual({
      outcome: 'created',
      quote: {
        quoteId: QUOTE.quote,
        amountSat: 1000,
        feeReserveSat: 10,
        expiresAt: 1_708_197_447,
      },
    });
    expect(client.sent).toEqual([
      {
        method: 'POST',
        url: `${MINT}/v1/melt/quote/bolt11`,
        body: { request: 'lnbc10u1', unit: 'sat' },
      },
    ]);
  });

  it.each([0, null, undefined, 'soon'])('has no expiry where the mint says %j', async (expiry) => {
    expect(await answering({ ...QUOTE, expiry }).createMeltQuote(MINT, 'lnbc1')).toMatchObject({
      quote: { expiresAt: null },
    });
  });

  it.each([
    ['another unit', { unit: 'usd' }],
    ['no amount', { amount: undefined }],
    ['an amount in text', { amount: '1000' }],
    ['a negative reserve', { fee_reserve: -1 }],
    ['an id that is a folder', { quote: '..' }],
  ])('is not taken with %s', async (_what, fields) => {
    const client = answering({ ...QUOTE, ...fields });
    expect(await client.createMeltQuote(MINT, 'lnbc1')).toEqual(UNEXPECTED);
  });

  it('may be refused', async () => {
    const client = answering({ detail: 'Bech32 string is not valid.', code: 0 }, 400);
    expect(await client.createMeltQuote(MINT, 'nonsense')).toEqual({
      outcome: 'refused',
      detail: 'Bech32 string is not valid.',
    });
  });

  it('tells how the payment stands', async () => {
    const client = answering({ ...QUOTE, state: 'PAID', change: [SIGNATURES[0]] });
    expect(await client.readMeltQuote(MINT, QUOTE.quote)).toEqual({
      outcome: 'found',
      state: 'PAID',
      change: [SIGNATURES[0]],
    });
    expect(client.sent[0]?.url).toBe(`${MINT}/v1/melt/quote/bolt11/${QUOTE.quote}`);
  });

  it.each([
    [
      { state: 'UNPAID', change: [] },
      { state: 'UNPAID', change: [] },
    ],
    [
      { state: 'PENDING', change: null },
      { state: 'PENDING', change: null },
    ],
    [
      { state: 'PAID', change: ['nonsense'] },
      { state: 'PAID', change: null },
    ],
    // More than there are powers of two.
    [
      { state: 'PAID', change: Array.from({ length: 65 }, () => SIGNATURES[1]) },
      { state: 'PAID', change: null },
    ],
    [
      { state: undefined, paid: true },
      { state: 'PAID', change: null },
    ],
    // A mint that knows no states says no more than that it has not been paid yet.
    [
      { state: undefined, paid: false },
      { state: 'PENDING', change: null },
    ],
  ])('that says %j stands so: %j', async (fields, expected) => {
    const client = answering({ ...QUOTE, ...fields });
    expect(await client.readMeltQuote(MINT, QUOTE.quote)).toEqual({
      outcome: 'found',
      ...expected,
    });
  });

  it.each([{ state: 'UNKNOWN' }, { state: undefined, paid: undefined }, { quote: 'another' }])(
    'says nothing with %j',
    async (fields) => {
      const client = answering({ ...QUOTE, ...fields });
      expect(await client.readMeltQuote(MINT, QUOTE.quote)).toEqual(UNEXPECTED);
    },
  );

  it('may be unknown to the mint', async () => {
    const client = answering({ detail: 'quote not found', code: 0 }, 400);
    expect(await client.readMeltQuote(MINT, QUOTE.quote)).toEqual({ outcome: 'not_found' });
    expect(await client.readMeltQuote(MINT, '..')).toEqual({ outcome: 'not_found' });
    expect(client.sent).toHaveLength(1);
  });
});

describe('a melt', () => {
  const ORDER = { quoteId: 'q', inputs: [PROOF], outputs: OUTPUTS };

  it('gives the proofs, and outputs for the change where there are any', async () => {
    const client = answering({ quote: 'q', state: 'PAID', change: [SIGNATURES[0]] });
    expect(await client.melt(MINT, ORDER)).toEqual({
      outcome: 'answered',
      state: 'PAID',
      change: [SIGNATURES[0]],
    });
    await client.melt(MINT, { ...ORDER, outputs: [] });
    expect(client.sent.map(({ body }) => body)).toEqual([
      { quote: 'q', inputs: [PROOF], outputs: OUTPUTS },
      { quote: 'q', inputs: [PROOF] },
    ]);
    expect(client.sent[0]?.url).toBe(`${MINT}/v1/melt/bolt11`);
  });

  it('may take its time', async () => {
    expect(await answering({ quote: 'q', state: 'PENDING' }).melt(MINT, ORDER)).toMatchObject({
      outcome: 'answered',
      state: 'PENDING',
    });
  });

  it('may fail to pay', async () => {
    const client = answering({ detail: 'Lightning payment failed.', code: 20004 }, 400);
    expect(await client.melt(MINT, ORDER)).toEqual({
      outcome: 'refused',
      reason: 'payment_failed',
      detail: 'Lightning payment failed.',
    });
  });

  it('may have been done where the answer is of another quote', async () => {
    const client = answering({ quote: 'another', state: 'PAID' });
    expect(await client.melt(MINT, ORDER)).toEqual(UNEXPECTED);
  });
});

describe('an answer', () => {
  it('may be as long as there is to say, and no longer', async () => {
    const client = answering({});
    const hundred = Array.from({ length: 100 }, () => OUTPUTS[0] as BlindedMessage);
    await client.readKeysets(MINT);
    await client.readKeys(MINT, ID);
    await client.createMeltQuote(MINT, 'lnbc10u1');
    await client.readMeltQuote(MINT, 'q');
    for (const outputs of [hundred.slice(0, 2), hundred]) {
      await client.swap(MINT, [PROOF], outputs);
      await client.restore(MINT, outputs);
      await client.melt(MINT, { quoteId: 'q', inputs: [PROOF], outputs });
      await client.checkState(
        MINT,
        outputs.map(({ B_ }) => B_),
      );
    }
    expect(client.bounds.map((bytes) => Math.round(bytes / 1024))).toEqual([
      256, 64, 64, 64, 66, 66, 66, 68, 164, 164, 164, 264,
    ]);
  });
});

/** A client of a mint that says one thing to everything. */
function saying(answer: GuardedAnswer) {
  const sent: Omit<GuardedRequest, 'maxBodyBytes'>[] = [];
  const bounds: number[] = [];
  const fetch = {
    request: async ({ maxBodyBytes = Infinity, ...request }: GuardedRequest) => {
      bounds.push(maxBodyBytes);
      // As it goes out: what is undefined is left out, and what is no JSON would not go.
      sent.push(JSON.parse(JSON.stringify(request)));
      return answer;
    },
  };
  return Object.assign(new EcashClient({ fetch, clock: () => NOW }), { sent, bounds });
}

function answering(body: unknown, status = 200) {
  const isText = typeof body === 'string';
  return saying({
    outcome: 'answered',
    status,
    headers: new Map([['content-type', isText ? 'text/html' : 'application/json']]),
    text: isText ? body : JSON.stringify(body),
  });
}

/** No curve is asked whether it is on it. */
function point(number: number): string {
  return `02${number.toString(16).padStart(64, 'a')}`;
}

function manyKeys(): [string, string][] {
  return Array.from({ length: 257 }, (_, i) => [String(i + 1), point(i)]);
}
