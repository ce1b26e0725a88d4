import fc from 'fast-check';
import { expect, it } from 'vitest';
import { normaliseMintUrl } from '../../../src/net/server-url.ts';
import {
  decodeQuoteAnnouncements,
  decodeQuoteUpdates,
  encodeQuoteAnnouncements,
  encodeQuoteUpdates,
} from '../../../src/quotes/process-notifications.ts';

/** PostgreSQL accepts only payloads that are shorter than this. */
const POSTGRES_PAYLOAD_LIMIT_BYTES = 8_000;

const anyQuoteId = fc.stringMatching(/^[!-~]{1,256}$/);

const anyUpdate = fc.record({
  id: fc.maxSafeNat(),
  pubkey: fc.stringMatching(/^[0-9a-f]{64}$/),
  quoteId: anyQuoteId,
  listedAtMs: fc.maxSafeInteger(),
});
const anyAnnouncement = fc.record({
  id: fc.maxSafeNat(),
  mintUrl: fc.stringMatching(/^https:[!-~]{1,300}$/),
  quoteId: anyQuoteId,
  createdAtMs: fc.maxSafeNat(),
  expiresAtMs: fc.maxSafeInteger(),
});
/** The longest possible entry. JSON escapes every character of the quote id. */
const longestUpdate = {
  id: Number.MAX_SAFE_INTEGER,
  pubkey: 'a'.repeat(64),
  quoteId: '"'.repeat(256),
  listedAtMs: Number.MIN_SAFE_INTEGER,
};
const longestAnnouncement = {
  id: Number.MAX_SAFE_INTEGER,
  mintUrl:
    normaliseMintUrl(`https://m.example/${'漢'.repeat(54)}`, { allowHttp: false }) ?? expect.fail(),
  quoteId: '"'.repeat(256),
  createdAtMs: Number.MAX_SAFE_INTEGER,
  expiresAtMs: Number.MIN_SAFE_INTEGER,
};

it('round-trips updates in payloads that PostgreSQL accepts', () => {
  const expectRoundTrip = (updates: Parameters<typeof encodeQuoteUpdates>[0]) => {
    const payloads = encodeQuoteUpdates(updates);
    expect(payloads.flatMap(decodeQuoteUpdates)).toEqual(updates);
    expectPayloadsToFit(payloads);
  };
  fc.assert(fc.property(fc.array(anyUpdate, { maxLength: 150 }), expectRoundTrip));
  expectRoundTrip(Array(100).fill(longestUpdate));
});

it('round-trips announcements of quotes in payloads that PostgreSQL accepts', () => {
  const expectRoundTrip = (announcements: Parameters<typeof encodeQuoteAnnouncements>[0]) => {
    const payloads = encodeQuoteAnnouncements(announcements);
    expect(payloads.flatMap(decodeQuoteAnnouncements)).toEqual(announcements);
    expectPayloadsToFit(payloads);
  };
  fc.assert(fc.property(fc.array(anyAnnouncement, { maxLength: 150 }), expectRoundTrip));
  expectRoundTrip([longestAnnouncement, longestAnnouncement]);
});

it.each([
  ...['', 'hello', '{}', 'null', '[["a"]]', '[["a","b"]]', '[["a","b","1"]]', '[[1,"a",1]]'],
  ...['[[1,"a","b",1]]', '[[1,"a","b",1,"2"]]'],
])('decodes no entries from the malformed payload %j', (payload) => {
  expect(decodeQuoteUpdates(payload)).toEqual([]);
  expect(decodeQuoteAnnouncements(payload)).toEqual([]);
});

function expectPayloadsToFit(payloads: readonly string[]): void {
  for (const payload of payloads) {
    expect(Buffer.byteLength(payload)).toBeLessThan(POSTGRES_PAYLOAD_LIMIT_BYTES);
  }
}
