import { expect, it } from 'vitest';
import { parseSwapRejection, type SwapRejectionReason } from '../../../src/mints/ecash-client.ts';
import { parseRedactedErrorDetail } from '../../../src/mints/mint-client.ts';

/** Responses of Nutshell 0.20.2 to swaps, all with status 400. */
const NUTSHELL_RESPONSES: [object, SwapRejectionReason][] = [
  [{ detail: 'proofs already spent', code: 11001 }, 'spent'],
  [{ detail: 'proofs are pending', code: 11002 }, 'pending'],
  [{ detail: 'proofs could not be verified', code: 10001 }, 'invalid'],
  [{ detail: 'outputs already signed', code: 11003 }, 'outputs_signed'],
  [{ detail: 'keyset id inactive.', code: 11000 }, 'keyset_inactive'],
  [{ detail: 'inputs (2) - fees (1) vs outputs (2) are not balanced.', code: 11000 }, 'unbalanced'],
  [{ detail: 'input amounts (2) less than output amounts (3).', code: 11000 }, 'unbalanced'],
  [{ detail: 'keyset 00ffffffffffffff unknown', code: 0 }, 'other'],
];

const CDK_FEE_ERROR =
  'Inputs: 2, Outputs: 2, expected_fee: 1. Transaction inputs should equal outputs less fee';

/** Responses of cdk-mintd, according to its list of errors. */
const CDK_RESPONSES: [object, SwapRejectionReason][] = [
  [{ code: 11001, detail: 'Token Already Spent' }, 'spent'],
  [{ code: 11002, detail: 'Token Pending' }, 'pending'],
  [{ code: 10001, detail: 'Token not verified' }, 'invalid'],
  [{ code: 11003, detail: 'Blinded Message is already signed' }, 'outputs_signed'],
  [{ code: 12002, detail: 'Inactive Keyset' }, 'keyset_inactive'],
  [{ code: 11005, detail: CDK_FEE_ERROR }, 'unbalanced'],
  [{ code: 12001, detail: 'Unknown Keyset' }, 'other'],
  [{ code: 12003, detail: 'Keyset expired' }, 'keyset_expired'],
];

/** Responses that resemble a known rejection but do not prove one. */
const AMBIGUOUS_RESPONSES: [object | string, SwapRejectionReason][] = [
  [{ code: 10001, detail: 'Database error' }, 'other'],
  [{ detail: 'Token not verified', code: 50000 }, 'other'],
  [{ detail: 'proofs could not be verified', code: '10001' }, 'other'],
  [{ code: 11002, detail: 'Inputs do not match outputs' }, 'other'],
  ['<html>proofs could not be verified 10001</html>', 'other'],
];

it.each([...NUTSHELL_RESPONSES, ...CDK_RESPONSES, ...AMBIGUOUS_RESPONSES])(
  'parseSwapRejection reads %j as %s',
  (body, reason) => {
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
