import { describe, expect, it } from 'vitest';
import { InFlight } from '../../src/net/in-flight.ts';

const GOOD = 'https://good.example';

describe('the places for requests', () => {
  it('are bounded for each origin, and come back', () => {
    const places = new InFlight({ maxInFlight: 100, maxInFlightPerOrigin: 2 });
    expect([places.enter(GOOD), places.enter(GOOD), places.enter(GOOD)]).toEqual([
      true,
      true,
      false,
    ]);
    places.leave(GOOD, true);
    expect(places.enter(GOOD)).toBe(true);
  });

  it('are kept in part from hosts that never answered', () => {
    const places = new InFlight({ maxInFlight: 100, maxInFlightPerOrigin: 100 });
    expect(taken(places, strangers(200))).toBe(50);
  });

  it('are there for who has been answering while strangers have taken theirs', () => {
    const places = new InFlight({ maxInFlight: 100, maxInFlightPerOrigin: 100 });
    answerTimes(places, GOOD, 3);
    taken(places, strangers(200));
    expect(
      taken(
        places,
        Array.from({ length: 20 }, () => GOOD),
      ),
    ).toBe(3);
    places.leave(GOOD, true);
    expect(places.enter(GOOD)).toBe(true);
  });

  it('are few in the reserve, however well somebody has answered', () => {
    const places = new InFlight({ maxInFlight: 100, maxInFlightPerOrigin: 100 });
    answerTimes(places, GOOD, 1_000);
    taken(places, strangers(200));
    expect(
      taken(
        places,
        Array.from({ length: 20 }, () => GOOD),
      ),
    ).toBe(8);
  });

  it('are not in the reserve for who failed the last time', () => {
    const places = new InFlight({ maxInFlight: 100, maxInFlightPerOrigin: 100 });
    answerTimes(places, GOOD, 8);
    places.enter(GOOD);
    places.leave(GOOD, false);
    taken(places, strangers(200));
    expect(places.enter(GOOD)).toBe(false);
  });

  it('are never more than there are', () => {
    const places = new InFlight({ maxInFlight: 100, maxInFlightPerOrigin: 100 });
    const known = strangers(200);
    for (const origin of known) {
      answerTimes(places, origin, 8);
    }
    expect(taken(places, [...known, ...known, ...known])).toBe(100);
  });
});

function strangers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `https://stranger-${index}.example`);
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
