import type { BareAnswers } from '../processes/floor-answer.ts';
import type { BenchDatabase } from './database.ts';
import type { ComparedRow, Effort } from './figure.ts';
import { type BenchServer, PUBLIC_ORIGIN, startFloor, startService } from './servers.ts';
import { compareThroughput } from './throughput.ts';

/** Written by Node itself, for each answer anew. */
const OF_ANY_SERVER = new Set(['connection', 'content-length', 'date', 'keep-alive']);

/** What is asked of the service and of a bare route alike. */
export interface Question {
  title: string;
  connections: number;
  /** Of the bare route, in Fastify's words. */
  route: string;
  /** Asked for in turn, each with text that its own answer must hold. */
  lookups: readonly Lookup[];
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

/** Compares how often the service answers with how often a bare Fastify route returns the same bytes. */
export async function compareToBareRoute(
  question: Question,
  mint: BenchServer,
  database: BenchDatabase,
  effort: Effort,
): Promise<ComparedRow> {
  const { title, connections, lookups, staysAwake, ratio } = question;
  // As behind a proxy: payers ask for the public name.
  const headers = { host: new URL(PUBLIC_ORIGIN).host };
  const requests = lookups.map((lookup) => ({ ...lookup, headers }));
  const plan = { connections, requests, staysAwake };
  const { answers, problems } = await checkAnswers(question, mint, database);
  const row = await compareThroughput(
    `${title}, ${connections} connections`,
    {
      ours: async (stack) => ({ server: stack.use(await startService(mint, database)), plan }),
      floor: async (stack) => {
        const program = import.meta.resolve('../processes/floor-answer.ts');
        return { server: stack.use(await startFloor(program, {}, answers)), plan };
      },
      areIdle: true,
    },
    effort,
    ratio === null ? null : { ratioAtLeast: ratio },
  );
  return { ...row, problems: [...problems, ...row.problems] };
}

/**
 * Asks twice for each, as it is read and as it is kept.
 *
 * @returns the answers, with the headers of the first that are not the server's own, and what is wrong with any
 */
async function checkAnswers(
  { connections, route, lookups }: Question,
  mint: BenchServer,
  database: BenchDatabase,
): Promise<{ answers: BareAnswers; problems: string[] }> {
  await using service = await startService(mint, database);
  const answers: BareAnswers = { route, headers: {}, bodies: {} };
  const wrong: string[] = [];
  for (const when of ['asked for the first time', 'asked again']) {
    for (let start = 0; start < lookups.length; start += connections) {
      const some = lookups.slice(start, start + connections);
      await Promise.all(
        some.map(async ({ path, expect }, index) => {
          const answer = await fetch(`${service.url}${path}`);
          const body = await answer.text();
          answers.bodies[path] = body;
          if (start + index === 0) {
            answers.headers = ownHeaders(answer.headers);
          }
          if (!body.includes(expect)) {
            wrong.push(`${when}, ${path} is answered by ${body}`);
          }
        }),
      );
    }
  }
  const problems =
    wrong.length === 0 ? [] : [`ours: ${wrong.length} wrong answers, the first: ${wrong[0]}`];
  return { answers, problems };
}

function ownHeaders(headers: Headers): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => !OF_ANY_SERVER.has(name)));
}
