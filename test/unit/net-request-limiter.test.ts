import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { RequestLimiter, type RequestLimits } from '../../src/net/request-limiter.ts';

const GOOD = 'good.example';
const OWN = 'https://own.example';

it('starts the requests to one host in order, and skips one that gave up', async () => {
  const limiter = new TestLimiter({ maxInFlightPerHost: 4, maxRunningPerHost: 1 });
  const requests = [1, 2, 3, 4, 5].map(() => limiter.send(GOOD));
  const other = limiter.send('other.example');
  expect(await requests[4]?.result).toBeNull();
  await setImmediate();
  requests[1]?.abort.abort(new Error('too late'));
  await expect(requests[1]?.result).rejects.toThrow('too late');
  expect([...requests, other].map(({ isRunning }) => isRunning())).toEqual([
    true,
    false,
    false,
    false,
    false,
    true,
  ]);
  for (const [index, next] of [
    [0, 2],
    [2, 3],
  ] as const) {
    // A request that is already running cannot leave the queue.
    requests[index]?.abort.abort(new Error('too late'));
    requests[index]?.end('answered');
    expect(await requests[index]?.result).toBe('answered');
    await expect.poll(() => requests[next]?.isRunning()).toBe(true);
  }
  requests[3]?.end('answered');
  await requests[3]?.result;
  expect(await limiter.fill([GOOD])).toBe(1);
});

it.each([
  ['keeps half of the places for hosts that have responded', 0, 0, 0],
  ['gives a host as many reserved places as it gave responses', 3, 0, 3],
  ['gives a host few reserved places', 1_000, 0, 8],
  ['halves the reserved places after a failure', 8, 1, 4],
  ['gives no reserved place after several failures', 8, 4, 0],
])('%s', async (_case, responses, failures, expected) => {
  const limiter = new TestLimiter();
  await limiter.respond(GOOD, responses);
  for (let failure = 0; failure < failures; failure += 1) {
    const { end, result } = limiter.send(GOOD);
    end(null);
    await expect(result).rejects.toThrow();
  }
  expect(await limiter.fill(strangers(200))).toBe(50);
  expect(await limiter.fill(Array(20).fill(GOOD))).toBe(expected);
});

it('never exceeds the limit, for which trusted hosts do not count', async () => {
  const limiter = new TestLimiter();
  const known = strangers(200);
  for (const host of known) {
    await limiter.respond(host, 8);
  }
  expect(await limiter.fill(Array(200).fill(OWN))).toBe(100);
  expect(await limiter.fill([...known, ...known])).toBe(100);
});

class TestLimiter {
  readonly #limiter: RequestLimiter;

  constructor(limits: Partial<RequestLimits> = {}) {
    this.#limiter = new RequestLimiter(
      { maxInFlight: 100, maxInFlightPerHost: 100, maxRunningPerHost: 100, ...limits },
      new Set([OWN]),
    );
  }

  /** Sends a request that ends with `end`: with a response, or null for a failure. */
  send(host: string) {
    const abort = new AbortController();
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    let isRunning = false;
    const result = this.#limiter.run(host, abort.signal, () => {
      isRunning = true;
      return promise;
    });
    const end = (response: string | null) =>
      response === null ? reject(new Error('connection lost')) : resolve(response);
    return { abort, result, isRunning: () => isRunning, end };
  }

  async respond(host: string, times: number): Promise<void> {
    for (let time = 0; time < times; time += 1) {
      const { end, result } = this.send(host);
      end('answered');
      await result;
    }
  }

  /** @returns how many of these requests are accepted; they never end */
  async fill(hosts: readonly string[]): Promise<number> {
    const requests = hosts.map((host) => this.send(host));
    await setImmediate();
    return requests.filter(({ isRunning }) => isRunning()).length;
  }
}

function strangers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `stranger-${index}.example`);
}
