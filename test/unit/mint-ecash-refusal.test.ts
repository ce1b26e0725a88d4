import { describe, expect, it } from 'vitest';
import { type MeltRefusal, meltRefusal, swapRefusal } from '../../src/mint/ecash-refusal.ts';
import { refusalDetail } from '../../src/mint/mint-error.ts';

/** What Nutshell 0.20.2 answered to swaps, all with status 400. */
const NUTSHELL_SWAPS: [string, object, MeltRefusal][] = [
  ['a spent input', { detail: 'proofs already spent', code: 11001 }, 'spent'],
  ['an input of a pending melt', { detail: 'proofs are pending', code: 11002 }, 'pending'],
  ['a forged signature', { detail: 'proofs could not be verified', code: 10001 }, 'invalid'],
  ['an empty secret', { detail: 'no secret in proofs', code: 10001 }, 'invalid'],
  ['outputs used before', { detail: 'outputs already signed', code: 11003 }, 'outputs_signed'],
  ['an inactive keyset', { detail: 'keyset id inactive.', code: 11000 }, 'keyset_inactive'],
  [
    'the fee left out',
    { detail: 'inputs (256) - fees (1) vs outputs (256) are not balanced.', code: 11000 },
    'unbalanced',
  ],
  [
    'outputs worth more',
    { detail: 'input amounts (256) less than output amounts (260).', code: 11000 },
    'unbalanced',
  ],
  ['a secret that is too long', { detail: 'secret too long. max: 1024', code: 11003 }, 'other'],
  ['an unknown keyset of outputs', { detail: 'keyset id unknown.', code: 11000 }, 'other'],
  ['an unknown keyset of inputs', { detail: 'keyset 00ffffffffffffff unknown', code: 0 }, 'other'],
  [
    'a signature that is no point',
    { detail: 'The public key could not be parsed or is invalid.', code: 0 },
    'other',
  ],
  ['an amount without a key', { detail: '3', code: 0 }, 'other'],
  ['one input twice', { detail: 'Duplicate inputs provided', code: 11007 }, 'other'],
  ['a busy database', { detail: 'failed to acquire database lock on None', code: 0 }, 'other'],
];

/** What cdk-mintd says, by its list of errors. */
const CDK_SWAPS: [string, object, MeltRefusal][] = [
  ['a spent input', { code: 11001, detail: 'Token Already Spent' }, 'spent'],
  ['a pending input', { code: 11002, detail: 'Token Pending' }, 'pending'],
  ['a forged signature', { code: 10001, detail: 'Token not verified' }, 'invalid'],
  [
    'outputs used before',
    { code: 11003, detail: 'Blinded Message is already signed' },
    'outputs_signed',
  ],
  ['an inactive keyset', { code: 12002, detail: 'Inactive Keyset' }, 'keyset_inactive'],
  ['no active keyset', { code: 12002, detail: 'No active keyset' }, 'keyset_inactive'],
  [
    'the fee left out',
    {
      code: 11005,
      detail:
        'Inputs: 256, Outputs: 256, expected_fee: 1. ' +
        'Transaction inputs should equal outputs less fee',
    },
    'unbalanced',
  ],
  ['an unknown keyset', { code: 12001, detail: 'Unknown Keyset' }, 'other'],
  ['an expired keyset', { code: 12003, detail: 'Keyset expired' }, 'other'],
  ['a missing witness', { code: 20008, detail: 'Signature missing or invalid' }, 'other'],
  ['outputs of a request under way', { code: 20006, detail: 'Invoice already paid' }, 'other'],
  ['anything else', { code: 50000, detail: 'Internal Error' }, 'other'],
];

/** Answers that look like a definite one and are none. */
const TREACHEROUS: [string, object | string, MeltRefusal][] = [
  ['a code for all that goes wrong', { code: 10001, detail: 'Database error' }, 'other'],
  ['the words with no code', { detail: 'proofs could not be verified' }, 'other'],
  ['the words with another code', { detail: 'Token not verified', code: 50000 }, 'other'],
  ['a code in text', { detail: 'proofs could not be verified', code: '10001' }, 'other'],
  ['a code without words', { code: 10001 }, 'other'],
  ['an older meaning of a code', { code: 11002, detail: 'Inputs do not match outputs' }, 'other'],
  ['another older meaning', { code: 11003, detail: 'Unit unsupported' }, 'other'],
  ['a page of a proxy', '<html>proofs could not be verified 10001</html>', 'other'],
  ['nothing', '', 'other'],
];

describe('a swap that a mint refused', () => {
  it.each([...NUTSHELL_SWAPS, ...CDK_SWAPS, ...TREACHEROUS])(
    'for %s: %j means %s',
    (_what, body, reason) => {
      expect(swapRefusal(answer(body))).toBe(reason);
    },
  );

  it('did not fail to pay anything', () => {
    const failed = answer({ detail: 'Lightning payment failed.', code: 20004 });
    expect(swapRefusal(failed)).toBe('other');
  });
});

describe('a melt that a mint refused', () => {
  it.each<[string, object, MeltRefusal]>([
    ['as Nutshell does', { detail: 'Lightning payment failed.', code: 20004 }, 'payment_failed'],
    [
      'with a reason',
      { detail: 'Lightning payment failed: no route.', code: 20004 },
      'payment_failed',
    ],
    ['as cdk-mintd does', { code: 20004, detail: 'Payment failed' }, 'payment_failed'],
  ])('because nothing could be paid, %s: %j', (_what, body, reason) => {
    expect(meltRefusal(answer(body))).toBe(reason);
  });

  it.each<[string, object]>([
    ['a quote that is being paid', { detail: 'melt quote is not unpaid: pending', code: 11000 }],
    ['a quote that was paid', { detail: 'melt quote is not unpaid: paid', code: 11000 }],
    ['an older meaning of a code', { detail: 'Lightning error', code: 20004 }],
    ['trouble of the backend', { detail: 'Lightning error', code: 20000 }],
    ['an unknown quote', { detail: 'quote not found', code: 0 }],
  ])('for %s may have been done: %j', (_what, body) => {
    expect(meltRefusal(answer(body))).toBe('other');
  });

  it('has the reasons of a swap as well', () => {
    expect(meltRefusal(answer({ detail: 'proofs already spent', code: 11001 }))).toBe('spent');
  });
});

describe('what a mint says to a refusal', () => {
  it('is handed on without secrets, keys and ids that it repeats', () => {
    const secret = '15c0f70b005e7985efaee40dae6ea7eb255654411fc6bfc02f04a4b9bfb86eaf';
    const old = 'kZHcv9OO0gC3RLbKm+vk7g==';
    const quote = '01a1fd7f-50e8-7642-a78a-937b2d85ab75';
    expect(refusalDetail(answer({ detail: `bad ${secret}, ${old} and ${quote}`, code: 0 }))).toBe(
      'bad …, … and …',
    );
  });

  it('keeps its words', () => {
    const detail = 'inputs (256) - fees (1) vs outputs (256) are not balanced.';
    expect(refusalDetail(answer({ detail, code: 11000 }))).toBe(detail);
  });
});

function answer(body: object | string) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { headers: new Map([['content-type', 'application/json']]), text };
}
