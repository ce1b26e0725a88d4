import { describe, expect, it } from 'vitest';
import { MinuteCounts } from '../../src/domain/minute-counts.ts';

/** How often somebody may do something in a minute. */

const NOW = 1_800_000_000_000;

describe('who does something too often', () => {
  it('is refused until the minute is over, which began with the first time', () => {
    const counts = new MinuteCounts(2, 10);
    expect(counts.count('alice', NOW)).toBe(null);
    expect(counts.count('alice', NOW + 10_000)).toBe(null);
    expect(counts.count('alice', NOW + 20_000)).toBe(40_000);
    expect(counts.count('alice', NOW + 59_999)).toBe(1);
    expect(counts.count('alice', NOW + 60_000)).toBe(null);
  });

  it('takes nothing from anybody else', () => {
    const counts = new MinuteCounts(1, 10);
    counts.count('alice', NOW);
    expect(counts.count('alice', NOW)).toBe(60_000);
    expect(counts.count('bob', NOW)).toBe(null);
  });

  it('has a minute of its own for every minute', () => {
    const counts = new MinuteCounts(1, 10);
    counts.count('alice', NOW);
    counts.count('alice', NOW + 90_000);
    expect(counts.count('alice', NOW + 100_000)).toBe(50_000);
  });
});

describe('a clock that is set back', () => {
  it.each([
    ['by an hour', 3_600_000],
    ['by half a minute', 30_000],
    ['by a moment', 1],
  ])('%s refuses nobody for longer than a minute', (_howFar, byMs) => {
    const counts = new MinuteCounts(1, 10);
    counts.count('alice', NOW);
    expect(counts.count('alice', NOW - byMs)).toBe(null);
    expect(counts.count('alice', NOW - byMs)).toBe(60_000);
  });
});

describe('of more than are remembered', () => {
  it('the one whose minute began the longest ago is forgiven', () => {
    const counts = new MinuteCounts(1, 2);
    for (const key of ['alice', 'bob', 'carol']) {
      counts.count(key, NOW);
    }
    expect(counts.count('bob', NOW)).toBe(60_000);
    expect(counts.count('carol', NOW)).toBe(60_000);
    expect(counts.count('alice', NOW)).toBe(null);
  });

  it('who began anew is the latest', () => {
    const counts = new MinuteCounts(1, 2);
    counts.count('alice', NOW);
    counts.count('bob', NOW + 1);
    counts.count('alice', NOW + 60_000);
    counts.count('carol', NOW + 60_000);
    expect(counts.count('alice', NOW + 60_001)).toBe(59_999);
  });

  it('a new one costs about what it did while there was room', () => {
    const max = 131_072;
    const counts = new MinuteCounts(1, max);
    const cpuMicrosecondsOf = (from: number) => {
      const before = process.cpuUsage();
      for (let key = from; key < from + max; key += 1) {
        counts.count(`key ${key}`, NOW);
      }
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    const withRoom = cpuMicrosecondsOf(0);
    expect(cpuMicrosecondsOf(max)).toBeLessThan(20 * withRoom);
  });
});
