import { decodePaymentRequest } from '@cashu/cashu-ts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { encodePaymentRequest } from '../../src/ecash/payment-request.ts';

const MINT = 'https://mint.example/Bitcoin';

it('cashu-ts decodes a payment request for in-band payment', () => {
  const terms = fc.record({
    id: fc.uuid(),
    amountSat: fc.integer({ min: 1, max: 2 ** 40 }),
    description: fc.string({ minLength: 1, unit: 'grapheme' }),
  });
  fc.assert(
    fc.property(terms, ({ id, amountSat, description }) => {
      const text = encodePaymentRequest({ id, amountSat, mintUrl: MINT, description });
      expect(text).toMatch(/^creqA[\w-]+$/);
      const request = decodePaymentRequest(text);
      expect(request).toMatchObject({
        id,
        unit: 'sat',
        mints: [MINT],
        description,
        singleUse: true,
      });
      expect(request.amount?.toNumber()).toBe(amountSat);
      expect(request.transport).toBeUndefined();
      expect(request.nut10).toBeUndefined();
    }),
  );
});
