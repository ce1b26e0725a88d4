import { describe, expect, it } from 'vitest';
import { InFlight, type InFlightLimits } from '../../src/net/in-flight.ts';

const GOOD = 'good.example';
const OWN = 'https://own.example';

describe('the places for requests', () => {
  it('are bounded for each party, and come back', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 2 });
    expect([places.enter(GOOD), places.enter(GOOD), places.enter(GOOD)]).toEqual([
      true,
      true,
      false,
    ]);
    places.leave(GOOD, true);
    expect(places.enter(GOOD)).toBe(true);
  });

  it('are kept in part from hosts that never answered', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 100 });
    expect(taken(places, strangers(200))).toBe(50);
  });

  it('are there for who has been answering while strangers have taken theirs', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 100 });
    answerTimes(places, GOOD, 3);
    taken(places, strangers(200));
    expect(taken(places, times(20, GOOD))).toBe(3);
    places.leave(GOOD, true);
    expect(places.enter(GOOD)).toBe(true);
  });

  it('are few in the reserve, however well somebody has answered', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 100 });
    answerTimes(places, GOOD, 1_000);
    taken(places, strangers(200));
    expect(taken(places, times(20, GOOD))).toBe(8);
  });

  it('are half as many in the reserve after each failure', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 100 });
    answerTimes(places, GOOD, 8);
    fail(places, GOOD);
    taken(places, strangers(200));
    expect(taken(places, times(20, GOOD))).toBe(4);
  });

  it('are none in the reserve for who has failed again and again', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 100 });
    answerTimes(places, GOOD, 8);
    for (let time = 0; time < 4; time += 1) {
      fail(places, GOOD);
    }
    taken(places, strangers(200));
    expect(places.enter(GOOD)).toBe(false);
  });

  it('are there for who the operator trusts, when liars have taken the reserve too', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 10 });
    const liars = strangers(20);
    for (const liar of liars) {
      answerTimes(places, liar, 8);
    }
    expect(taken(places, [...strangers(50), ...liars.flatMap((liar) => times(8, liar))])).toBe(100);
    expect([places.enter(GOOD), taken(places, times(20, OWN))]).toEqual([false, 10]);
    places.leave(OWN, false);
    expect(taken(places, times(20, OWN))).toBe(1);
  });

  it('are not taken from others by who the operator trusts', () => {
    const places = placesOf({ maxInFlight: 10, maxInFlightPerParty: 10 });
    expect(taken(places, times(10, OWN))).toBe(10);
    places.leave(OWN, true);
    expect(taken(places, strangers(20))).toBe(5);
  });

  it('are never more than there are', () => {
    const places = placesOf({ maxInFlight: 100, maxInFlightPerParty: 100 });
    const known = strangers(200);
    for (const origin of known) {
      answerTimes(places, origin, 8);
    }
    expect(taken(places, [...known, ...known, ...known])).toBe(100);
  });
});

function strangers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `stranger-${index}.example`);
}

function placesOf(limits: InFlightLimits): InFlight {
  return new InFlight(limits, new Set([OWN]));
}

function times(count: number, party: string): string[] {
  return Array.from({ length: count }, () => party);
}

function fail(places: InFlight, party: string): void {
  places.enter(party);
  places.leave(party, false);
}

/** How many of these requests got a place. */
function taken(places: InFlight, origins: string[]): number {
  return origins.filter((origin) => places.enter(origin)).length;
}

function answerTimes(places: InFlight, origin: string, times: number): void {
  for (let time = 0; time < times; time += 1) {
    places.enter(origin);
    places.leave(origin, true);
  }
}
