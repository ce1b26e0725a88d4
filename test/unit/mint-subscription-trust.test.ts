import { expect, it } from 'vitest';
import { SocketTrust } from '../../src/mint/subscription-trust.ts';

const NOW = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

it('is lost with the third silent connection in a row, for an hour', () => {
  const trust = new SocketTrust(HOUR_MS);
  expect([trust.foundSilent(NOW), trust.isTrusted(NOW)]).toEqual([true, true]);
  expect([trust.foundSilent(NOW), trust.isTrusted(NOW)]).toEqual([true, true]);
  expect([trust.foundSilent(NOW), trust.isTrusted(NOW)]).toEqual([true, false]);
  expect(trust.isTrusted(NOW + HOUR_MS - 1)).toBe(false);
  expect(trust.isTrusted(NOW + HOUR_MS)).toBe(true);
});

it('costs a mint that stays silent no further connection while it is lost, and one after that', () => {
  const trust = distrusted();
  expect(trust.foundSilent(NOW + HOUR_MS - 1)).toBe(false);
  expect(trust.foundSilent(NOW + HOUR_MS)).toBe(true);
  expect(trust.isTrusted(NOW + HOUR_MS)).toBe(false);
});

it('is back with three news told before a poll, where none is missing between them', () => {
  const trust = distrusted();
  trust.toldFirst();
  trust.toldFirst();
  trust.foundSilent(NOW);
  trust.toldFirst();
  trust.toldFirst();
  expect(trust.isTrusted(NOW)).toBe(false);
  trust.toldFirst();
  expect(trust.isTrusted(NOW)).toBe(true);
  expect([trust.foundSilent(NOW), trust.isTrusted(NOW)]).toEqual([true, true]);
});

it('is not lost for longer where the clock is set back', () => {
  const trust = distrusted();
  const earlier = NOW - 24 * HOUR_MS;
  expect(trust.isTrusted(earlier)).toBe(false);
  expect(trust.isTrusted(earlier + HOUR_MS)).toBe(true);
});

function distrusted(): SocketTrust {
  const trust = new SocketTrust(HOUR_MS);
  for (let connection = 0; connection < 3; connection += 1) {
    trust.foundSilent(NOW);
  }
  return trust;
}
