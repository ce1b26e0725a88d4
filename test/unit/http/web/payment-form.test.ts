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
    ['', 'amount.missing'],
    [' ', 'amount.missing'],
    ['-5', 'amount.negative'],
    ['1.5', 'amount.fraction'],
    ['0,500', 'amount.fraction'],
    ['1,000.50', 'amount.fraction'],
    ['1,000.500', 'amount.fraction'],
    ['2k', 'amount.notDigits'],
    ['1e3', 'amount.notDigits'],
    ['٢١', 'amount.notDigits'],
  ])('is refused for %j', (text, problem) => {
    expect(parseAmount(text)).toBe(problem);
  });
});

it('counts and stores a line break of a comment as one character', () => {
  const range = { minSat: 1, maxSat: 100 };
  const comment = 'a\r\n'.repeat(127);
  const lineFeeds = 'a\n'.repeat(127);
  const payment = validatePayment({ amount: '21', comment }, range, 255);
  expect(payment).toEqual({ amountSat: 21, comment: lineFeeds });
});
