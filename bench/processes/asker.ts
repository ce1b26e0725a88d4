import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';

/** What is asked, at a steady rate, whether or not it is answered: standard input. */
export interface AskerPlan {
  /** Asked in turn. */
  requests: (Question & {
    /** What is asked right before, unmeasured. */
    before?: Question;
  })[];
  /** Before, unmeasured. */
  warmUp: Pace;
  measured: Pace;
}

interface Question {
  url: string;
  /** It is posted, as JSON. */
  body?: object;
  /** Text that the answer must hold. */
  expect: string;
}

interface Pace {
  perSecond: number;
  seconds: number;
}

/** The second line of standard output; the first is `"warm"`, as the measuring begins. */
export interface AskerResult {
  /** From the request to the last byte of each right answer. */
  latenciesMs: number[];
  /** From the first question to the last. */
  askedForSeconds: number;
  /** Right answers, of the warm-up too. */
  right: number;
  /** Others, of the warm-up too. */
  wrong: number;
  /** Null where there is none. */
  firstWrong: string | null;
}

/** Asks when it is time to, and takes the time of each answer. */

const plan = (await json(process.stdin)) as AskerPlan;
const before = await ask(plan.warmUp);
say('warm');
const result = await ask(plan.measured);
say({
  ...result,
  right: before.right + result.right,
  wrong: before.wrong + result.wrong,
  firstWrong: before.firstWrong ?? result.firstWrong,
});

async function ask({ perSecond, seconds }: Pace): Promise<AskerResult> {
  const result: AskerResult = {
    latenciesMs: [],
    askedForSeconds: 0,
    right: 0,
    wrong: 0,
    firstWrong: null,
  };
  const startedAt = performance.now();
  const asked = Array.from({ length: seconds * perSecond }, async (_, index) => {
    const dueAt = startedAt + (index * 1000) / perSecond;
    await delay(Math.max(0, dueAt - performance.now()));
    result.askedForSeconds = (performance.now() - startedAt) / 1000;
    const { before, ...question } = requestAt(index);
    try {
      if (before !== undefined) {
        await rightAnswer(before);
      }
      const askedAt = performance.now();
      await rightAnswer(question);
      result.latenciesMs.push(performance.now() - askedAt);
      result.right += 1;
    } catch (error) {
      result.wrong += 1;
      result.firstWrong ??= String(error);
    }
  });
  await Promise.all(asked);
  return result;
}

function requestAt(index: number): AskerPlan['requests'][number] {
  const next = plan.requests[index % plan.requests.length];
  if (next === undefined) {
    throw new RangeError('there is nothing to ask for');
  }
  return next;
}

/** Waits for the whole answer; fails where it is not what was expected. */
async function rightAnswer({ url, body, expect }: Question): Promise<void> {
  const answer = await request(
    url,
    body && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    },
  );
  const text = await answer.body.text();
  if (!text.includes(expect)) {
    throw new Error(text);
  }
}

function say(message: 'warm' | AskerResult): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
