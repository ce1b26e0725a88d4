import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import autocannon from 'autocannon';

/** What is asked of a server: standard input. */
export interface LoadPlan {
  /** Without a slash at the end. */
  url: string;
  /** Each has one request under way at a time. */
  connections: number;
  /** Dealt out among the connections; each sends its own over and over. */
  requests: { path: string; headers: Record<string, string> }[];
  /** Text that every answer must hold. */
  expect: string;
  warmUpSeconds: number;
  seconds: number;
}

/** The second line of standard output; the first is `"warm"`, as the measuring begins. */
export interface LoadResult {
  seconds: number;
  /** Answers as they should be. */
  right: number;
  /** Other answers, and requests without one; those of the warm-up too. */
  wrong: number;
  /** Null where there is none. */
  firstWrong: string | null;
}

/** It is ended from outside when all was said; if not, it ends so long after that. */
const SPARE_SECONDS = 10;

/** Asks as fast as it is answered, by autocannon, and looks at every answer. */

const plan = (await json(process.stdin)) as LoadPlan;
let right = 0;
let wrong = 0;
let firstWrong: string | null = null;
let connections = 0;

const run = autocannon({
  url: plan.url,
  connections: plan.connections,
  duration: plan.warmUpSeconds + plan.seconds + SPARE_SECONDS,
  setupClient: (client) => {
    const own = connections;
    connections += 1;
    client.setRequests(plan.requests.filter((_, index) => index % plan.connections === own));
  },
  verifyBody: (body) => {
    const isRight = body.includes(plan.expect);
    if (isRight) {
      right += 1;
    } else {
      countWrong(body);
    }
    return isRight;
  },
});
run.on('reqError', (error) => countWrong(error.message));

await delay(plan.warmUpSeconds * 1000);
right = 0;
const startedAt = performance.now();
say('warm');
await delay(plan.seconds * 1000);
const seconds = (performance.now() - startedAt) / 1000;
say({ seconds, right, wrong, firstWrong });

function countWrong(what: string): void {
  wrong += 1;
  firstWrong ??= what;
}

function say(message: 'warm' | LoadResult): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
