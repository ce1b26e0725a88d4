import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type MintRoute,
  POLL_GAP_MS,
  parseLearntLimits,
  RequestBudget,
} from '../../src/mint/request-budget.ts';
import type { RequestOutcome } from '../../src/mint/route-budget.ts';

const MINT = 'https://mint.example';
const NOW = 1_800_000_000_000;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const FOUND: RequestOutcome = { outcome: 'found' };
const CREATED: RequestOutcome = { outcome: 'created' };
const UNAVAILABLE: RequestOutcome = { outcome: 'unavailable' };
const REFUSED: RequestOutcome = { outcome: 'rate_limited', retryAfterMs: null };

/** How long an answer takes in simulations. */
const ANSWER_MS = 50;

describe('the request budget of a mint', () => {
  it('lets a first request go at once', () => {
    expect(newBudget().waitMs(MINT, 'read', NOW)).toBe(0);
  });

  it('starts with a poll every four seconds on each route', () => {
    const budget = newBudget();
    budget.sent(MINT, 'check', NOW);
    expect(budget.waitMs(MINT, 'check', NOW)).toBe(4_000);
    expect(budget.waitMs(MINT, 'check', NOW + 1_000)).toBe(3_000);
    expect(budget.waitMs(MINT, 'read', NOW)).toBe(0);
  });

  it('puts no gap between the payments that it asks quotes for', () => {
    const budget = newBudget();
    ask(budget, 'create', CREATED, NOW);
    expect(budget.waitMs(MINT, 'create', NOW)).toBe(0);
  });

  it('leaves a route quite alone for more than a minute after a 429', () => {
    const budget = newBudget();
    ask(budget, 'create', REFUSED, NOW);
    expect(budget.waitMs(MINT, 'create', NOW + 60_000)).toBeGreaterThan(0);
    expect(budget.waitMs(MINT, 'create', NOW + 65_000)).toBe(0);
  });

  it.each([
    [120_000, 120_000],
    [0, 2_000],
  ])('rests as long as the mint says where it says so: %i ms', (retryAfterMs, restMs) => {
    const budget = newBudget();
    ask(budget, 'create', { outcome: 'rate_limited', retryAfterMs }, NOW);
    expect(budget.waitMs(MINT, 'create', NOW)).toBe(restMs);
  });

  it('gives other routes and other mints their own rests', () => {
    const budget = newBudget();
    ask(budget, 'create', REFUSED, NOW);
    expect(budget.waitMs(MINT, 'read', NOW)).toBe(0);
    expect(budget.waitMs('https://other.example', 'create', NOW)).toBe(0);
  });

  it('does not let an answer that was under way end the rest after a 429', () => {
    const budget = newBudget();
    const slow = budget.sent(MINT, 'create', NOW);
    ask(budget, 'create', REFUSED, NOW);
    budget.record(slow, CREATED, NOW + 10);
    expect(budget.waitMs(MINT, 'create', NOW + 10)).toBe(64_990);
  });

  it('does not let a later 429 shorten the rest that an earlier one asked for', () => {
    const budget = newBudget();
    const slow = budget.sent(MINT, 'create', NOW);
    ask(budget, 'create', { outcome: 'rate_limited', retryAfterMs: 5 * MINUTE }, NOW);
    budget.record(slow, REFUSED, NOW + SECOND);
    expect(budget.waitMs(MINT, 'create', NOW + SECOND)).toBe(5 * MINUTE - SECOND);
    expect(budget.waitMs(MINT, 'create', NOW + 2 * MINUTE)).toBe(3 * MINUTE);
  });

  it('rests longer with each failure, up to a minute, until the mint answers', () => {
    const budget = newBudget();
    const rests: number[] = [];
    let now = NOW;
    for (let failure = 0; failure < 8; failure += 1) {
      ask(budget, 'create', UNAVAILABLE, now);
      const waitMs = budget.waitMs(MINT, 'create', now);
      rests.push(waitMs);
      now += waitMs;
    }
    expect(rests).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    ask(budget, 'create', { outcome: 'refused' }, now);
    expect(budget.waitMs(MINT, 'create', now)).toBe(0);
    ask(budget, 'create', UNAVAILABLE, now);
    expect(budget.waitMs(MINT, 'create', now)).toBe(1_000);
  });

  it('counts requests that fail together as one failure, however long each took to fail', () => {
    const budget = newBudget();
    const requests = Array.from({ length: 10 }, () => budget.sent(MINT, 'create', NOW));
    for (const [index, request] of requests.entries()) {
      budget.record(request, UNAVAILABLE, NOW + index * SECOND);
    }
    expect(budget.waitMs(MINT, 'create', NOW + 9 * SECOND)).toBe(0);
    ask(budget, 'create', UNAVAILABLE, NOW + 9 * SECOND);
    expect(budget.waitMs(MINT, 'create', NOW + 9 * SECOND)).toBe(2_000);
  });

  it('forgets the mints that were unused the longest', () => {
    const budget = newBudget();
    ask(budget, 'create', REFUSED, NOW);
    for (let mint = 0; mint < 5_000; mint += 1) {
      const request = budget.sent(`https://${mint}.example`, 'create', NOW);
      budget.record(request, UNAVAILABLE, NOW);
    }
    expect(budget.waitMs(MINT, 'create', NOW)).toBe(0);
    // A hundredth makes way at a time.
    expect(budget.waitMs('https://49.example', 'create', NOW)).toBe(1_000);
  });
});

