import { describe, expect, it } from 'vitest';
import { locateAddress } from '../../../../../../src/http/web/browser/account/lightning-address.ts';

const ORIGIN = 'https://pay.example';

describe('locateAddress', () => {
  it('returns the payment page and the URI for QR codes', () => {
    const { paymentPage, uri } = locateAddress('alice@pay.example', ORIGIN);
    expect(paymentPage).toBe('https://pay.example/alice');
    expect(uri).toBe(
      'lightning:LNURL1DP68GURN8GHJ7URP0YHX27RPD4CXCEF09EMK2MRV944KUMMHDCHKCMN4WFK8QTMPD35KXEG33Z4LC',
    );
  });

  it.each([
    ['http://localhost:3000', 'alice@localhost:3000', 'http://localhost:3000/alice'],
    ['http://localhost:3000', 'alice@other.example', 'https://other.example/alice'],
    [ORIGIN, 'alice@abc.onion', 'http://abc.onion/alice'],
  ])('on %s, finds the page of %s', (origin, address, paymentPage) => {
    expect(locateAddress(address, origin).paymentPage).toBe(paymentPage);
  });
});
