import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ElasticRateLimit } from '../../src/demo/test-mint/rate-limit.ts';
import { MintShares, type Payment } from '../../src/mint/mint-shares.ts';
import { POLL_GAP_MS, RequestBudget } from '../../src/mint/request-budget.ts';
import type { RequestOutcome } from '../../src/mint/route-budget.ts';

const MINT = 'https://mint.example';
const NOW = 1_800_000_000_000;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const CREATED: RequestOutcome = { outcome: 'created' };
const REFUSED: RequestOutcome = { outcome: 'rate_limited', retryAfterMs: null };
const SHED: RequestOutcome = { outcome: 'rate_limited', retryAfterMs: SECOND };

/** More than anybody is given at once. */
const MANY = 3_000;

type Window = 'sliding' | 'elastic';

const ceilings = fc.integer({ min: 10, max: 60 });

/** One of them is asked for, or asks, most of the time. */
const mostlyOne = fc.oneof(fc.constant(0), fc.nat(30));

const asking = fc.record({
  pauseMs: fc.oneof(fc.constant(0), fc.nat(2_000), fc.nat(20_000), fc.nat(90_000)),
  recipient: mostlyOne.map((who) => `recipient ${who}`),
  network: mostlyOne.map((who) => `network ${who}`),
});

describe.each<Window>(['sliding', 'elastic'])('shares of a ceiling (%s)', (window) => {
  it('leave half to the others, however often one is asked for', () => {
    const desk = openDesk({ window, perWindow: 16 });
    expect(desk.flood('alice')).toBe(8);
    expect(desk.flood('alice')).toBe(0);
    expect(desk.flood('bob')).toBe(4);
    expect(desk.flood('carol')).toBe(2);
    expect(desk.ask('dave')).toBe(true);
    expect(desk.flood('alice')).toBe(0);
  });

  it('are a third each for two who come together', () => {
    const desk = openDesk({ window, perWindow: 15 });
    const given = { alice: 0, bob: 0 };
    for (let round = 0; round < 15; round += 1) {
      given.alice += Number(desk.ask('alice'));
      given.bob += Number(desk.ask('bob'));
    }
    expect(given).toEqual({ alice: 5, bob: 5 });
  });

  it('leave half to others where one network asks, for whomever', () => {
    const desk = openDesk({ window, perWindow: 16 });
    let given = 0;
    for (let made = 0; made < 50; made += 1) {
      given += Number(desk.ask({ recipient: `made up ${made}`, network: 'flood' }));
    }
    expect(given).toBe(8);
    expect(desk.waitMs({ recipient: 'alice', network: 'flood' })).toBeGreaterThan(0);
    for (let other = 0; other < 8; other += 1) {
      expect(desk.ask(`recipient ${other}`)).toBe(true);
    }
  });

  it('leave room to others who pay the same recipient', () => {
    const desk = openDesk({ window, perWindow: 16 });
    expect(desk.flood({ recipient: 'alice', network: 'flood' })).toBe(6);
    expect(desk.ask('alice')).toBe(true);
    expect(desk.ask('alice')).toBe(true);
    expect(desk.ask('bob')).toBe(true);
  });

  it('come back with the window, and whoever asks is told when', () => {
    const desk = openDesk({ window, perWindow: 16 });
    desk.flood('alice');
    const waitMs = desk.waitMs('alice');
    expect(waitMs).toBe(window === 'sliding' ? MINUTE : MINUTE + SECOND);
    desk.nowMs += waitMs - 1;
    expect(desk.ask('alice')).toBe(false);
    desk.nowMs += 1;
    expect(desk.flood('alice')).toBe(8);
  });

  it('are not in the way of whoever had none: where nothing is left, the budget says so', () => {
    const desk = openDesk({ window, perWindow: 16 });
    for (let other = 0; other < 16; other += 1) {
      expect(desk.ask(`other ${other}`)).toBe(true);
    }
    expect(desk.waitMs('alice')).toBe(0);
    expect(desk.ask('alice')).toBe(false);
  });

  it('are of one mint each', () => {
    const desk = openDesk({ window, perWindow: 16 });
    desk.flood('alice');
    expect(desk.ask('alice', 'https://other.example')).toBe(true);
  });

  it('hold where no number was set for mints without a known limit', () => {
    const desk = openDesk({ window, perWindow: 16, perMinute: 0 });
    expect(desk.flood('alice')).toBe(8);
  });

  it('are not used by a request that was never sent', () => {
    const desk = openDesk({ window, perWindow: 16 });
    for (let attempt = 0; attempt < 100; attempt += 1) {
      desk.withdraw('alice');
    }
    expect(desk.flood('alice')).toBe(8);
  });

  it('always have room for whoever had nothing, and are never more than there is', () => {
    fc.assert(
      fc.property(
        ceilings,
        fc.array(asking, { minLength: 50, maxLength: 300 }),
        (perWindow, askings) => {
          const desk = openDesk({ window, perWindow });
          let sent: (Payment & { at: number })[] = [];
          for (const { pauseMs, recipient, network } of askings) {
            desk.nowMs += pauseMs;
            const isQuiet = desk.nowMs - (sent.at(-1)?.at ?? 0) >= MINUTE + SECOND;
            const isOver = ({ at }: { at: number }) =>
              window === 'sliding' ? at <= desk.nowMs - MINUTE : isQuiet;
            sent = sent.filter((request) => !isOver(request));
            const toIt = sent.filter((request) => request.recipient === recipient);
            const fromIt = sent.filter((request) => request.network === network);
            const both = toIt.filter((request) => request.network === network);
            const left = perWindow - sent.length;
            const isWithin = (own: number, leaves: number) => own === 0 || own < leaves;
            const isGiven = desk.ask({ recipient, network });
            expect(isGiven).toBe(
              left > 0 &&
                isWithin(toIt.length, left) &&
                isWithin(fromIt.length, left) &&
                isWithin(both.length, left - toIt.length),
            );
            if (isGiven) {
              sent.push({ at: desk.nowMs, recipient, network });
              expect(sent.length).toBeLessThanOrEqual(perWindow);
              expect(toIt.length + 1).toBeLessThanOrEqual(Math.ceil(perWindow / 2));
              expect(fromIt.length + 1).toBeLessThanOrEqual(Math.ceil(perWindow / 2));
              expect(both.length + 1).toBeLessThanOrEqual(Math.ceil(perWindow / 3));
            }
          }
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe('shares of a mint whose limit is not known', () => {
  it('are so many in any minute, for each recipient', () => {
    const desk = openDesk({ perMinute: 10 });
    expect(desk.flood('alice')).toBe(10);
    expect(desk.flood('bob')).toBe(10);
    desk.nowMs += 20 * SECOND;
    expect(desk.waitMs('alice')).toBe(40 * SECOND);
    desk.nowMs += 40 * SECOND - 1;
    expect(desk.ask('alice')).toBe(false);
    expect(desk.flood('carol')).toBe(10);
    desk.nowMs += 1;
    expect(desk.ask('alice')).toBe(true);
  });

  it('grow within minutes where the mint bears it', () => {
    const desk = openDesk({ perMinute: 10 });
    expect(desk.minutes('alice', 5)).toEqual([10, 30, 90, 270, 810]);
  });

  it('are half a network’s at most', () => {
    const desk = openDesk({ perMinute: 10 });
    expect(desk.flood({ recipient: 'alice', network: 'flood' })).toBe(5);
    expect(desk.flood('alice')).toBe(5);
    expect(desk.flood({ recipient: 'bob', network: 'flood' })).toBe(5);
    desk.nowMs += MINUTE;
    expect(desk.ask({ recipient: 'alice', network: 'flood' })).toBe(true);
  });

  it('grow too where all payers are at one network, as the users of one wallet’s server', () => {
    const desk = openDesk({ perMinute: 10 });
    const given = desk.minutes({ recipient: 'alice', network: 'server' }, 12);
    expect(given.slice(0, 4)).toEqual([5, 8, 12, 18]);
    expect(given.at(-1)).toBeGreaterThan(400);
  });

  it('end at twenty a second, where a limit no longer matters', () => {
    const desk = openDesk({ perMinute: 10 });
    desk.minutes('alice', 6);
    expect(desk.flood('alice')).toBe(MANY);
  });

  it('are at most half of what the mint refused, for an hour', () => {
    const desk = openDesk({ perMinute: 10 });
    desk.minutes('alice', 4);
    desk.nowMs += MINUTE;
    for (let invoice = 0; invoice < 120; invoice += 1) {
      desk.ask('alice');
    }
    desk.ask('alice', MINT, () => SHED);
    desk.nowMs += 2 * MINUTE;
    expect(desk.minutes('alice', 58)).toEqual(Array(58).fill(60));
    desk.nowMs += 2 * MINUTE;
    expect(desk.minutes('alice', 2)).toEqual([180, 540]);
  });

  it('do not grow by the minute of a refusal, where nobody asked for an hour', () => {
    const desk = openDesk({ perMinute: 10 });
    desk.minutes('alice', 4);
    desk.nowMs += MINUTE;
    for (let invoice = 0; invoice < 120; invoice += 1) {
      desk.ask('alice');
    }
    desk.ask('alice', MINT, () => SHED);
    desk.nowMs += HOUR + MINUTE;
    expect(desk.flood('alice')).toBe(60);
  });

  it('are as many as are asked for where that is what the operator wants', () => {
    expect(openDesk({ perMinute: 0 }).flood('alice')).toBe(MANY);
  });

  it('are not held up by a clock that is set back', () => {
    const desk = openDesk({ perMinute: 10 });
    desk.flood('alice');
    desk.nowMs -= HOUR;
    expect(desk.waitMs('alice')).toBe(MINUTE);
    desk.nowMs += MINUTE;
    expect(desk.ask('alice')).toBe(true);
  });

  it('are forgotten where very many others had an invoice since, and not where they were refused', () => {
    const desk = openDesk({ perMinute: 1 });
    desk.ask('alice');
    for (let stranger = 0; stranger < 30_000; stranger += 1) {
      desk.waitMs(`stranger ${stranger}`);
    }
    expect(desk.ask('alice')).toBe(false);
    for (let stranger = 0; stranger < 20_000; stranger += 1) {
      desk.ask(`stranger ${stranger}`);
    }
    expect(desk.ask('alice')).toBe(true);
  });

  it('are not thrown back by a refusal that comes just after a minute began', () => {
    const desk = openDesk({ perMinute: 10 });
    /** Ten requests a second. */
    const minute = () => {
      let given = 0;
      for (let tenth = 0; tenth < 600; tenth += 1) {
        desk.nowMs += 100;
        given += Number(desk.ask('popular'));
      }
      return given;
    };
    const before = Array.from({ length: 7 }, minute);
    expect(before.at(-1)).toBe(600);
    desk.nowMs += 200;
    desk.ask('another', MINT, () => SHED);
    desk.nowMs += 2 * SECOND;
    const after = Array.from({ length: 3 }, minute);
    expect(after.at(-1)).toBeGreaterThan(290);
    expect(after.at(-1)).toBeLessThanOrEqual(300);
  });
});

describe('whoever had a share is told when to come back', () => {
  it('where several of its invoices must be over before a ceiling has room for it', () => {
    const desk = openDesk({ window: 'sliding', perWindow: 16 });
    for (let invoice = 0; invoice < 8; invoice += 1) {
      desk.nowMs = NOW + invoice * 7 * SECOND;
      expect(desk.ask('alice')).toBe(true);
    }
    desk.nowMs = NOW + 55 * SECOND;
    for (let other = 0; other < 8; other += 1) {
      expect(desk.ask(`other ${other}`)).toBe(true);
    }
    desk.nowMs += SECOND;
    // Four are over then: she has four, and the others eight.
    const opensAt = NOW + MINUTE + 4 * 7 * SECOND;
    expect(desk.waitMs('alice')).toBe(opensAt - desk.nowMs);
    desk.nowMs = opensAt;
    expect(desk.ask('alice')).toBe(true);
  });

  it('where invoices of others leave room sooner than its own', () => {
    const desk = openDesk({ window: 'sliding', perWindow: 16 });
    for (let other = 0; other < 10; other += 1) {
      desk.ask(`other ${other}`);
    }
    desk.nowMs += 50 * SECOND;
    expect(desk.flood('alice')).toBe(3);
    expect(desk.waitMs('alice')).toBe(10 * SECOND);
  });

  it('where earlier invoices of the recipient, paid by others, leave room sooner', () => {
    const desk = openDesk({ perMinute: 10 });
    for (let invoice = 0; invoice < 4; invoice += 1) {
      desk.ask('alice');
    }
    const server = { recipient: 'alice', network: 'server' };
    desk.nowMs += 50 * SECOND;
    expect(desk.flood(server)).toBe(3);
    desk.nowMs += 3 * SECOND;
    expect(desk.waitMs(server)).toBe(7 * SECOND);
  });

  it('where the mint is seen to bear more before its invoices are over', () => {
    const desk = openDesk({ perMinute: 10 });
    desk.ask('bob');
    desk.nowMs += 30 * SECOND;
    expect(desk.flood('alice')).toBe(10);
    expect(desk.waitMs('alice')).toBe(30 * SECOND);
    desk.nowMs += 30 * SECOND;
    expect(desk.ask('alice')).toBe(true);
  });

  it.each<Window | 'growing' | 'not growing'>(['sliding', 'elastic', 'growing', 'not growing'])(
    'to the millisecond, if nobody else asks (%s)',
    (kind) => {
      const isKnown = kind === 'sliding' || kind === 'elastic';
      let timesTold = 0;
      fc.assert(
        fc.property(
          ceilings,
          fc.array(fc.tuple(asking, fc.boolean()), { minLength: 50, maxLength: 150 }),
          (perWindow, askings) => {
            const desk = openDesk(isKnown ? { window: kind, perWindow } : { perMinute: 2 });
            if (kind === 'not growing') {
              desk.ask('somebody', MINT, () => SHED);
              desk.nowMs += MINUTE;
            }
            for (const [{ pauseMs, ...payment }, isPatient] of askings) {
              desk.nowMs += pauseMs;
              const waitMs = desk.waitMs(payment);
              if (waitMs > 0 && isPatient) {
                timesTold += 1;
                desk.nowMs += waitMs - 1;
                expect(desk.ask(payment)).toBe(false);
                desk.nowMs += 1;
                expect(desk.ask(payment)).toBe(true);
              } else {
                desk.ask(payment);
              }
            }
          },
        ),
        { numRuns: 100 },
      );
      expect(timesTold).toBeGreaterThan(10);
    },
  );
});

describe('two hours of a flood at a Nutshell of which nothing is known', () => {
  it.each([
    // Without any flood they would get 89 and 94 of a hundred: that is what such a mint allows.
    [30, 0.8],
    [60, 0.88],
  ])('leave others who come every %i s most of theirs', (everySeconds, leastShare) => {
    const desk = openDesk({ perMinute: 10 });
    const mint = new ElasticRateLimit();
    let refused = 0;
    const answer = () => {
      const isAdmitted = mint.admits('create', 20, desk.nowMs);
      refused += Number(!isAdmitted);
      return isAdmitted ? CREATED : REFUSED;
    };
    let others = 0;
    let given = 0;
    for (let second = 0; second < 2 * 60 * 60; second += 1) {
      desk.nowMs = NOW + second * SECOND;
      desk.ask('flooded', MINT, answer);
      if (second % everySeconds === 0) {
        others += 1;
        given += Number(desk.ask(`other ${second}`, MINT, answer));
      }
    }
    expect(given / others).toBeGreaterThan(leastShare);
    // The mint says once what it bears.
    expect(refused).toBe(1);
  });
});

/** Who asks for an invoice of whom; where the recipient alone is named, somebody at an address of their own. */
type Payer = string | Payment;

let newNetworks = 0;

function paymentOf(who: Payer): Payment {
  newNetworks += 1;
  return typeof who === 'string' ? { recipient: who, network: `network ${newNetworks}` } : who;
}

/** Invoices of a mint by what the budget and the shares allow. */
function openDesk(options: { window?: Window; perWindow?: number; perMinute?: number }) {
  const { window, perWindow, perMinute = 10 } = options;
  const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
  const shares = new MintShares(perMinute);
  const state = { nowMs: NOW };
  if (window !== undefined && perWindow !== undefined) {
    const ceiling = { window, perWindow, learntAt: NOW, isProbe: false, probeAfterMs: 24 * HOUR };
    // What is taken for used by others is over by now.
    budget.adopt(MINT, { create: { ceiling, restUntil: 0, restMs: 0 } }, NOW - 10 * MINUTE);
  }
  const useOf = (mintUrl: string) => budget.use(mintUrl, 'create', state.nowMs);
  const waitMs = (who: Payer, mintUrl = MINT) =>
    shares.waitMs(mintUrl, paymentOf(who), useOf(mintUrl), state.nowMs);
  /** Sends a request where it may be sent. */
  const send = (who: Payer, mintUrl = MINT) => {
    const payment = paymentOf(who);
    if (waitMs(payment, mintUrl) > 0) {
      budget.leftToOthers(mintUrl, 'create');
      return null;
    }
    return budget.waitMs(mintUrl, 'create', state.nowMs) > 0
      ? null
      : {
          counted: budget.sent(mintUrl, 'create', state.nowMs),
          shared: shares.sent(mintUrl, payment, useOf(mintUrl), state.nowMs),
        };
  };
  /** Whether an invoice was asked for and answered. */
  const ask = (who: Payer, mintUrl = MINT, said = () => CREATED) => {
    const request = send(who, mintUrl);
    if (request === null) {
      return false;
    }
    const outcome = said();
    budget.record(request.counted, outcome, state.nowMs);
    shares.record(request.shared, outcome, state.nowMs);
    return true;
  };
  const many = (isGiven: () => boolean) => {
    let given = 0;
    while (given < MANY && isGiven()) {
      given += 1;
    }
    return given;
  };
  return Object.assign(state, {
    waitMs,
    ask,
    /** How many are given at once. */
    flood: (who: Payer) => many(() => ask(who)),
    /** How many are given in each of some minutes that follow each other. */
    minutes: (who: Payer, count: number) =>
      Array.from({ length: count }, (_, minute) => {
        state.nowMs += minute === 0 ? 0 : MINUTE;
        return many(() => ask(who));
      }),
    /** Begins a request that the mint never gets. */
    withdraw: (who: Payer) => {
      const request = send(who);
      if (request !== null) {
        budget.withdraw(request.counted);
        shares.withdraw(request.shared);
      }
    },
  });
}
