import { expect, it } from 'vitest';
import { parseMintInfo } from '../../../src/mints/mint-info.ts';

const BOLT11_SAT = { method: 'bolt11', unit: 'sat' };
const SUPPORTED = { supported: true };

/** The relevant parts of the info of Nutshell 0.20.2. */
const NUTSHELL_INFO = {
  version: 'Nutshell/0.20.2',
  nuts: {
    4: { methods: [{ ...BOLT11_SAT, options: { description: true } }], disabled: false },
    7: SUPPORTED,
    9: SUPPORTED,
    17: { supported: [{ ...BOLT11_SAT, commands: ['bolt11_melt_quote', 'bolt11_mint_quote'] }] },
    20: SUPPORTED,
    29: { supported: true, max_batch_size: 1000, methods: ['bolt11'] },
  },
};

/** The relevant parts of the info of cdk-mintd 0.18.3. */
const CDK_INFO = {
  nuts: {
    4: {
      methods: [
        { method: 'onchain', unit: 'sat', min_amount: 5, max_amount: 7 },
        { ...BOLT11_SAT, min_amount: 1, max_amount: 500000, options: { description: true } },
      ],
      disabled: false,
    },
    7: SUPPORTED,
    9: SUPPORTED,
    17: {
      supported: [
        { method: 'bolt12', unit: 'sat', commands: ['bolt12_mint_quote'] },
        { ...BOLT11_SAT, commands: ['bolt11_mint_quote', 'proof_state'] },
      ],
    },
    20: SUPPORTED,
    29: { max_batch_size: 100, methods: ['bolt11', 'bolt12', 'onchain', 'paypal'] },
  },
};

const NO_FEATURES = {
  name: null,
  version: null,
  description: null,
  supportsBolt11Sat: false,
  minAmountSat: null,
  maxAmountSat: null,
  supportsLocking: false,
  subscriptionKind: null,
  batchCheck: null,
  supportsRestore: false,
  supportsDescription: false,
  supportsDescriptionHash: false,
};

it.each([
  ['Nutshell', NUTSHELL_INFO, { version: 'Nutshell/0.20.2', batchCheck: { maxBatchSize: 1000 } }],
  [
    'cdk-mintd',
    CDK_INFO,
    { minAmountSat: 1, maxAmountSat: 500_000, batchCheck: { maxBatchSize: 100 } },
  ],
])('parses the info of %s', (_mint, info, expected) => {
  expect(parseMintInfo(info)).toEqual({
    ...NO_FEATURES,
    supportsBolt11Sat: true,
    supportsLocking: true,
    subscriptionKind: 'bolt11_mint_quote',
    supportsRestore: true,
    supportsDescription: true,
    ...expected,
  });
});

it.each([
  [true, false, { description: true }],
  [false, false, { description: false, options: { description: false } }],
  [false, true, { options: { description_hash: true } }],
  [false, true, { description_hash: true }],
])(
  'returns supportsDescription %s and supportsDescriptionHash %s for a method with %j',
  (supportsDescription, supportsDescriptionHash, fields) => {
    const methods = [
      ...[null, 7, { method: 'bolt11' }],
      { method: 'bolt12', unit: 'sat', options: { description: true, description_hash: true } },
      { method: 'bolt11', unit: 'sat', ...fields },
    ];
    const expected = { supportsBolt11Sat: true, supportsDescription, supportsDescriptionHash };
    expect(parseMintInfo({ nuts: { '4': { methods } } })).toMatchObject(expected);
  },
);

it.each([
  [['mint_quote', 'melt_quote', 'proof_state'], 'mint_quote'],
  [['mint_quote', 'bolt11_mint_quote'], 'bolt11_mint_quote'],
  [['melt_quote'], null],
])('parses the NUT-17 commands %j as the kind %j', (commands, subscriptionKind) => {
  const supported = [{ method: 'bolt11', unit: 'sat', commands }];
  expect(parseMintInfo({ nuts: { '17': { supported } } })).toMatchObject({ subscriptionKind });
});

it.each([undefined, null, 'hello', [], {}, { nuts: null }, { nuts: [] }])(
  'returns null for %j',
  (body) => {
    expect(parseMintInfo(body)).toBeNull();
  },
);

it.each([
  ['no NUTs', {}],
  ['disabled minting', { '4': { ...NUTSHELL_INFO.nuts[4], disabled: true } }],
  ['another unit', { '4': { methods: [{ method: 'bolt11', unit: 'usd', min_amount: 1 }] } }],
  ['another method', { '4': { methods: [{ method: 'bolt12', unit: 'sat' }] } }],
  ['malformed methods', { '4': { methods: 'bolt11' } }],
  ['proof states without restore', { '7': { supported: true } }],
  ['batches of bolt12 quotes', { '29': { methods: ['bolt12'], max_batch_size: 10 } }],
])('returns no features for %s', (_case, nuts) => {
  expect(parseMintInfo({ nuts })).toEqual(NO_FEATURES);
});

it.each([
  [0, null],
  [1.5, null],
  [10, 10],
])('parses the amount limit %j as %j', (advertisedLimit, expected) => {
  const method = { ...BOLT11_SAT, min_amount: advertisedLimit, max_amount: advertisedLimit };
  const info = parseMintInfo({ nuts: { '4': { methods: [method] } } });
  expect(info).toMatchObject({ minAmountSat: expected, maxAmountSat: expected });
});

it.each([
  [{ max_batch_size: 1_000_000_000 }, 1000],
  [{ max_batch_size: null, methods: ['bolt11'] }, 100],
])('parses the NUT-29 entry %j as the batch size %i', (nut29, maxBatchSize) => {
  expect(parseMintInfo({ nuts: { '29': nut29 } })?.batchCheck).toEqual({ maxBatchSize });
});

it('parses the name and the description as one short line of printable text each', () => {
  const name = 'Alice\u202e\u0000 & <b>Bob</b>\r\n\u2028mint\ud800';
  const info = parseMintInfo({
    name,
    description: `${' '.repeat(10)}${'é🥜'.repeat(200)}`,
    nuts: {},
  });
  expect(info).toMatchObject({
    name: 'Alice & <b>Bob</b> mint',
    // The cut falls into the middle of a character, which is left out.
    description: `${'é🥜'.repeat(96)}é`,
  });
});
