import type { Event } from 'nostr-tools';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openLog } from '../../src/log.ts';
import { RecipientRelays } from '../../src/usecases/recipient-relays.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** The relays of recipients (NIP-65), of which the operator's relays are asked. */

const ALICE = 'a1'.repeat(32);
const RELAYS = ['wss://one.example', 'wss://two.example'] as const;
const [ONE, TWO] = RELAYS;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

let clock: TestClock;
let pool: ScriptedPool;
let relays: RecipientRelays;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  clock = new TestClock();
  pool = new ScriptedPool();
  relays = asking(RELAYS);
});
afterEach(() => {
  vi.useRealTimers();
});

describe('the relays of a recipient', () => {
  it('are asked for at every relay of the operator, by key', async () => {
    pool.say(ONE, []);
    pool.say(TWO, [listOf(['wss://home.example'])]);
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    const filter = { kinds: [10_002], authors: [ALICE] };
    const options = { timeoutMs: 5_000, limit: 1 };
    expect(pool.query.mock.calls).toEqual([
      [ONE, filter, options],
      [TWO, filter, options],
    ]);
  });

  it('are the newest of what the relays have', async () => {
    pool.say(ONE, [listOf(['wss://old.example'], { createdAt: 1 })]);
    pool.say(TWO, [listOf(['wss://new.example'], { createdAt: 2 })]);
    expect(await relays.of(ALICE)).toEqual(['wss://new.example']);
    pool.say(ONE, [listOf(['wss://newest.example'], { createdAt: 3 })]);
    clock.advance(HOUR_MS);
    await relays.of(ALICE);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://newest.example']);
  });

  it('are looked up nowhere where the operator names no relay', async () => {
    expect(await asking([]).of(ALICE)).toEqual([]);
    expect(pool.query).not.toHaveBeenCalled();
  });

  it('are none where no relay has a list', async () => {
    expect(await relays.of(ALICE)).toEqual([]);
  });

  it('are none where what a relay has is no list', async () => {
    pool.say(ONE, [{ ...listOf([]), tags: null } as unknown as Event]);
    expect(await relays.of(ALICE)).toEqual([]);
    expect(await relays.of(ALICE)).toEqual([]);
    expect(pool.query).toHaveBeenCalledTimes(2);
  });

  it('are those that one relay tells, where another fails', async () => {
    const { log, lines } = new LogCapture('warn');
    relays = asking(RELAYS, log);
    pool.query.mockImplementationOnce(() => Promise.reject(new Error('a bug')));
    pool.say(TWO, [listOf(['wss://home.example'])]);
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    expect(lines.join()).toContain('a bug');
  });

  it('are asked for once for all who wait', async () => {
    pool.say(ONE, [listOf(['wss://home.example'])]);
    const answers = await Promise.all([relays.of(ALICE), relays.of(ALICE), relays.of(ALICE)]);
    expect(answers).toEqual(Array(3).fill(['wss://home.example']));
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });
});

describe('what was found', () => {
  beforeEach(async () => {
    pool.say(ONE, [listOf(['wss://home.example'], { createdAt: 10 })]);
    await relays.of(ALICE);
    pool.query.mockClear();
  });

  it('is told for an hour without asking', async () => {
    pool.say(ONE, [listOf(['wss://moved.example'], { createdAt: 11 })]);
    clock.advance(HOUR_MS - 1);
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    expect(pool.query).not.toHaveBeenCalled();
  });

  it('is told at once after that, and looked up behind', async () => {
    pool.say(ONE, [listOf(['wss://moved.example'], { createdAt: 11 })]);
    clock.advance(HOUR_MS);
    const answer = pool.hold(ONE);
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    answer.resolve([listOf(['wss://moved.example'], { createdAt: 11 })]);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://moved.example']);
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });

  it('is not replaced by an older list', async () => {
    pool.say(ONE, [listOf(['wss://before.example'], { createdAt: 9 })]);
    clock.advance(HOUR_MS);
    await relays.of(ALICE);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
  });

  it('can become empty', async () => {
    pool.say(ONE, [listOf([], { createdAt: 11 })]);
    clock.advance(HOUR_MS);
    await relays.of(ALICE);
    await settled();
    expect(await relays.of(ALICE)).toEqual([]);
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });

  it('stays while a relay that may have it does not answer, and is asked for again soon', async () => {
    pool.say(ONE, null);
    clock.advance(HOUR_MS);
    await relays.of(ALICE);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
    clock.advance(5 * MINUTE_MS);
    await relays.of(ALICE);
    expect(pool.query).toHaveBeenCalledTimes(2 * RELAYS.length);
  });

  it('is forgotten once every relay says that there is none', async () => {
    pool.say(ONE, []);
    clock.advance(HOUR_MS);
    await relays.of(ALICE);
    await settled();
    expect(await relays.of(ALICE)).toEqual([]);
  });

  it('is looked up anew where the clock was set back', async () => {
    clock.advance(-1);
    await relays.of(ALICE);
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });
});

