import fc from 'fast-check';
import { expect, it } from 'vitest';
import { normaliseMintUrl } from '../../src/mints/mint-url.ts';
import {
  decodeQuoteAnnouncements,
  decodeQuoteUpdates,
  encodeQuoteAnnouncements,
  encodeQuoteUpdates,
} from '../../src/quotes/quote-notifications.ts';

/** The exclusive limit of a payload's length. */
const POSTGRES_LIMIT_BYTES = 8_000;

const quoteId = fc.stringMatching(/^[!-~]{1,256}$/);

const update = fc.record({
  id: fc.maxSafeNat(),
  pubkey: fc.stringMatching(/^[0-9a-f]{64}$/),
  quoteId,
});
const issued = fc.record({
  id: fc.maxSafeNat(),
  mintUrl: fc.stringMatching(/^https:[!-~]{1,300}$/),
  quoteId,
  createdAtMs: fc.maxSafeNat(),
  expiresAtMs: fc.maxSafeInteger(),
});
/** The longest possible entry: every character of the id is escaped. */
const longestUpdate = {
  id: Number.MAX_SAFE_INTEGER,
  pubkey: 'a'.repeat(64),
  quoteId: '"'.repeat(256),
};
const longestIssued = {
  id: Number.MAX_SAFE_INTEGER,
  mintUrl:
    normaliseMintUrl(`https://m.example/${'漢'.repeat(54)}`, { allowHttp: false }) ?? expect.fail(),
  quoteId: '"'.repeat(256),
  createdAtMs: Number.MAX_SAFE_INTEGER,
  expiresAtMs: Number.MIN_SAFE_INTEGER,
};

it('round-trips updates in payloads that PostgreSQL accepts', () => {
  const check = (updates: Parameters<typeof encodeQuoteUpdates>[0]) => {
    const payloads = encodeQuoteUpdates(updates);
    expect(payloads.flatMap(decodeQuoteUpdates)).toEqual(updates);
    expectToFit(payloads);
  };
  fc.assert(fc.property(fc.array(update, { maxLength: 150 }), check));
  check(Array(100).fill(longestUpdate));
});

it('round-trips created quotes in payloads that PostgreSQL accepts', () => {
  const check = (quotes: Parameters<typeof encodeQuoteAnnouncements>[0]) => {
    const payloads = encodeQuoteAnnouncements(quotes);
    expect(payloads.flatMap(decodeQuoteAnnouncements)).toEqual(quotes);
    expectToFit(payloads);
  };
  fc.assert(fc.property(fc.array(issued, { maxLength: 150 }), check));
  check([longestIssued, longestIssued]);
});

it.each([
  ...['', 'hello', '{}', 'null', '[["a"]]', '[["a","b"]]', '[["a","b","1"]]', '[[1,"a",1]]'],
  ...['[[1,"a","b",1]]', '[[1,"a","b",1,"2"]]'],
])('decodes nothing from the payload %j', (payload) => {
  expect(decodeQuoteUpdates(payload)).toEqual([]);
  expect(decodeQuoteAnnouncements(payload)).toEqual([]);
});

function expectToFit(payloads: readonly string[]): void {
  for (const payload of payloads) {
    expect(Buffer.byteLength(payload)).toBeLessThan(POSTGRES_LIMIT_BYTES);
  }
}
