import { json } from 'node:stream/consumers';
import { FIGURES } from '../figures.ts';
import { DatabaseHost } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { firstCause } from '../harness/first-cause.ts';
import { interrupt } from '../harness/node-process.ts';
import type { PostgresStart } from './postgres.ts';

/** What to measure, and where: standard input. */
export interface FigurePlan {
  /** Of {@link FIGURES}. */
  name: string;
  effort: Effort;
  server: PostgresStart;
}

/** The line of standard output. */
export type FigureResult = { rows: Row[] } | { failure: string };

/** Measures one figure of the service that this file lies beside. */

process.once('SIGINT', interrupt);
process.once('SIGTERM', interrupt);

const { name, effort, server } = (await json(process.stdin)) as FigurePlan;
const result = await measure().then(
  (rows): FigureResult => ({ rows }),
  (error): FigureResult => ({ failure: String(firstCause(error)) }),
);
process.stdout.write(`${JSON.stringify(result)}\n`);

async function measure(): Promise<Row[]> {
  const figure = await FIGURES[name]?.();
  if (figure === undefined) {
    throw new RangeError(`there is no figure ${name}`);
  }
  await using databases = DatabaseHost.on(server);
  return await figure.measure(databases, effort);
}
