import { describe, expect, it } from 'vitest';
import { parseMintInfo } from '../../src/domain/mint-info.ts';

/** What Nutshell 0.20.2 answers, without the parts that say nothing of interest here. */
const NUTSHELL = {
  name: 'Cashu mint',
  version: 'Nutshell/0.20.2',
  contact: [],
  time: 1795224544,
  nuts: {
    '4': {
      methods: [
        { method: 'bolt11', unit: 'sat', method_name: 'bolt11', options: { description: true } },
      ],
      disabled: false,
    },
    '5': {
      methods: [{ method: 'bolt11', unit: 'sat', method_name: 'bolt11' }],
      disabled: false,
    },
    '7': { supported: true },
    '8': { supported: true },
    '9': { supported: true },
    '20': { supported: true },
    '17': {
      supported: [
        {
          method: 'bolt11',
          unit: 'sat',
          commands: ['bolt11_melt_quote', 'proof_state', 'bolt11_mint_quote'],
        },
      ],
    },
    '29': { supported: true, max_batch_size: 1000, methods: ['bolt11'] },
  },
};

/** What cdk-mintd 0.18.3 answers, likewise. */
const CDK = {
  name: 'test',
  version: 'cdk-mintd/0.18.3',
  nuts: {
    '4': {
      methods: [
        { method: 'onchain', unit: 'sat', min_amount: 5, max_amount: 7 },
        {
          method: 'bolt11',
          unit: 'sat',
          method_name: 'Bolt11',
          min_amount: 1,
          max_amount: 500000,
          options: { description: true },
        },
      ],
      disabled: false,
    },
    '5': {
      methods: [
        { method: 'onchain', unit: 'sat', min_amount: 1, max_amount: 500000 },
        { method: 'bolt11', unit: 'sat', min_amount: 1, max_amount: 500000 },
      ],
      disabled: false,
    },
    '7': { supported: true },
    '8': { supported: true },
    '9': { supported: true },
    '15': { methods: [{ method: 'bolt11', unit: 'sat' }] },
    '17': {
      supported: [
        { method: 'bolt12', unit: 'sat', commands: ['bolt12_mint_quote'] },
        { method: 'bolt11', unit: 'sat', commands: ['bolt11_mint_quote', 'proof_state'] },
      ],
    },
    '20': { supported: true },
    '29': { max_batch_size: 100, methods: ['bolt11', 'bolt12', 'onchain', 'paypal'] },
  },
  max_array_length: 1000,
};

const NOTHING = {
  mintsBolt11Sat: false,
  minAmountSat: null,
  maxAmountSat: null,
  locking: false,
  subscriptions: false,
  batchCheck: null,
  restoresEcash: false,
  meltsBolt11Sat: false,
  takesDescription: false,
  takesDescriptionHash: false,
};

