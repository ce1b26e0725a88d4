import { expect, it } from 'vitest';
import { parseSwapRejection, type SwapRejectionReason } from '../../../src/mints/ecash-client.ts';
import { parseRedactedErrorDetail } from '../../../src/mints/mint-client.ts';

/** Responses of Nutshell 0.20.2 to swaps, all with status 400. */
const NUTSHELL_RESPONSES: [string, object, SwapRejectionReason][] = [
  ['a spent input', { detail: 'proofs already spent', code: 11001 }, 'spent'],
  ['an input of a pending melt', { detail: 'proofs are pending', code: 11002 }, 'pending'],
  ['a forged signature', { detail: 'proofs could not be verified', code: 10001 }, 'invalid'],
  [
    'outputs that it signed before',
    { detail: 'outputs already signed', code: 11003 },
    'outputs_signed',
  ],
  ['an inactive keyset', { detail: 'keyset id inactive.', code: 11000 }, 'keyset_inactive'],
  [
    'a missing fee',
    { detail: 'inputs (256) - fees (1) vs outputs (256) are not balanced.', code: 11000 },
    'unbalanced',
  ],
  [
    'outputs worth more than the inputs',
    { detail: 'input amounts (256) less than output amounts (260).', code: 11000 },
    'unbalanced',
  ],
  ['inputs of an unknown keyset', { detail: 'keyset 00ffffffffffffff unknown', code: 0 }, 'other'],
];

/** Responses of cdk-mintd, according to its list of errors. */
const CDK_RESPONSES: [string, object, SwapRejectionReason][] = [
  ['a spent input', { code: 11001, detail: 'Token Already Spent' }, 'spent'],
  ['a pending input', { code: 11002, detail: 'Token Pending' }, 'pending'],
  ['a forged signature', { code: 10001, detail: 'Token not verified' }, 'invalid'],
  [
    'outputs that it signed before',
    { code: 11003, detail: 'Blinded Message is already signed' },
    'outputs_signed',
  ],
  ['an inactive keyset', { code: 12002, detail: 'Inactive Keyset' }, 'keyset_inactive'],
  [
    'a missing fee',
    {
      code: 11005,
      detail:
        'Inputs: 256, Outputs: 256, expected_fee: 1. ' +
        'Transaction inputs should equal outputs less fee',
    },
    'unbalanced',
  ],
  ['an unknown keyset', { code: 12001, detail: 'Unknown Keyset' }, 'other'],
  ['an expired keyset', { code: 12003, detail: 'Keyset expired' }, 'keyset_expired'],
];

/** Responses that resemble a known rejection but do not prove one. */
const AMBIGUOUS_RESPONSES: [string, object | string, SwapRejectionReason][] = [
  ['a known code with unknown text', { code: 10001, detail: 'Database error' }, 'other'],
  ['known text with another code', { detail: 'Token not verified', code: 50000 }, 'other'],
  ['a code that is a string', { detail: 'proofs could not be verified', code: '10001' }, 'other'],
  ['a code with an older meaning', { code: 11002, detail: 'Inputs do not match outputs' }, 'other'],
  ['an HTML page from a proxy', '<html>proofs could not be verified 10001</html>', 'other'],
];

it.each([...NUTSHELL_RESPONSES, ...CDK_RESPONSES, ...AMBIGUOUS_RESPONSES])(
  'parseSwapRejection reads %s, %j, as %s',
  (_case, body, reason) => {
    expect(parseSwapRejection(toResponse(body))).toBe(reason);
  },
);

it('parseRedactedErrorDetail removes secrets, keyset ids and quote ids', () => {
  const secret = '15c0f70b005e7985efaee40dae6ea7eb255654411fc6bfc02f04a4b9bfb86eaf';
  const keysetId = 'kZHcv9OO0gC3RLbKm+vk7g==';
  const quoteId = '01a1fd7f-50e8-7642-a78a-937b2d85ab75';
  const detail = `bad ${secret}, ${keysetId} and ${quoteId} (256)`;
  expect(parseRedactedErrorDetail(toResponse({ detail, code: 0 }))).toBe('bad …, … and … (256)');
});

function toResponse(body: object | string) {
  const headers = new Map([['content-type', 'application/json']]);
  return typeof body === 'string'
    ? { headers, json: undefined, text: body }
    : { headers, json: body, text: '' };
}
