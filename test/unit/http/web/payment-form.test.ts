import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatInCurrencies,
  parseAmount,
  parseAmountInSats,
} from '../../../../src/http/web/amount.ts';
import { findLinkProblems, validatePayment } from '../../../../src/http/web/payment-form.ts';

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

  it.each([
    ...['2.100', '2,100', '2 100', '2\u00a0100', '2\u202f100', '2’100', "2'100"],
    // As Japanese and Chinese keyboards write it.
    ...['２１００', '２，１００', '２．１００'],
  ])('is 2100 for %j', (text) => expect(parseAmount(text)).toBe(2100));

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
    ['10²', 'amount.notDigits'],
    ['１．５', 'amount.fraction'],
  ])('is refused for %j', (text, problem) => {
    expect(parseAmount(text)).toBe(problem);
  });
});

describe('an amount in a currency', () => {
  const rates = [{ currency: 'EUR', satsPerUnit: 1_600 }];

  it.each([
    ['5', 8_000],
    ['0.50', 800],
    ['1,5', 2_400],
    ['1.234', 1_974_400],
    ["1'234,50", 1_975_200],
    ['0,0', 0],
    ['１．５０', 2_400],
  ])('%j is converted to sats', (text, sats) =>
    expect(parseAmountInSats(text, 'EUR', rates)).toBe(sats),
  );

  it.each([
    ['', 'EUR', 'amount.missing'],
    ['0.005', 'EUR', 'amount.decimals'],
    ['1.5.5', 'EUR', 'amount.decimals'],
    ['5 €', 'EUR', 'amount.notDigits'],
    ['5', 'USD', 'amount.noExchangeRate'],
    ['1.5', 'sats', 'amount.fraction'],
  ])('%j in %s is refused', (text, unit, problem) =>
    expect(parseAmountInSats(text, unit, rates)).toBe(problem),
  );

  it.each(['9'.repeat(22), `${'9'.repeat(400)}.50`])(
    'is too large if it has many digits',
    (amount) => {
      const input = { amount, unit: 'EUR', comment: '' };
      const message = { key: 'amount.tooLarge', values: { amount: 100 } };
      const range = { minSat: 1, maxSat: 100 };
      expect(validatePayment(input, range, 0, rates)).toEqual([{ field: 'amount', message }]);
    },
  );

  it.each([
    [1, 'en', '€0.00063'],
    [800, 'en', '€0.50'],
    [1_000_000_000, 'de', '625.000,00 €'],
  ])('%i sats are shown in %s as %s', (sats, language, text) => {
    expect(formatInCurrencies(sats, rates, language).replace('\u00a0', ' ')).toBe(text);
  });
});

it.each([
  ['10', 'EUR', ['amount.noExchangeRate']],
  ['1.5', '', ['amount.fraction']],
  ['10', 'sats', []],
  ['', '', []],
])('checks the amount %j in %j of a link if the range is unknown', (amount, unit, keys) => {
  const problems = findLinkProblems({ amount, unit, comment: '' }, null, 255);
  expect(problems.map(({ message }) => message.key)).toEqual(keys);
});

it('counts and stores a line break of a comment as one character', () => {
  const range = { minSat: 1, maxSat: 100 };
  const comment = 'a\r\n'.repeat(127);
  const lineFeeds = 'a\n'.repeat(127);
  const payment = validatePayment({ amount: '21', unit: '', comment }, range, 255);
  expect(payment).toEqual({ amountSat: 21, comment: lineFeeds });
});