describe('the pace of polls', () => {
  it('grows to twenty a second within two minutes, where polls are waited for', () => {
    const budget = newBudget();
    poll(budget, unlimited, { forMs: 2 * MINUTE });
    const now = NOW + 2 * MINUTE;
    expect(poll(budget, unlimited, { from: now, forMs: MINUTE }).admitted).toBeGreaterThan(1_000);
    expect(gapMs(budget, now + 2 * MINUTE)).toBe(MINUTE / 1_200);
  });

  it('does not grow for polls that come when they please', () => {
    const budget = newBudget();
    poll(budget, unlimited, { forMs: HOUR, everyMs: 8 * SECOND });
    expect(gapMs(budget, NOW + HOUR)).toBe(POLL_GAP_MS);
  });

  it('grows from the gap that it was given, and none stays none', () => {
    const quick = new RequestBudget({ pollGapMs: 5 });
    poll(quick, unlimited, { forMs: 10 * SECOND });
    expect(gapMs(quick, NOW + MINUTE)).toBe(5);
    const instant = new RequestBudget({ pollGapMs: 0 });
    poll(instant, unlimited, { forMs: 10 * SECOND });
    ask(instant, 'check', UNAVAILABLE, NOW + MINUTE);
    expect(instant.waitMs(MINT, 'check', NOW + MINUTE + SECOND)).toBe(0);
  });

  it('halves on trouble, to no less than a quarter of the first one, and grows again', () => {
    const budget = newBudget();
    const gaps: number[] = [];
    let now = NOW;
    for (let failure = 0; failure < 3; failure += 1) {
      ask(budget, 'check', UNAVAILABLE, now);
      now += MINUTE;
      gaps.push(gapMs(budget, now));
      now += MINUTE;
    }
    expect(gaps).toEqual([8_000, 16_000, 16_000]);
    poll(budget, unlimited, { from: now, forMs: 3 * MINUTE });
    expect(gapMs(budget, now + 3 * MINUTE)).toBeLessThan(POLL_GAP_MS);
  });

  it('halves once for polls that fail together', () => {
    const budget = newBudget();
    const requests = [budget.sent(MINT, 'read', NOW), budget.sent(MINT, 'read', NOW)];
    for (const request of requests) {
      budget.record(request, UNAVAILABLE, NOW);
    }
    expect(gapMs(budget, NOW + MINUTE, 'read')).toBe(8_000);
  });

  it('is never faster than what a 429 taught', () => {
    const budget = newBudget();
    poll(budget, slidingMinute(100), { forMs: HOUR });
    expect(gapMs(budget, NOW + HOUR)).toBeGreaterThan(MINUTE / 100);
  });

  it('is even again after a 429, however fast it was', () => {
    const budget = newBudget();
    poll(budget, slidingMinute(20), { forMs: MINUTE });
    expect(gapMs(budget, NOW + 2 * MINUTE)).toBe(MINUTE / 16);
  });
});

