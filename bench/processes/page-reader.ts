import { json } from 'node:stream/consumers';
import { request } from 'undici';

/** What to read, one page after another: standard input. */
export interface ReadingPlan {
  /** Read in turn, over and over. */
  pages: Page[];
  warmUpSeconds: number;
  seconds: number;
}

/** A page of a list. */
export interface Page {
  /** What it is measured as; several may be measured as the same. */
  kind: string;
  url: string;
  headers: Record<string, string>;
  /** Text that every answer must hold. */
  expect: string;
}

/** The second line of standard output; the first is `"warm"`, as the measuring begins. */
export interface ReadingResult {
  /** How long each page took, by its kind, in milliseconds. */
  tookMs: Record<string, number[]>;
  /** Answers that were not as they should be; those of the warm-up too. */
  wrong: number;
  /** Null where there is none. */
  firstWrong: string | null;
}

/**
 * Reads pages and looks at every answer. One is read at a time, so that nothing waits for another, and
 * what is compared is read by turns, so that whatever disturbs the one disturbs the other.
 */

const plan = (await json(process.stdin)) as ReadingPlan;
let tookMs: Record<string, number[]> = {};
let wrong = 0;
let firstWrong: string | null = null;

await readFor(plan.warmUpSeconds);
tookMs = {};
say('warm');
await readFor(plan.seconds);
say({ tookMs, wrong, firstWrong });

async function readFor(seconds: number): Promise<void> {
  const endsAtMs = performance.now() + seconds * 1000;
  while (performance.now() < endsAtMs) {
    for (const page of plan.pages) {
      await read(page);
    }
  }
}

async function read({ kind, url, headers, expect }: Page): Promise<void> {
  const startedAtMs = performance.now();
  const answer = await request(url, { headers });
  const body = await answer.body.text();
  const times = tookMs[kind] ?? [];
  times.push(performance.now() - startedAtMs);
  tookMs[kind] = times;
  if (answer.statusCode !== 200 || !body.includes(expect)) {
    wrong += 1;
    firstWrong ??= `${answer.statusCode} ${body}`;
  }
}

function say(message: 'warm' | ReadingResult): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
