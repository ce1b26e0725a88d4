import { describe, expect, it } from 'vitest';
import { MESSAGE_BURST_SECONDS, takeMessage } from '../../src/http/api/message-pace.ts';
import { SocketAllowances } from '../../src/http/api/socket-allowances.ts';
import { SocketsByKey } from '../../src/http/api/sockets-by-key.ts';

// test/acceptance/socket-limits.test.ts covers the limits as clients meet them.

const PER_SECOND = 10;
const BURST = PER_SECOND * MESSAGE_BURST_SECONDS;

describe('takeMessage', () => {
  it.each([
    ['a burst of two seconds', Array(100).fill(5_000), BURST, BURST],
    ['any number at the allowed rate', every(100), 10_000, 10_000],
    ['more than a burst slightly above it', every(90), BURST + 1, BURST * 11],
    ['one burst after a long silence', [0, ...Array(100).fill(86_400_000)], 1 + BURST, 1 + BURST],
  ])('accepts %s', (_case, arrivalsMs, atLeast, atMost) => {
    let dueMs: number | null = 0;
    let accepted = 0;
    for (const nowMs of arrivalsMs) {
      dueMs = takeMessage(dueMs, nowMs, PER_SECOND);
      if (dueMs === null) {
        break;
      }
      accepted += 1;
    }
    expect(accepted).toBeGreaterThanOrEqual(atLeast);
    expect(accepted).toBeLessThanOrEqual(atMost);
  });

  function every(intervalMs: number): number[] {
    return Array.from({ length: 10_000 }, (_, index) => index * intervalMs);
  }
});

it('SocketAllowances grants sockets up to the limits, in all and for each address', () => {
  const allowances = new SocketAllowances({ sockets: 3, socketsPerAddress: 2 });
  expect(['a', 'a', 'a', 'b', 'b', 'a'].map((from) => allowances.reserve(from))).toEqual([
    ...['granted', 'granted', 'all_of_address_taken'],
    ...['granted', 'all_taken', 'all_of_address_taken'],
  ]);
  allowances.release('a');
  expect(allowances.reserve('b')).toBe('granted');
});

it('SocketsByKey replaces the oldest socket of the same key', () => {
  const byKey = new SocketsByKey<string>(2);
  expect(['a', 'b', 'c', 'd'].map((socket) => byKey.enter('key', socket))).toEqual([
    null,
    null,
    'a',
    'b',
  ]);
  expect(byKey.enter('other', 'e')).toBeNull();
  byKey.leave('key', 'c');
  expect(byKey.enter('key', 'f')).toBeNull();
});

it('a limit of 0 is no limit', () => {
  const allowances = new SocketAllowances({ sockets: 0, socketsPerAddress: 0 });
  const byKey = new SocketsByKey<number>(0);
  for (let socket = 0; socket < 100; socket += 1) {
    expect(allowances.reserve('a')).toBe('granted');
    expect(byKey.enter('key', socket)).toBeNull();
  }
});