describe('a mint that allows 20 requests a minute', () => {
  it.each([
    ['starts the minute anew at each refusal', refusalsRestart, 15],
    ['counts any 60 seconds', slidingMinute, 15],
    // Twenty at once and then a quiet minute would be more, but news should not come in bursts.
    ['starts the minute anew at each request, as Nutshell does', nutshell, 8],
  ])('and %s refuses few of a day of polls', (_case, mintOf, leastPerMinute) => {
    const { refused, admitted } = poll(newBudget(), mintOf(20), { forMs: DAY });
    expect(refused).toBeLessThanOrEqual(6);
    expect(admitted / (DAY / MINUTE)).toBeGreaterThan(leastPerMinute);
  });

  it('and says when to come back is obeyed, and polled evenly without being pressed', () => {
    const { refused, admitted, sendings } = poll(newBudget(), sayingWhen(20), { forMs: DAY });
    expect(admitted / (DAY / MINUTE)).toBeGreaterThan(12);
    expect(refused / admitted).toBeLessThan(0.1);
    const longestPause = Math.max(...sendings.slice(1).map((at, i) => at - (sendings[i] ?? at)));
    expect(longestPause).toBeLessThan(MINUTE);
  });

  it('and says when to come back makes all quotes that it would, for a hundred a minute', () => {
    const { admitted } = pay(newBudget(), sayingWhen(20), { forMs: HOUR, perMinute: 100 });
    expect(admitted / 60).toBeGreaterThan(19);
  });

  it.each([
    ['four seconds', 4 * SECOND],
    ['fifteen seconds', 15 * SECOND],
    ['forty seconds', 40 * SECOND],
  ])('and is a Nutshell is polled in time, where that is every %s', (_case, everyMs) => {
    const budget = newBudget();
    const { sendings, refused } = poll(budget, nutshell(20), { forMs: 6 * HOUR, everyMs });
    expect(refused).toBeLessThanOrEqual(4);
    const longestPause = Math.max(...sendings.slice(1).map((at, i) => at - (sendings[i] ?? at)));
    expect(longestPause).toBeLessThan(70 * SECOND + everyMs);
    expect(sendings.length).toBeGreaterThan((6 * HOUR) / everyMs / 2);
  });

  it.each([
    ['starts the minute anew at each refusal', refusalsRestart, 15],
    ['counts any 60 seconds', slidingMinute, 15],
    ['starts the minute anew at each request, as Nutshell does', nutshell, 13],
  ])('and %s makes quotes for payers who come a hundred a minute', (_case, mintOf, least) => {
    const { refused, admitted } = pay(newBudget(), mintOf(20), { forMs: HOUR, perMinute: 100 });
    expect(refused).toBeLessThan(3);
    expect(admitted / 60).toBeGreaterThan(least);
  });

  it('and counts any 60 seconds holds back nobody who asks for less', () => {
    const { refused, held } = pay(newBudget(), slidingMinute(20), { forMs: DAY, perMinute: 19 });
    expect({ refused, held }).toEqual({ refused: 0, held: 0 });
  });
});

