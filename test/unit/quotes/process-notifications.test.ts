import fc from 'fast-check';
import { expect, it } from 'vitest';
import { normaliseMintUrl } from '../../../src/net/server-url.ts';
import {
  decodeQuoteAnnouncements,
  decodeQuoteUpdates,
  encodePayloads,
} from '../../../src/quotes/process-notifications.ts';

/** PostgreSQL accepts only payloads that are shorter than this. */
const POSTGRES_PAYLOAD_LIMIT_BYTES = 8_000;

const anyQuoteId = fc.stringMatching(/^[!-~]{1,256}$/);
// The longest possible entries: JSON escapes every character of the quote id.
const longestQuoteId = '"'.repeat(256);
const longestMintUrl = normaliseMintUrl(`https://m.example/${'漢'.repeat(54)}`, {
  allowHttp: false,
});
const { MAX_SAFE_INTEGER, MIN_SAFE_INTEGER } = Number;

it.each([
  [
    'updates',
    decodeQuoteUpdates,
    fc.record({
      id: fc.maxSafeNat(),
      pubkey: fc.stringMatching(/^[0-9a-f]{64}$/),
      quoteId: anyQuoteId,
      listedAtMs: fc.maxSafeInteger(),
    }),
    {
      id: MAX_SAFE_INTEGER,
      pubkey: 'a'.repeat(64),
      quoteId: longestQuoteId,
      listedAtMs: MIN_SAFE_INTEGER,
    },
  ],
  [
    'announcements of quotes',
    decodeQuoteAnnouncements,
    fc.record({
      id: fc.maxSafeNat(),
      mintUrl: fc.stringMatching(/^https:[!-~]{1,300}$/),
      quoteId: anyQuoteId,
      createdAtMs: fc.maxSafeNat(),
      expiresAtMs: fc.maxSafeInteger(),
    }),
    {
      id: MAX_SAFE_INTEGER,
      mintUrl: longestMintUrl ?? expect.fail(),
      quoteId: longestQuoteId,
      createdAtMs: MAX_SAFE_INTEGER,
      expiresAtMs: MIN_SAFE_INTEGER,
    },
  ],
])('round-trips %s in payloads that PostgreSQL accepts', (_name, decode, anyEntry, longest) => {
  const expectRoundTrip = (entries: Parameters<typeof encodePayloads>[0]) => {
    const payloads = encodePayloads(entries);
    expect(payloads.flatMap<unknown>(decode)).toEqual(entries);
    const sizes = payloads.map((payload) => Buffer.byteLength(payload));
    expect(Math.max(0, ...sizes)).toBeLessThan(POSTGRES_PAYLOAD_LIMIT_BYTES);
  };
  fc.assert(fc.property(fc.array<typeof longest>(anyEntry, { maxLength: 150 }), expectRoundTrip));
  expectRoundTrip(Array(100).fill(longest));
});
