import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseMintUrl } from '../../src/domain/mint-url.ts';
import {
  decodeIssued,
  decodeUpdates,
  encodeIssued,
  encodeUpdates,
} from '../../src/notifications/quote-channel.ts';

/** PostgreSQL takes payloads shorter than this. */
const POSTGRES_LIMIT_BYTES = 8_000;

const quoteId = fc.stringMatching(/^[!-~]{1,256}$/);

describe('updates between processes', () => {
  it('arrive as they were sent, in payloads that PostgreSQL takes', () => {
    const update = fc.record({
      id: fc.maxSafeNat(),
      pubkey: fc.stringMatching(/^[0-9a-f]{64}$/),
      quoteId,
    });
    fc.assert(
      fc.property(fc.array(update, { maxLength: 150 }), (updates) => {
        const payloads = encodeUpdates(updates);
        expect(payloads.flatMap(decodeUpdates)).toEqual(updates);
        for (const payload of payloads) {
          expect(Buffer.byteLength(payload)).toBeLessThan(POSTGRES_LIMIT_BYTES);
        }
      }),
    );
  });

  it('are few payloads, and none where nothing changed', () => {
    const update = { id: 1_000_000, pubkey: 'a'.repeat(64), quoteId: 'q'.repeat(36) };
    expect(encodeUpdates([])).toEqual([]);
    expect(encodeUpdates([update])).toHaveLength(1);
    expect(encodeUpdates(Array.from({ length: 500 }, () => update)).length).toBeLessThan(9);
  });

  it('with ids of the greatest length that JSON doubles still fit', () => {
    const updates = Array.from({ length: 100 }, () => ({
      id: Number.MAX_SAFE_INTEGER,
      pubkey: 'a'.repeat(64),
      quoteId: '"'.repeat(256),
    }));
    const payloads = encodeUpdates(updates);
    expect(payloads.flatMap(decodeUpdates)).toEqual(updates);
    expect(Math.max(...payloads.map((payload) => payload.length))).toBeLessThan(
      POSTGRES_LIMIT_BYTES,
    );
  });

  it.each(['', 'hello', '{}', 'null', '[["a"]]', '[["a","b"]]', '[["a","b","1"]]', '[[1,"a",1]]'])(
    'are not %j, whoever sent that',
    (payload) => {
      expect(decodeUpdates(payload)).toEqual([]);
    },
  );
});

describe('new quotes between processes', () => {
  it('arrive as they were sent, in payloads that PostgreSQL takes', () => {
    const issued = fc.record({ mintUrl: fc.stringMatching(/^https:[!-~]{1,300}$/), quoteId });
    fc.assert(
      fc.property(fc.array(issued, { maxLength: 150 }), (quotes) => {
        const payloads = encodeIssued(quotes);
        expect(payloads.flatMap(decodeIssued)).toEqual(quotes);
        for (const payload of payloads) {
          expect(Buffer.byteLength(payload)).toBeLessThan(POSTGRES_LIMIT_BYTES);
        }
      }),
    );
  });

  it('of a mint with the longest possible address still fit', () => {
    const mintUrl = normaliseMintUrl(`https://m.example/${'漢'.repeat(54)}`, { allowHttp: false });
    const quote = { mintUrl: mintUrl ?? '', quoteId: '"'.repeat(256) };
    expect(quote.mintUrl.length).toBeGreaterThan(500);
    const payloads = encodeIssued([quote, quote]);
    expect(payloads.flatMap(decodeIssued)).toEqual([quote, quote]);
    expect(Math.max(...payloads.map((payload) => payload.length))).toBeLessThan(
      POSTGRES_LIMIT_BYTES,
    );
  });

  it.each(['', 'hello', '{}', 'null', '[["a"]]', '[["a","b","c"]]', '[["a",1]]'])(
    'are not %j, whoever sent that',
    (payload) => {
      expect(decodeIssued(payload)).toEqual([]);
    },
  );
});
