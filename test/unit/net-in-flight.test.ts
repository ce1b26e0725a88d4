import { expect, it } from 'vitest';
import { InFlight } from '../../src/net/in-flight.ts';

const GOOD = 'good.example';
const OWN = 'https://own.example';

it('limits the requests of one host, and frees places', () => {
  const places = new InFlight({ maxInFlight: 100, maxInFlightPerParty: 2 }, new Set([OWN]));
  expect(enter(places, Array(3).fill(GOOD))).toBe(2);
  places.leave(GOOD, true);
  expect(places.enter(GOOD)).toBe(true);
});

it.each([
  ['keeps half of the places for hosts that have answered', 0, 0, 0],
  ['gives a host as many reserved places as it had answers', 3, 0, 3],
  ['gives a host few reserved places', 1_000, 0, 8],
  ['halves the reserved places after a failure', 8, 1, 4],
  ['gives no reserved place after several failures', 8, 4, 0],
])('%s', (_case, answers, failures, expected) => {
  const places = placesOf();
  answer(places, GOOD, answers);
  for (let failure = 0; failure < failures; failure += 1) {
    places.enter(GOOD);
    places.leave(GOOD, false);
  }
  expect(enter(places, strangers(200))).toBe(50);
  expect(enter(places, Array(20).fill(GOOD))).toBe(expected);
});

it('never exceeds the limit, except for trusted hosts', () => {
  const places = placesOf();
  const known = strangers(200);
  for (const host of known) {
    answer(places, host, 8);
  }
  expect(enter(places, [...known, ...known])).toBe(100);
  expect(enter(places, Array(200).fill(OWN))).toBe(100);
  places.leave(OWN, false);
  expect(enter(places, Array(20).fill(OWN))).toBe(1);
});

it('does not count trusted hosts against the others', () => {
  const places = placesOf();
  expect(enter(places, Array(100).fill(OWN))).toBe(100);
  places.leave(OWN, true);
  expect(enter(places, strangers(200))).toBe(50);
});

function placesOf(): InFlight {
  return new InFlight({ maxInFlight: 100, maxInFlightPerParty: 100 }, new Set([OWN]));
}

function strangers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `stranger-${index}.example`);
}

/** Returns how many of these requests got a place. */
function enter(places: InFlight, hosts: string[]): number {
  return hosts.filter((host) => places.enter(host)).length;
}

function answer(places: InFlight, host: string, times: number): void {
  for (let time = 0; time < times; time += 1) {
    places.enter(host);
    places.leave(host, true);
  }
}