describe('the limit that a 429 teaches', () => {
  it('is four fifths of what was sent in the minute before', () => {
    const budget = newBudget();
    pay(budget, slidingMinute(20), { forMs: MINUTE, perMinute: 60 });
    expect(ceiling(budget, NOW + MINUTE)).toBe(16);
    const later = NOW + 2 * MINUTE;
    const sendings = pay(budget, unlimited, { from: later, forMs: MINUTE, perMinute: 600 });
    expect(sendings.admitted).toBe(16);
  });

  it('is learnt from the first refused one of many that were sent together', () => {
    const budget = newBudget();
    const requests = Array.from({ length: 64 }, () => budget.sent(MINT, 'create', NOW));
    const refused = requests.slice(20).toReversed();
    for (const [index, request] of refused.entries()) {
      budget.record(request, REFUSED, NOW + index);
    }
    for (const request of requests.slice(0, 20)) {
      budget.record(request, CREATED, NOW + 100);
    }
    expect(ceiling(budget, NOW + 100)).toBe(16);
  });

  it('holds for requests that are still under way', () => {
    const budget = newBudget();
    pay(budget, slidingMinute(20), { forMs: MINUTE, perMinute: 60 });
    const now = NOW + 3 * MINUTE;
    let sent = 0;
    while (budget.waitMs(MINT, 'create', now) === 0) {
      budget.sent(MINT, 'create', now);
      sent += 1;
    }
    expect(sent).toBe(16);
  });

  it('asks for a quiet minute where requests older than a minute were counted', () => {
    const budget = newBudget();
    poll(budget, nutshell(20), { forMs: 6 * MINUTE, everyMs: 15 * SECOND });
    expect(budget.learnt(MINT, NOW + 6 * MINUTE)?.check?.ceiling).toMatchObject({
      window: 'elastic',
      perWindow: 16,
    });
  });

  it('takes a minute for quiet that passed since the mint answered', () => {
    const budget = newBudget();
    adopt(budget, { create: limit({ window: 'elastic' }, { restUntil: 0 }) }, NOW);
    const now = NOW + 2 * MINUTE;
    const requests = Array.from({ length: 16 }, () => budget.sent(MINT, 'create', now));
    expect(budget.waitMs(MINT, 'create', now)).toBe(61_000);
    for (const request of requests) {
      budget.record(request, CREATED, now + 10 * SECOND);
    }
    expect(budget.waitMs(MINT, 'create', now + 10 * SECOND)).toBe(61_000);
  });

  it('is soon right for a mint that becomes a Nutshell with limits', () => {
    const budget = newBudget();
    pay(budget, unlimited, { forMs: HOUR, perMinute: 5 });
    const later = { from: NOW + HOUR, forMs: 12 * HOUR, perMinute: 5 };
    expect(pay(budget, nutshell(20), later).refused).toBeLessThan(8);
  });

  it('asks for no quiet minute of a mint that bore many more requests without one', () => {
    const budget = newBudget();
    const mint = slidingMinute(20);
    let now = NOW;
    for (let round = 0; round < 3; round += 1) {
      pay(budget, mint, { from: now, forMs: HOUR, perMinute: 5 });
      now += HOUR;
      pay(budget, mint, { from: now, forMs: MINUTE, perMinute: 60 });
      now += 3 * MINUTE;
    }
    expect(budget.learnt(MINT, now)?.create?.ceiling).toMatchObject({
      window: 'sliding',
      perWindow: 16,
    });
    expect(pay(budget, mint, { from: now, forMs: HOUR, perMinute: 5 }).held).toBe(0);
  });

  it('is tried again after an hour, and later and later where the mint refuses', () => {
    const budget = newBudget();
    const mint = slidingMinute(20);
    const ceilings: number[] = [];
    for (let hour = 0; hour < 8; hour += 1) {
      const from = NOW + hour * HOUR;
      pay(budget, mint, { from, forMs: HOUR, perMinute: 100 });
      ceilings.push(ceiling(budget, from + HOUR - SECOND));
    }
    // The mint allows 20, and refuses 25: nothing is tried for two hours then, and for four later.
    expect(ceilings).toEqual([16, 20, 16, 16, 20, 20, 16, 16]);
  });

  it.each([
    ['refused, and not reached since', slidingMinute, MINUTE, 16],
    ['reached before it was raised', slidingMinute, 4 * MINUTE, 20],
    ['raised and refused again', slidingMinute, 2 * HOUR + 40 * SECOND, 16],
    ['reached and refused again', nutshell, 2.5 * MINUTE, 16],
  ])('is tried again only where it is in the way: %s', (_case, mintOf, forMs, expected) => {
    const budget = newBudget();
    pay(budget, mintOf(20), { forMs, perMinute: 100 });
    const from = NOW + forMs + 2 * MINUTE;
    pay(budget, unlimited, { from, forMs: DAY, perMinute: 0.5 });
    expect(ceiling(budget, from + DAY)).toBe(expected);
  });

  it('is tried again too where requests were left to others who never came', () => {
    const budget = newBudget();
    adopt(budget, { create: limit() }, NOW);
    ask(budget, 'create', CREATED, NOW + MINUTE);
    expect(ceiling(budget, NOW + 2 * HOUR)).toBe(16);
    budget.leftToOthers(MINT, 'create');
    expect(ceiling(budget, NOW + 2 * HOUR)).toBe(20);
  });

  it('grows with a mint that allows more than it did', () => {
    const budget = newBudget();
    pay(budget, slidingMinute(20), { forMs: HOUR, perMinute: 100 });
    pay(budget, slidingMinute(60), { from: NOW + HOUR, forMs: 8 * HOUR, perMinute: 100 });
    expect(ceiling(budget, NOW + 9 * HOUR)).toBeGreaterThan(40);
  });

  it('is at most halved by one refusal, and never falls below ten', () => {
    const budget = newBudget();
    pay(budget, slidingMinute(100), { forMs: 3 * MINUTE, perMinute: 200 });
    const ceilings: number[] = [];
    for (let refusal = 0; refusal < 5; refusal += 1) {
      const now = NOW + (refusal + 5) * 2 * MINUTE;
      ask(budget, 'create', REFUSED, now);
      ceilings.push(ceiling(budget, now));
    }
    expect(ceilings).toEqual([40, 20, 10, 10, 10]);
  });

  it('is at most sixteen a second', () => {
    const budget = newBudget();
    pay(budget, unlimited, { forMs: MINUTE, perMinute: 6_000 });
    ask(budget, 'create', REFUSED, NOW + MINUTE);
    expect(budget.learnt(MINT, NOW + MINUTE)?.create?.ceiling).toMatchObject({
      window: 'sliding',
      perWindow: 960,
    });
  });

  it('is told of at each 429, and at nothing else', () => {
    const told: string[] = [];
    const budget = new RequestBudget({
      pollGapMs: POLL_GAP_MS,
      onLearnt: (mintUrl) => told.push(`${mintUrl} ${ceiling(budget, NOW)}`),
    });
    ask(budget, 'create', CREATED, NOW);
    ask(budget, 'create', UNAVAILABLE, NOW);
    ask(budget, 'create', REFUSED, NOW);
    expect(told).toEqual([`${MINT} 10`]);
  });

  it('is never passed in any minute after a refusal', () => {
    const mints = fc.record({
      mintOf: fc.constantFrom(nutshell, refusalsRestart, slidingMinute, sayingWhen),
      perMinute: fc.integer({ min: 1, max: 200 }),
    });
    // Pauses between attempts, some of them longer than a minute, and answers that take their time.
    const attempt = fc.record({
      pauseMs: fc.oneof(fc.nat(500), fc.nat(5_000), fc.nat(90_000)),
      answerMs: fc.nat(3_000),
    });
    const attempts = fc.array(attempt, { minLength: 50, maxLength: 400 });
    const routes = fc.constantFrom<MintRoute>('create', 'check');
    fc.assert(
      fc.property(mints, attempts, routes, ({ mintOf, perMinute }, pauses, route) => {
        const budget = newBudget();
        const mint = mintOf(perMinute);
        const sendings: number[] = [];
        let underWay: { at: number; tell: () => void }[] = [];
        let now = NOW;
        for (const { pauseMs, answerMs } of pauses) {
          now += pauseMs;
          for (const answer of underWay.toSorted((one, other) => one.at - other.at)) {
            if (answer.at <= now) {
              answer.tell();
            }
          }
          underWay = underWay.filter((answer) => answer.at > now);
          if (budget.waitMs(MINT, route, now) === 0) {
            const request = budget.sent(MINT, route, now);
            sendings.push(now);
            const limit = budget.learnt(MINT, now)?.[route];
            expect(now).toBeGreaterThanOrEqual(limit?.restUntil ?? 0);
            const inMinute = sendings.filter((at) => at > now - MINUTE).length;
            const highest = limit?.ceiling?.perWindow ?? Number.POSITIVE_INFINITY;
            expect(inMinute).toBeLessThanOrEqual(highest);
            const outcome = mint(now);
            const at = now + answerMs;
            underWay.push({ at, tell: () => budget.record(request, outcome, at) });
          }
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('the use of a route', () => {
  it.each(['sliding', 'elastic'])('counts what is in the window of its ceiling (%s)', (window) => {
    const budget = newBudget();
    adopt(budget, { create: limit({ window }) }, NOW - 10 * MINUTE);
    const used = (now: number) => budget.use(MINT, 'create', now).usedAt(now);
    const seen: number[] = [used(NOW)];
    for (const at of [0, 30 * SECOND, 70 * SECOND]) {
      ask(budget, 'create', CREATED, NOW + at);
      seen.push(used(NOW + at));
    }
    seen.push(used(NOW + 4 * MINUTE));
    expect(seen).toEqual(window === 'sliding' ? [0, 1, 2, 2, 0] : [0, 1, 2, 3, 0]);
  });

  it('is of one run until the route was left alone for a minute', () => {
    const budget = newBudget();
    ask(budget, 'create', CREATED, NOW);
    const first = budget.use(MINT, 'create', NOW);
    expect(first).toMatchObject({ ceiling: null, runEndsAt: NOW + 61 * SECOND });
    expect(first.usedAt(NOW)).toBe(0);
    expect(budget.use(MINT, 'create', first.runEndsAt - 1).run).toBe(first.run);
    const next = budget.use(MINT, 'create', first.runEndsAt).run;
    expect(next).toBe(first.run + 1);
    ask(budget, 'create', CREATED, first.runEndsAt);
    expect(budget.use(MINT, 'create', first.runEndsAt).run).toBe(next);
  });
});

describe('a mint that says when to come back', () => {
  it('is taken at its word, and payers are served as before when it is over', () => {
    const budget = newBudget();
    pay(budget, unlimited, { forMs: MINUTE, perMinute: 60 });
    const now = NOW + MINUTE;
    ask(budget, 'create', shedding(1_000), now);
    expect(budget.waitMs(MINT, 'create', now)).toBe(2_000);
    const after = { from: now + 2_000, forMs: 10 * MINUTE, perMinute: 600 };
    expect(pay(budget, unlimited, after).held).toBe(0);
    expect(budget.learnt(MINT, now)?.create).toMatchObject({ ceiling: null });
  });

  it('has its polls slowed down as for other trouble, and they grow again beyond any ceiling', () => {
    const budget = newBudget();
    ask(budget, 'check', shedding(1_000), NOW);
    expect(gapMs(budget, NOW + MINUTE)).toBe(8_000);
    poll(budget, unlimited, { from: NOW + 2 * MINUTE, forMs: 10 * MINUTE });
    expect(gapMs(budget, NOW + 13 * MINUTE)).toBe(MINUTE / 1_200);
  });

  it('slows polls down once for many that it sends away together', () => {
    const budget = newBudget();
    const requests = [1, 2, 3].map(() => budget.sent(MINT, 'check', NOW));
    for (const request of requests) {
      budget.record(request, shedding(1_000), NOW);
    }
    expect(gapMs(budget, NOW + MINUTE)).toBe(8_000);
  });

  it('keeps the ceiling that it taught when it said nothing', () => {
    const budget = newBudget();
    pay(budget, slidingMinute(20), { forMs: MINUTE, perMinute: 60 });
    const now = NOW + 3 * MINUTE;
    const before = budget.learnt(MINT, now)?.create?.ceiling;
    expect(before).toMatchObject({ perWindow: 16 });
    ask(budget, 'create', shedding(30_000), now);
    expect(budget.learnt(MINT, now)?.create?.ceiling).toEqual(before);
    expect(budget.waitMs(MINT, 'create', now)).toBe(30_000);
  });

  it('teaches a ceiling by the refusals without a word among others, in any order', () => {
    for (const order of [
      [20, 21, 22],
      [22, 21, 20],
      [21, 20, 22],
    ]) {
      const budget = newBudget();
      const requests = Array.from({ length: 23 }, () => budget.sent(MINT, 'create', NOW));
      for (const index of order) {
        const outcome = index === 21 ? shedding(5 * MINUTE) : REFUSED;
        budget.record(requests[index] ?? never(), outcome, NOW);
      }
      expect(ceiling(budget, NOW)).toBe(16);
      expect(budget.waitMs(MINT, 'create', NOW)).toBe(5 * MINUTE);
    }
  });
});

describe('a process that takes a mint over', () => {
  it('keeps the rest and the limit that the other learnt, through JSON', () => {
    const one = newBudget();
    pay(one, slidingMinute(20), { forMs: MINUTE, perMinute: 60 });
    const now = NOW + MINUTE;
    const learnt = one.learnt(MINT, now);
    const other = newBudget();
    adopt(other, learnt, now);
    expect(other.learnt(MINT, now)).toEqual(learnt);
    expect(other.waitMs(MINT, 'create', now)).toBe(one.waitMs(MINT, 'create', now));
    expect(other.waitMs(MINT, 'create', now)).toBeGreaterThan(20 * SECOND);
    expect(other.waitMs(MINT, 'check', now)).toBe(0);
  });

  it.each([
    ['a minute', slidingMinute],
    ['a quiet minute', nutshell],
  ])('leaves room for what the other asked in %s', (_case, mintOf) => {
    const mint = mintOf(20);
    const one = newBudget();
    pay(one, mint, { forMs: 20 * MINUTE, perMinute: 100 });
    const now = NOW + 25 * MINUTE;
    pay(one, mint, { from: now, forMs: 8 * SECOND, perMinute: 60 });

    const other = newBudget();
    adopt(other, one.learnt(MINT, now), now + 10 * SECOND);
    const taken = pay(other, mint, { from: now + 10 * SECOND, forMs: HOUR, perMinute: 100 });
    expect(taken.refused).toBe(0);
    expect(taken.admitted).toBeGreaterThan(12 * 60);
  });

  it('loosens nothing of what it knows itself', () => {
    const strict = newBudget();
    pay(strict, slidingMinute(20), { forMs: MINUTE, perMinute: 60 });
    const loose = newBudget();
    pay(loose, slidingMinute(100), { forMs: MINUTE, perMinute: 200 });
    const now = NOW + MINUTE;
    const waitMs = strict.waitMs(MINT, 'create', now);
    const looseLimits = loose.learnt(MINT, now);
    adopt(strict, looseLimits, now);
    expect(ceiling(strict, now)).toBe(16);
    expect(strict.waitMs(MINT, 'create', now)).toBeGreaterThanOrEqual(waitMs);
  });

  it('keeps the stricter of two in everything', () => {
    const later = NOW + HOUR;
    const rest = { restUntil: later + 30_000, restMs: 30_000 };
    const elastic = { window: 'elastic', learntAt: later };
    const probing = { perWindow: 20, isProbe: true, probeAfterMs: 4 * HOUR };
    const one = limit({ ...elastic, perWindow: 40 }, rest);
    const two = limit(probing);
    const expected = limit({ ...elastic, ...probing }, rest);
    for (const [first, second] of [
      [one, two],
      [two, one],
    ]) {
      const budget = newBudget();
      adopt(budget, { create: first }, later);
      adopt(budget, { create: second }, later);
      expect(budget.learnt(MINT, later)?.create).toEqual(expected);
    }
  });

  it('keeps a rest from one and a ceiling from another', () => {
    const rest = { restUntil: NOW + 5 * MINUTE, restMs: 5 * MINUTE };
    const restAlone = limit({}, { ...rest, ceiling: null });
    for (const [first, second] of [
      [restAlone, limit()],
      [limit(), restAlone],
    ]) {
      const budget = newBudget();
      adopt(budget, { create: first }, NOW);
      adopt(budget, { create: second }, NOW);
      expect(budget.learnt(MINT, NOW)?.create).toEqual(limit({}, rest));
    }
  });

  it('keeps a rest that the mint itself asked the other for, and no ceiling', () => {
    const one = newBudget();
    ask(one, 'create', shedding(30_000), NOW);
    const other = newBudget();
    adopt(other, one.learnt(MINT, NOW), NOW);
    expect(other.waitMs(MINT, 'create', NOW)).toBe(30_000);
    const later = { from: NOW + 30_000, forMs: MINUTE, perMinute: 600 };
    expect(pay(other, unlimited, later).held).toBe(0);
  });

  it('loosens nothing because of what it had sent before', () => {
    const budget = newBudget();
    const requests = Array.from({ length: 64 }, () => budget.sent(MINT, 'create', NOW));
    const [earlier, later] = requests.slice(30);
    budget.record(later ?? never(), REFUSED, NOW);
    adopt(budget, { create: limit() }, NOW);
    budget.record(earlier ?? never(), REFUSED, NOW);
    expect(ceiling(budget, NOW)).toBe(16);
  });

  it('knows nothing of a mint that never refused', () => {
    const budget = newBudget();
    ask(budget, 'create', CREATED, NOW);
    expect(budget.learnt(MINT, NOW)).toBeNull();
    expect(budget.learnt('https://other.example', NOW)).toBeNull();
  });

  it('does not believe a rest that ends far in the future, as when the clock was set back', () => {
    const one = newBudget();
    ask(one, 'create', REFUSED, NOW);
    const before = NOW - 10 * DAY;
    const other = newBudget();
    adopt(other, one.learnt(MINT, NOW), before);
    expect(other.waitMs(MINT, 'create', before)).toBe(65_000);
    expect(other.waitMs(MINT, 'create', before + 2 * MINUTE)).toBe(0);
  });

  it.each([
    ['nothing', null],
    ['a text', 'garbage'],
    ['a list', []],
    ['an unknown route', { mint: limit() }],
    ['a ceiling of none', { create: limit({ perWindow: 0 }) }],
    ['a ceiling without end', { create: limit({ perWindow: 1e9 }) }],
    ['a ceiling that is text', { create: limit({ perWindow: '16' }) }],
    ['a rest of a year', { create: limit({}, { restMs: 365 * DAY }) }],
    ['no probing', { create: limit({ probeAfterMs: null }) }],
    ['no word on a ceiling', { create: limit({}, { ceiling: undefined }) }],
    ['another kind of window', { create: limit({ window: 'tumbling' }) }],
  ])('takes %s for no knowledge', (_case, stored) => {
    expect(parseLearntLimits(stored)).toBeNull();
  });

  it('reads what is whole', () => {
    const whole = { create: limit(), check: limit({}, { ceiling: null }) };
    expect(parseLearntLimits(whole)).toEqual(whole);
  });
});

describe('a clock that is set', () => {
  it('back begins a rest anew and stretches none', () => {
    const budget = newBudget();
    ask(budget, 'create', REFUSED, NOW);
    ask(budget, 'read', UNAVAILABLE, NOW);
    const before = NOW - DAY;
    expect(budget.waitMs(MINT, 'create', before)).toBe(65_000);
    expect(budget.waitMs(MINT, 'read', before)).toBeLessThanOrEqual(60_000);
    expect(budget.waitMs(MINT, 'create', before + 65_000)).toBe(0);
  });

  it.each([
    ['a minute', slidingMinute],
    ['a quiet minute', nutshell],
  ])('back stops nothing for longer than %s', (_case, mintOf) => {
    const budget = newBudget();
    const mint = mintOf(20);
    pay(budget, mint, { forMs: 10 * MINUTE, perMinute: 100 });
    poll(budget, unlimited, { forMs: 10 * MINUTE });
    const before = NOW - DAY;
    expect(budget.waitMs(MINT, 'create', before)).toBeLessThanOrEqual(65_000);
    expect(budget.waitMs(MINT, 'check', before)).toBeLessThanOrEqual(POLL_GAP_MS);
    expect(budget.waitMs(MINT, 'create', before + 65_000)).toBe(0);
  });

  it('back does not put off the next try of a higher ceiling', () => {
    const budget = newBudget();
    pay(budget, slidingMinute(20), { forMs: 2 * MINUTE, perMinute: 100 });
    pay(budget, unlimited, { from: NOW - DAY, forMs: 3 * HOUR, perMinute: 100 });
    expect(ceiling(budget, NOW - DAY + 3 * HOUR)).toBeGreaterThan(16);
  });

  it('forward costs a refusal at most', () => {
    const budget = newBudget();
    let ahead = 0;
    const clockless = refusalsRestart(20);
    const mint = (now: number) => clockless(now - ahead);
    pay(budget, mint, { forMs: 10 * MINUTE, perMinute: 100 });
    ahead = HOUR;
    const from = NOW + 10 * MINUTE + ahead;
    const after = pay(budget, mint, { from, forMs: HOUR / 2, perMinute: 100 });
    expect(after.refused).toBeLessThanOrEqual(1);
    expect(after.admitted / 30).toBeGreaterThan(9);
  });
});

/** A 429 with `Retry-After`. */
function shedding(retryAfterMs: number): RequestOutcome {
  return { outcome: 'rate_limited', retryAfterMs };
}

/** A mint that answers a request which is sent now. */
type Mint = (now: number) => RequestOutcome;

function unlimited(): RequestOutcome {
  return FOUND;
}

/** As measured on Nutshell 0.20: it counts until it was left alone for a minute. */
function nutshell(perMinute: number): Mint {
  let used = 0;
  let endsAt = 0;
  return (now) => {
    used = now < endsAt ? used + 1 : 1;
    endsAt = now + MINUTE;
    return used <= perMinute ? FOUND : REFUSED;
  };
}

/** A minute begins with its first request, and anew with each refusal. */
function refusalsRestart(perMinute: number): Mint {
  let used = 0;
  let endsAt = 0;
  return (now) => {
    if (now >= endsAt) {
      used = 0;
      endsAt = now + MINUTE;
    }
    used += 1;
    if (used <= perMinute) {
      return FOUND;
    }
    endsAt = now + MINUTE;
    return REFUSED;
  };
}

/** No more than so many in any 60 s; what it refuses does not count. */
function slidingMinute(perMinute: number): Mint {
  const mint = sayingWhen(perMinute);
  return (now) => (mint(now).outcome === 'found' ? FOUND : REFUSED);
}

/** The same, with `Retry-After`. */
function sayingWhen(perMinute: number): Mint {
  let admitted: number[] = [];
  return (now) => {
    admitted = admitted.filter((at) => at > now - MINUTE);
    if (admitted.length < perMinute) {
      admitted.push(now);
      return FOUND;
    }
    return { outcome: 'rate_limited', retryAfterMs: (admitted[0] ?? now) + MINUTE - now };
  };
}

interface Simulated {
  admitted: number;
  refused: number;
  /** What the budget did not let go. */
  held: number;
  /** When requests were sent. */
  sendings: number[];
}

/** Polls as soon as the budget allows it, or so long after the poll before. */
function poll(
  budget: RequestBudget,
  mint: Mint,
  demand: { from?: number; forMs: number; everyMs?: number },
): Simulated {
  const { from = NOW, forMs, everyMs = 0 } = demand;
  const simulated: Simulated = { admitted: 0, refused: 0, held: 0, sendings: [] };
  let now = from;
  while (now < from + forMs) {
    const waitMs = budget.waitMs(MINT, 'check', now);
    if (waitMs > 0) {
      now += waitMs;
    } else {
      simulated.sendings.push(now);
      const outcome = ask(budget, 'check', mint(now), now);
      simulated[outcome === 'rate_limited' ? 'refused' : 'admitted'] += 1;
      now += Math.max(ANSWER_MS, everyMs);
    }
  }
  return simulated;
}

/** Payers come evenly, and those that the budget holds back go away. */
function pay(
  budget: RequestBudget,
  mint: Mint,
  demand: { from?: number; forMs: number; perMinute: number },
): Simulated {
  const { from = NOW, forMs, perMinute } = demand;
  const simulated: Simulated = { admitted: 0, refused: 0, held: 0, sendings: [] };
  for (let payer = 0; payer < (forMs / MINUTE) * perMinute; payer += 1) {
    const now = from + Math.floor((payer * MINUTE) / perMinute);
    if (budget.waitMs(MINT, 'create', now) > 0) {
      simulated.held += 1;
    } else {
      simulated.sendings.push(now);
      const outcome = ask(budget, 'create', mint(now), now);
      simulated[outcome === 'rate_limited' ? 'refused' : 'admitted'] += 1;
    }
  }
  return simulated;
}

/** Sends a request at once and has it answered soon after. */
function ask(budget: RequestBudget, route: MintRoute, outcome: RequestOutcome, now: number) {
  budget.record(budget.sent(MINT, route, now), outcome, now);
  return outcome.outcome;
}

function newBudget(): RequestBudget {
  return new RequestBudget({ pollGapMs: POLL_GAP_MS });
}

/** From one poll to the next, at a time when nothing else stands in the way. */
function gapMs(budget: RequestBudget, now: number, route: MintRoute = 'check'): number {
  budget.sent(MINT, route, now);
  return budget.waitMs(MINT, route, now);
}

function ceiling(budget: RequestBudget, now: number): number {
  return budget.learnt(MINT, now)?.create?.ceiling?.perWindow ?? Number.NaN;
}

/** As a process does that finds what another one stored. */
function adopt(budget: RequestBudget, learnt: unknown, now: number): void {
  const stored = parseLearntLimits(JSON.parse(JSON.stringify(learnt)));
  expect(stored).not.toBeNull();
  budget.adopt(MINT, stored ?? {}, now);
}

function never(): never {
  throw new Error('there are as many requests as were sent');
}

/** A limit as it is stored, with something changed of its ceiling or of the rest. */
function limit(ceilingChanges: object = {}, changes: object = {}): object {
  return {
    ceiling: {
      window: 'sliding',
      perWindow: 16,
      learntAt: NOW,
      isProbe: false,
      probeAfterMs: HOUR,
      ...ceilingChanges,
    },
    restUntil: NOW + 65_000,
    restMs: 65_000,
    ...changes,
  };
}
