import { decodePaymentRequest } from '@cashu/cashu-ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodePaymentRequest } from '../../src/ecash/payment-request.ts';

const MINT = 'https://mint.example/Bitcoin';

describe('a payment request', () => {
  it('is the same bytes as ever, so that wallets of today read it', () => {
    const text = encodePaymentRequest({
      id: 'b7a90176',
      amountSat: 5000,
      mintUrl: MINT,
      description: 'Username',
    });

    // {i: "b7a90176", a: 5000, u: "sat", m: ["https://mint.example/Bitcoin"], d: "Username", s: true}
    const cbor =
      'a6' +
      `6169${'68'}${Buffer.from('b7a90176').toString('hex')}` +
      `6161${'191388'}` +
      `6175${'63736174'}` +
      `616d${'81781c'}${Buffer.from(MINT).toString('hex')}` +
      `6164${'68'}${Buffer.from('Username').toString('hex')}` +
      `6173${'f5'}`;
    expect(text).toBe(`creqA${Buffer.from(cbor, 'hex').toString('base64url')}`);
  });

  it('says to cashu-ts what was asked for, to be paid in band', () => {
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
        expect(request.id).toBe(id);
        expect(request.amount?.toNumber()).toBe(amountSat);
        expect(request.unit).toBe('sat');
        expect(request.mints).toEqual([MINT]);
        expect(request.description).toBe(description);
        expect(request.singleUse).toBe(true);
        expect(request.transport).toBeUndefined();
        expect(request.nut10).toBeUndefined();
      }),
    );
  });
});