describe('what was not found', () => {
  it.each([
    ['there is none', []],
    ['no relay answers', null],
  ])('counts for five minutes, where %s', async (_why, answer) => {
    pool.say(ONE, answer);
    pool.say(TWO, answer);
    expect(await relays.of(ALICE)).toEqual([]);
    pool.say(TWO, [listOf(['wss://home.example'])]);
    clock.advance(5 * MINUTE_MS - 1);
    expect(await relays.of(ALICE)).toEqual([]);
    clock.advance(1);
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
  });
});

describe('a slow relay', () => {
  it('is waited for no longer than two seconds, and its answer serves the next who asks', async () => {
    const answer = pool.hold(ONE);
    const first = track(relays.of(ALICE));
    await vi.advanceTimersByTimeAsync(1_999);
    expect(first.value).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(first.value).toEqual([]);
    answer.resolve([listOf(['wss://home.example'])]);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });

  it('is waited for by nobody who comes later than that', async () => {
    pool.hold(ONE);
    const first = relays.of(ALICE);
    await vi.advanceTimersByTimeAsync(2_000);
    await first;
    expect(await relays.of(ALICE)).toEqual([]);
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });

  it('is waited for no longer than 300 milliseconds once another has told a list', async () => {
    pool.hold(ONE);
    pool.say(TWO, [listOf(['wss://home.example'])]);
    const first = track(relays.of(ALICE));
    await vi.advanceTimersByTimeAsync(299);
    expect(first.value).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(first.value).toEqual(['wss://home.example']);
  });

  it('is waited for no longer than two seconds in all, however late another tells a list', async () => {
    pool.hold(ONE);
    const late = pool.hold(TWO);
    const first = track(relays.of(ALICE));
    await vi.advanceTimersByTimeAsync(1_900);
    late.resolve([listOf(['wss://home.example'])]);
    await vi.advanceTimersByTimeAsync(99);
    expect(first.value).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(first.value).toEqual(['wss://home.example']);
  });

  it('may have the newer list in that time', async () => {
    const newer = pool.hold(ONE);
    pool.say(TWO, [listOf(['wss://old.example'], { createdAt: 1 })]);
    const first = relays.of(ALICE);
    await vi.advanceTimersByTimeAsync(200);
    newer.resolve([listOf(['wss://new.example'], { createdAt: 2 })]);
    expect(await first).toEqual(['wss://new.example']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is waited for as long as ever where another has no list', async () => {
    const answer = pool.hold(ONE);
    const first = relays.of(ALICE);
    await vi.advanceTimersByTimeAsync(1_900);
    answer.resolve([listOf(['wss://home.example'])]);
    expect(await first).toEqual(['wss://home.example']);
  });

  it('leaves no timer behind when it answers', async () => {
    await relays.of(ALICE);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a relay that did not answer three times in a row', () => {
  beforeEach(async () => {
    relays = asking([ONE]);
    pool.say(ONE, null);
    await relays.of(keyOf(1));
    await relays.of(keyOf(2));
    await relays.of(keyOf(3));
  });

  it('is asked, and waited for by nobody', async () => {
    const answer = pool.hold(ONE);
    expect(await relays.of(ALICE)).toEqual([]);
    answer.resolve([listOf(['wss://home.example'])]);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
    expect(pool.query).toHaveBeenCalledTimes(4);
  });

  it('is waited for again as soon as it has answered', async () => {
    pool.say(ONE, []);
    await relays.of(ALICE);
    await settled();
    const answer = pool.hold(ONE);
    const next = relays.of(keyOf(4));
    answer.resolve([listOf(['wss://home.example'])]);
    expect(await next).toEqual(['wss://home.example']);
  });

  it('is waited for again after a minute', async () => {
    clock.advance(MINUTE_MS);
    const answer = pool.hold(ONE);
    const next = relays.of(ALICE);
    answer.resolve([listOf(['wss://home.example'])]);
    expect(await next).toEqual(['wss://home.example']);
  });

  it('is not waited for a minute longer with each time that it does not answer', async () => {
    clock.advance(MINUTE_MS - 1);
    await relays.of(ALICE);
    await settled();
    clock.advance(MINUTE_MS - 1);
    pool.hold(ONE);
    expect(await relays.of(keyOf(4))).toEqual([]);
  });

  it('is asked one thing at a time', async () => {
    pool.query.mockClear();
    const answer = pool.hold(ONE);
    await relays.of(keyOf(4));
    await relays.of(keyOf(5));
    expect(pool.query).toHaveBeenCalledTimes(1);
    answer.resolve(null);
    await settled();
    await relays.of(keyOf(6));
    expect(pool.query).toHaveBeenCalledTimes(2);
  });

  it('does not keep anybody from waiting for another', async () => {
    relays = asking(RELAYS);
    for (let n = 0; n < 3; n++) {
      await relays.of(keyOf(n));
    }
    pool.hold(ONE);
    const answer = pool.hold(TWO);
    const next = relays.of(ALICE);
    answer.resolve([listOf(['wss://home.example'])]);
    expect(await next).toEqual(['wss://home.example']);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a relay that answers now and then', () => {
  it('is waited for', async () => {
    relays = asking([ONE]);
    for (const [n, events] of [null, null, [], null, null].entries()) {
      pool.say(ONE, events);
      await relays.of(keyOf(n));
    }
    const answer = pool.hold(ONE);
    const next = relays.of(ALICE);
    answer.resolve([listOf(['wss://home.example'])]);
    expect(await next).toEqual(['wss://home.example']);
  });
});

describe('the log', () => {
  it('tells of a relay without the token in its query', async () => {
    const { log, lines } = new LogCapture('warn');
    relays = asking([`${ONE}/inbox?for=hunter2`], log);
    pool.query.mockImplementationOnce(() => Promise.reject(new Error('a bug')));
    await relays.of(ALICE);
    expect(lines.join()).toContain(`${ONE}/inbox"`);
    expect(lines.join()).not.toContain('hunter2');
  });
});

describe('many recipients', () => {
  it('are all found at once, where one relay never answers', async () => {
    pool.hold(ONE);
    pool.say(TWO, [listOf(['wss://home.example'])]);
    const waiting: Promise<string[]>[] = [];
    for (let n = 0; n < 200; n++) {
      waiting.push(relays.of(keyOf(n)));
      await settled();
    }
    await vi.advanceTimersByTimeAsync(300);
    expect(await Promise.all(waiting)).toEqual(Array(200).fill(['wss://home.example']));
    expect(pool.timesAsked(TWO)).toBe(200);
  });

  it('are asked for a hundred at a time at each relay; the rest of them again ten seconds later', async () => {
    relays = asking([ONE]);
    const held = pool.hold(ONE);
    const waiting = Array.from({ length: 100 }, (_, n) => relays.of(keyOf(n)));
    expect(await relays.of(ALICE)).toEqual([]);
    expect(pool.query).toHaveBeenCalledTimes(100);
    held.resolve([listOf(['wss://home.example'])]);
    await Promise.all(waiting);
    clock.advance(9_999);
    expect(await relays.of(ALICE)).toEqual([]);
    clock.advance(1);
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
  });

  it('are looked up a thousand at a time; the next one is asked about when there is room', async () => {
    const slow = Array.from({ length: 10 }, (_, n) => `wss://slow-${n}.example`);
    relays = asking([...slow, ONE]);
    pool.say(ONE, [listOf(['wss://home.example'])]);
    const held: PromiseWithResolvers<Event[] | null>[] = [];
    for (const [relay, url] of slow.entries()) {
      held.push(pool.hold(url));
      for (let n = 0; n < 100; n++) {
        void relays.of(keyOf(relay * 100 + n));
      }
      await settled();
    }
    expect(pool.timesAsked(ONE)).toBe(1_000);
    expect(await relays.of(ALICE)).toEqual([]);
    expect(pool.timesAsked(ONE)).toBe(1_000);
    held[0]?.resolve([]);
    await settled();
    expect(await relays.of(ALICE)).toEqual(['wss://home.example']);
  });

  it('are known up to five thousand; who was asked about the longest ago is forgotten', async () => {
    pool.say(ONE, [listOf(['wss://home.example'])]);
    for (let n = 0; n < 5_000; n++) {
      await relays.of(keyOf(n));
    }
    pool.query.mockClear();
    await relays.of(keyOf(0));
    expect(pool.query).not.toHaveBeenCalled();
    await relays.of(ALICE);
    pool.query.mockClear();
    await relays.of(keyOf(0));
    expect(pool.query).not.toHaveBeenCalled();
    await relays.of(keyOf(1));
    expect(pool.query).toHaveBeenCalledTimes(RELAYS.length);
  });
});

/** Relays that say what a test tells them to; at first, that they have nothing. */
class ScriptedPool {
  readonly #answers = new Map<string, Promise<Event[] | null>>();

  readonly query = vi.fn(
    (url: string): Promise<Event[] | null> => this.#answers.get(url) ?? Promise.resolve([]),
  );

  /** @param events null: it does not answer */
  say(url: string, events: Event[] | null): void {
    this.#answers.set(url, Promise.resolve(events));
  }

  timesAsked(url: string): number {
    return this.query.mock.calls.filter(([asked]) => asked === url).length;
  }

  /** Holds the relay's answers back. */
  hold(url: string): PromiseWithResolvers<Event[] | null> {
    const answer = Promise.withResolvers<Event[] | null>();
    this.#answers.set(url, answer.promise);
    return answer;
  }
}

function asking(askedRelays: readonly string[], log = openLog('silent')): RecipientRelays {
  return new RecipientRelays({ pool, askedRelays, allowPrivate: false, clock: clock.now, log });
}

function listOf(urls: string[], { createdAt = 1 } = {}): Event {
  return {
    kind: 10_002,
    id: 'f'.repeat(64),
    pubkey: ALICE,
    created_at: createdAt,
    content: '',
    tags: urls.map((url) => ['r', url]),
    sig: '',
  };
}

function keyOf(n: number): string {
  return n.toString(16).padStart(64, '0');
}

/** Lets everything that waits for nothing from outside come to its end. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function track<T>(promise: Promise<T>): { value: T | undefined } {
  const tracked: { value: T | undefined } = { value: undefined };
  void promise.then((value) => {
    tracked.value = value;
  });
  return tracked;
}