describe("a mint's info", () => {
  it('is read from Nutshell', () => {
    expect(parseMintInfo(NUTSHELL)).toEqual({
      mintsBolt11Sat: true,
      minAmountSat: null,
      maxAmountSat: null,
      locking: true,
      subscriptions: true,
      batchCheck: { maxBatchSize: 1000 },
      restoresEcash: true,
      meltsBolt11Sat: true,
      takesDescription: true,
      takesDescriptionHash: false,
    });
  });

  it('is read from cdk-mintd', () => {
    expect(parseMintInfo(CDK)).toEqual({
      mintsBolt11Sat: true,
      minAmountSat: 1,
      maxAmountSat: 500_000,
      locking: true,
      subscriptions: true,
      batchCheck: { maxBatchSize: 100 },
      restoresEcash: true,
      meltsBolt11Sat: true,
      takesDescription: true,
      takesDescriptionHash: false,
    });
  });

  it.each([
    ['beside the method, as older versions of cdk-mintd', { description: true }, true, false],
    ['as false', { description: false, options: { description: false } }, false, false],
    ['as text', { description: 'true', options: { description: 'true' } }, false, false],
    ['among options that are none', { options: [true] }, false, false],
    ['not at all, with other options', { options: { confirmations: 1 } }, false, false],
    ['as a hash', { options: { description_hash: true } }, false, true],
    ['as a hash, beside the method', { description_hash: true }, false, true],
    ['as both', { options: { description: true, description_hash: true } }, true, true],
  ])('reads descriptions told %s', (_where, fields, takesDescription, takesDescriptionHash) => {
    const methods = [
      { method: 'bolt12', unit: 'sat', options: { description: true, description_hash: true } },
      { method: 'bolt11', unit: 'sat', ...fields },
    ];
    expect(parseMintInfo({ nuts: { '4': { methods } } })).toMatchObject({
      mintsBolt11Sat: true,
      takesDescription,
      takesDescriptionHash,
    });
  });

  it('says that a mint pays no invoices where it would keep the change (NUT-08)', () => {
    const { '8': _change, ...nuts } = NUTSHELL.nuts;
    expect(parseMintInfo({ ...NUTSHELL, nuts })?.meltsBolt11Sat).toBe(false);
  });

  it.each([undefined, null, 'hello', [], {}, { nuts: null }, { nuts: [] }])(
    'is not found in %j',
    (answer) => {
      expect(parseMintInfo(answer)).toBeNull();
    },
  );

  it.each([
    ['no nuts', {}],
    ['minting disabled', { '4': { ...NUTSHELL.nuts['4'], disabled: true } }],
    ['another unit', { '4': { methods: [{ method: 'bolt11', unit: 'usd', min_amount: 1 }] } }],
    ['another method', { '4': { methods: [{ method: 'bolt12', unit: 'sat' }] } }],
    ['methods that are no list', { '4': { methods: 'bolt11' } }],
    ['entries that are no objects', { '4': 1, '17': 'yes', '20': [], '29': null }],
    ['support denied', { '20': { supported: false }, '29': { supported: false } }],
    ['the state of proofs alone', { '7': { supported: true } }],
    ['restoring alone', { '9': { supported: true }, '7': { supported: false } }],
    ['melting disabled', { '5': { ...CDK.nuts['5'], disabled: true } }],
    ['melting of another unit', { '5': { methods: [{ method: 'bolt11', unit: 'usd' }] } }],
    ['melting in another way', { '5': { methods: [{ method: 'onchain', unit: 'sat' }] } }],
    ['support in another type', { '20': { supported: 'true' } }],
    ['news of other quotes', { '17': { supported: [{ ...CDK.nuts['17'].supported[0] }] } }],
    ['batches of other methods', { '29': { methods: ['bolt12'], max_batch_size: 10 } }],
  ])('advertises nothing for us with %s', (_what, nuts) => {
    expect(parseMintInfo({ nuts })).toEqual(NOTHING);
  });

  it.each([
    [0, null],
    [null, null],
    [undefined, null],
    [-1, null],
    [1.5, null],
    ['10', null],
    [10, 10],
  ])('reads a limit of %j as %j', (limit, expected) => {
    const method = { method: 'bolt11', unit: 'sat', min_amount: limit, max_amount: limit };
    expect(parseMintInfo({ nuts: { '4': { methods: [method] } } })).toMatchObject({
      mintsBolt11Sat: true,
      minAmountSat: expected,
      maxAmountSat: expected,
    });
  });

  it('passes over a malformed method to the one after it', () => {
    const methods = [null, 7, { method: 'bolt11' }, { method: 'bolt11', unit: 'sat' }];
    expect(parseMintInfo({ nuts: { '4': { methods } } })?.mintsBolt11Sat).toBe(true);
  });

  it.each([
    ['a huge size', { max_batch_size: 1_000_000_000 }, 1000],
    ['no size', { supported: true }, 100],
    ['a size of null', { max_batch_size: null, methods: ['bolt11'] }, 100],
    ['a size of one', { max_batch_size: 1 }, 1],
  ])('bounds a batch with %s', (_what, entry, maxBatchSize) => {
    expect(parseMintInfo({ nuts: { '29': entry } })?.batchCheck).toEqual({ maxBatchSize });
  });
});
