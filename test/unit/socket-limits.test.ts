import { describe, expect, it } from 'vitest';
import { MESSAGE_BURST_SECONDS, takeMessage } from '../../src/http/api/message-pace.ts';
import { SocketAllowances } from '../../src/http/api/socket-allowances.ts';
import { SocketsByKey } from '../../src/http/api/sockets-by-key.ts';

describe('the pace of messages', () => {
  const PER_SECOND = 10;
  const BURST = PER_SECOND * MESSAGE_BURST_SECONDS;

  /** How many of these messages are taken before one is too many. */
  function taken(arrivalsMs: readonly number[], perSecond = PER_SECOND): number {
    let dueMs = 0;
    for (const [index, nowMs] of arrivalsMs.entries()) {
      const nextDueMs = takeMessage(dueMs, nowMs, perSecond);
      if (nextDueMs === null) {
        return index;
      }
      dueMs = nextDueMs;
    }
    return arrivalsMs.length;
  }

  it.each([1, 3, 7, PER_SECOND])('takes those of two seconds at once: %i a second', (perSecond) => {
    const atOnce = Array.from({ length: 100 }, () => 5_000);
    expect(taken(atOnce, perSecond)).toBe(perSecond * MESSAGE_BURST_SECONDS);
  });

  it('takes a client that keeps it for as long as it stays', () => {
    const steady = Array.from({ length: 10_000 }, (_, index) => index * (1000 / PER_SECOND));
    expect(taken(steady)).toBe(steady.length);
  });

  it('ends a client that is a little too fast, after a while', () => {
    const hasty = Array.from({ length: 10_000 }, (_, index) => index * 90);
    expect(taken(hasty)).toBeGreaterThan(BURST);
    expect(taken(hasty)).toBeLessThan(BURST * 11);
  });

  it('owes nothing more than a burst to a client that was silent for long', () => {
    const returning = [0, ...Array.from({ length: 100 }, () => 86_400_000)];
    expect(taken(returning)).toBe(1 + BURST);
  });
});

describe('the places for sockets', () => {
  it('are as many as there are, in all and for each address', () => {
    const allowances = new SocketAllowances({ sockets: 3, socketsPerAddress: 2 });
    expect(['a', 'a', 'a', 'b', 'b', 'c', 'a'].map((from) => allowances.reserve(from))).toEqual([
      ...['granted', 'granted', 'all_of_address_taken', 'granted'],
      ...['all_taken', 'all_taken', 'all_of_address_taken'],
    ]);
  });

  it('are free again when they are given back', () => {
    const allowances = new SocketAllowances({ sockets: 2, socketsPerAddress: 1 });
    for (let round = 0; round < 3; round += 1) {
      expect(allowances.reserve('a')).toBe('granted');
      expect(allowances.reserve('b')).toBe('granted');
      allowances.release('b');
      allowances.release('a');
    }
  });

  it('are without number where the limit is 0', () => {
    const unlimited = new SocketAllowances({ sockets: 0, socketsPerAddress: 0 });
    const wishes = Array.from({ length: 1_000 }, () => unlimited.reserve('a'));
    expect(new Set(wishes)).toEqual(new Set(['granted']));
  });
});

describe('the sockets of a key', () => {
  it('give way to the newest, the oldest first', () => {
    const byKey = new SocketsByKey<string>(2);
    expect(['a', 'b', 'c', 'd'].map((socket) => byKey.enter('key', socket))).toEqual([
      ...[null, null],
      ...['a', 'b'],
    ]);
  });

  it('give way to none of another key, and to none where one has left', () => {
    const byKey = new SocketsByKey<string>(1);
    byKey.enter('key', 'a');
    expect(byKey.enter('other', 'b')).toBeNull();
    byKey.leave('key', 'a');
    expect(byKey.enter('key', 'c')).toBeNull();
    byKey.leave('key', 'a');
    expect(byKey.enter('key', 'd')).toBe('c');
  });

  it('are without number where the limit is 0', () => {
    const byKey = new SocketsByKey<number>(0);
    const left = Array.from({ length: 100 }, (_, socket) => byKey.enter('key', socket));
    expect(new Set(left)).toEqual(new Set([null]));
  });
});
