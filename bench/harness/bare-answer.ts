import type { BenchDatabase } from './database.ts';
import type { ComparedRow, Effort } from './figure.ts';
import { type BenchServer, startFloor, startService } from './servers.ts';
import { compareThroughput } from './throughput.ts';

/** Answers that are looked at one by one: more would take longer than the figure. */
const LOOKED_AT = 1_024;

/** Written by Node itself, for each answer anew. */
const OF_ANY_SERVER = new Set(['connection', 'content-length', 'date', 'keep-alive']);

interface Answer {
  body: string;
  headers: Record<string, string>;
}

/** What is asked of the service and of a bare route alike. */
export interface Question {
  title: string;
  connections: number;
  /** Of the bare route, in Fastify's words. */
  route: string;
  /** Asked for in turn, each with text that its own answer must hold. */
  lookups: readonly Lookup[];
  /** Text that every answer must hold. */
  expect: string;
  /** Where nobody but the server is at work: see {@link LoadPlan}. */
  staysAwake: boolean;
  /** To the bare route, at least; null where nothing is asked of it. */
  ratio: number | null;
}

/** A path, and what the answer to it must hold, and to no other. */
interface Lookup {
  path: string;
  expect: string;
}

/**
 * Compares how often the service answers with how often a bare Fastify route returns the same bytes: the
 * body and the headers of the service's first answer.
 */
export async function compareToBareRoute(
  question: Question,
  mint: BenchServer,
  database: BenchDatabase,
  effort: Effort,
): Promise<ComparedRow> {
  const { title, connections, route, lookups, expect, staysAwake, ratio } = question;
  const requests = lookups.map(({ path }) => ({ path, headers: {} }));
  const plan = { connections, requests, expect, staysAwake };
  const { first, problems } = await checkAnswers(question, mint, database);
  const row = await compareThroughput(
    `${title}, ${connections} connections`,
    {
      ours: async (stack) => ({ server: stack.use(await startService(mint, database)), plan }),
      floor: async (stack) => {
        const program = import.meta.resolve('../processes/floor-answer.ts');
        const env = { ROUTE: route, ANSWER: first.body, HEADERS: JSON.stringify(first.headers) };
        return { server: stack.use(await startFloor(program, env)), plan };
      },
    },
    effort,
    ratio === null ? null : { ratioAtLeast: ratio },
  );
  return { ...row, problems: [...problems, ...row.problems] };
}

/**
 * Asks twice for each, as it is read and as it is kept: the load does not look at whose an answer is.
 *
 * @returns the first answer, with the headers that are not the server's own, and what is wrong with any
 */
async function checkAnswers(
  question: Question,
  mint: BenchServer,
  database: BenchDatabase,
): Promise<{ first: Answer; problems: string[] }> {
  const { connections } = question;
  const lookups = question.lookups.slice(0, LOOKED_AT);
  await using service = await startService(mint, database);
  let first: Answer | null = null;
  const wrong: string[] = [];
  for (const when of ['asked for the first time', 'asked again']) {
    for (let start = 0; start < lookups.length; start += connections) {
      const some = lookups.slice(start, start + connections);
      const answers = await Promise.all(
        some.map(async ({ path }) => {
          const answer = await fetch(`${service.url}${path}`);
          return { body: await answer.text(), headers: ownHeaders(answer.headers) };
        }),
      );
      first ??= answers[0] ?? null;
      for (const [index, { path, expect }] of some.entries()) {
        if (!answers[index]?.body.includes(expect)) {
          wrong.push(`${when}, ${path} is answered by ${answers[index]?.body}`);
        }
      }
    }
  }
  const problems =
    wrong.length === 0 ? [] : [`ours: ${wrong.length} wrong answers, the first: ${wrong[0]}`];
  return { first: first ?? { body: '', headers: {} }, problems };
}

function ownHeaders(headers: Headers): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => !OF_ANY_SERVER.has(name)));
}
