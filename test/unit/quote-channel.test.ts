import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeUpdates, encodeUpdates } from '../../src/notifications/quote-channel.ts';

/** PostgreSQL takes payloads shorter than this. */
const POSTGRES_LIMIT_BYTES = 8_000;

describe('updates between processes', () => {
  it('arrive as they were sent, in payloads that PostgreSQL takes', () => {
    const update = fc.record({
      pubkey: fc.stringMatching(/^[0-9a-f]{64}$/),
      quoteId: fc.stringMatching(/^[!-~]{1,256}$/),
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
    const update = { pubkey: 'a'.repeat(64), quoteId: 'q'.repeat(36) };
    expect(encodeUpdates([])).toEqual([]);
    expect(encodeUpdates([update])).toHaveLength(1);
    expect(encodeUpdates(Array.from({ length: 500 }, () => update)).length).toBeLessThan(9);
  });

  it('with ids of the greatest length that JSON doubles still fit', () => {
    const updates = Array.from({ length: 100 }, () => ({
      pubkey: 'a'.repeat(64),
      quoteId: '"'.repeat(256),
    }));
    const payloads = encodeUpdates(updates);
    expect(payloads.flatMap(decodeUpdates)).toEqual(updates);
    expect(Math.max(...payloads.map((payload) => payload.length))).toBeLessThan(
      POSTGRES_LIMIT_BYTES,
    );
  });

  it.each(['', 'hello', '{}', 'null', '[["a"]]', '[["a",1]]', '[[1,"a"]]'])(
    'are not %j, whoever sent that',
    (payload) => {
      expect(decodeUpdates(payload)).toEqual([]);
    },
  );
});
