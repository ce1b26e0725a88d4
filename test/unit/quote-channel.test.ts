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

describe('updates', () => {
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
        expectToFit(payloads);
      }),
    );
  });

  it('share payloads, and need none if nothing changed', () => {
    const update = { id: 1_000_000, pubkey: 'a'.repeat(64), quoteId: 'q'.repeat(36) };
    expect(encodeUpdates([])).toEqual([]);
    expect(encodeUpdates([update])).toHaveLength(1);
    expect(encodeUpdates(Array.from({ length: 500 }, () => update)).length).toBeLessThan(9);
  });

  it('fit even with the longest ids, all of them escaped', () => {
    const updates = Array.from({ length: 100 }, () => ({
      id: Number.MAX_SAFE_INTEGER,
      pubkey: 'a'.repeat(64),
      quoteId: '"'.repeat(256),
    }));
    const payloads = encodeUpdates(updates);
    expect(payloads.flatMap(decodeUpdates)).toEqual(updates);
    expectToFit(payloads);
  });

  it.each(['', 'hello', '{}', 'null', '[["a"]]', '[["a","b"]]', '[["a","b","1"]]', '[[1,"a",1]]'])(
    'are not read from the payload %j',
    (payload) => {
      expect(decodeUpdates(payload)).toEqual([]);
    },
  );
});

describe('issued quotes', () => {
  it('arrive as they were sent, in payloads that PostgreSQL takes', () => {
    const issued = fc.record({
      id: fc.maxSafeNat(),
      mintUrl: fc.stringMatching(/^https:[!-~]{1,300}$/),
      quoteId,
      createdAtMs: fc.maxSafeNat(),
      expiresAtMs: fc.maxSafeInteger(),
    });
    fc.assert(
      fc.property(fc.array(issued, { maxLength: 150 }), (quotes) => {
        const payloads = encodeIssued(quotes);
        expect(payloads.flatMap(decodeIssued)).toEqual(quotes);
        expectToFit(payloads);
      }),
    );
  });

  it('fit even with the longest mint URL and id', () => {
    const mintUrl = normaliseMintUrl(`https://m.example/${'漢'.repeat(54)}`, { allowHttp: false });
    const quote = {
      id: Number.MAX_SAFE_INTEGER,
      mintUrl: mintUrl ?? '',
      quoteId: '"'.repeat(256),
      createdAtMs: Number.MAX_SAFE_INTEGER,
      expiresAtMs: Number.MIN_SAFE_INTEGER,
    };
    expect(quote.mintUrl.length).toBeGreaterThan(500);
    const payloads = encodeIssued([quote, quote]);
    expect(payloads.flatMap(decodeIssued)).toEqual([quote, quote]);
    expectToFit(payloads);
  });

  it.each(['', 'hello', '{}', 'null', '[["a"]]', '[[1,"a","b",1]]', '[[1,"a","b",1,"2"]]'])(
    'are not read from the payload %j',
    (payload) => {
      expect(decodeIssued(payload)).toEqual([]);
    },
  );
});

function expectToFit(payloads: readonly string[]): void {
  for (const payload of payloads) {
    expect(Buffer.byteLength(payload)).toBeLessThan(POSTGRES_LIMIT_BYTES);
  }
}
