import { expect, it } from 'vitest';
import { type ConnectionEnd, ReconnectPace } from '../../src/mint/subscription-pace.ts';
import { DEFAULT_TIMING } from '../../src/mint/subscription-timing.ts';

const MINUTE_MS = 60_000;

it.each(['cut', 'silent', 'unanswered'] as const)(
  'waits from a second to a minute, longer each time, where connections end %s',
  (end) => {
    const pace = new ReconnectPace(DEFAULT_TIMING);
    for (const longestMs of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
      const restMs = pace.restMs(end, false);
      expect(restMs).toBeGreaterThanOrEqual(longestMs / 2);
      expect(restMs).toBeLessThanOrEqual(longestMs);
    }
  },
);

it('begins anew after a connection that was good for a while, and not after one that was sick', () => {
  const pace = new ReconnectPace(DEFAULT_TIMING);
  failTimes(pace, 6, 'cut');
  expect(pace.restMs('silent', true)).toBeGreaterThanOrEqual(30_000);
  expect(pace.restMs('cut', true)).toBeLessThanOrEqual(1_000);
});

it('leaves a mint that floods alone for a minute, then twice as long each time, up to an hour', () => {
  const pace = new ReconnectPace(DEFAULT_TIMING);
  const rests = Array.from({ length: 8 }, () => pace.restMs('flooding', true) / MINUTE_MS);
  expect(rests).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
});

it('leaves a mint that was asked too often alone for more than a minute, however often', () => {
  const pace = new ReconnectPace(DEFAULT_TIMING);
  failTimes(pace, 3, 'rate_limited');
  expect(pace.restMs('rate_limited', false)).toBe(65_000);
});

function failTimes(pace: ReconnectPace, times: number, end: ConnectionEnd): void {
  for (let failure = 0; failure < times; failure += 1) {
    pace.restMs(end, false);
  }
}
