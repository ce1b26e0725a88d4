import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAmount } from '../../../../src/http/web/amount.ts';
import { validatePayment } from '../../../../src/http/web/payment-form.ts';

const LOCALES = ['en', 'en-IN', 'de', 'de-CH', 'fr', 'es', 'pl', 'sv', 'pt-PT', 'ja', 'hi', 'he'];

describe('an amount', () => {
  it('is understood as any locale with ASCII digits formats it', () => {
    fc.assert(
      fc.property(fc.constantFrom(...LOCALES), fc.nat(2_000_000_000), (locale, amount) => {
        const format = new Intl.NumberFormat(locale, { useGrouping: 'always' });
        expect(parseAmount(` ${format.format(amount)} `)).toBe(amount);
      }),
    );
  });

  it.each(['2.100', '2,100', '2 100', '2\u00a0100', '2\u202f100', '2’100', "2'100"])(
    'is 2100 for %j',
    (text) => expect(parseAmount(text)).toBe(2100),
  );

  it.each([
    ['', /Enter an amount/],
    [' ', /Enter an amount/],
    ['-5', /must not be negative/],
    ['1.5', /without decimal places/],
    ['0,500', /without decimal places/],
    ['1,000.50', /without decimal places/],
    ['1,000.500', /without decimal places/],
    ['2k', /in digits only/],
    ['1e3', /in digits only/],
    ['٢١', /in digits only/],
  ])('is refused in words for %j', (text, problem) => {
    expect(parseAmount(text)).toEqual({ problem: expect.stringMatching(problem) });
  });
});

it('counts and stores a line break of a comment as one character', () => {
  const range = { minSat: 1, maxSat: 100 };
  const comment = 'a\r\n'.repeat(127);
  const lineFeeds = 'a\n'.repeat(127);
  const payment = validatePayment({ amount: '21', comment }, range, 255);
  expect(payment).toEqual({ amountSat: 21, comment: lineFeeds });
});
