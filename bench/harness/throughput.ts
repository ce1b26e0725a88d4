import { availableParallelism } from 'node:os';
import type { LoadPlan, LoadResult } from '../processes/load-generator.ts';
import { compare, type Pair } from './compare.ts';
import type { ComparedRow, Effort, Reach } from './figure.ts';
import { NodeProcess } from './node-process.ts';
import { percent } from './report.ts';
import type { BenchServer } from './servers.ts';
import { median, sum } from './statistics.ts';

/** In which a server's hot code gets compiled, unmeasured. */
export const WARM_UP_SECONDS = 3;

/**
 * A load generator that is busier than this, beside a server that is less busy than that, may be what
 * is measured.
 */
export const GENERATOR_BUSY = 0.95;
export const SERVER_IDLE = 0.8;

/**
 * Half of the cores are for what is measured. A generator needs up to 0.9 of one beside a bare server that
 * needs one, and beside the service about half; one that stays awake takes a whole one.
 */
const GENERATORS = Math.max(1, Math.floor(availableParallelism() / 2));

/** A server and what is asked of it. */
interface Load {
  server: BenchServer;
  plan: Omit<LoadPlan, 'url' | 'warmUpSeconds' | 'seconds'>;
}

/** Starts one side of a comparison anew; what it starts goes on the stack. */
export type StartSide = (stack: AsyncDisposableStack) => Promise<Load>;

/** One run of one side. */
export type ThroughputRun = {
  /** Right answers in a second. */
  value: number;
  /** Of the server's process alone. */
  cpuPerAnswerMs: number;
  /** CPU time as a share of the time. */
  serverBusy: number;
  /** Of the busiest load generator: see {@link LoadResult}. */
  generatorBusy: number;
  wrong: number;
  firstWrong: string | null;
};

/**
 * Compares what two servers answer in a second under the same load: ours and the floor in turn,
 * each run with fresh processes, so that neither is there to disturb the other.
 *
 * @param toReach of the ratio of both; null where nothing is asked of it
 */
export async function compareThroughput(
  title: string,
  sides: { ours: StartSide; floor: StartSide },
  effort: Effort,
  toReach: Reach | null,
): Promise<ComparedRow> {
  const runs: Pair<ThroughputRun>[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    const ours = await measureThroughput(sides.ours, effort.seconds);
    const floor = await measureThroughput(sides.floor, effort.seconds);
    runs.push({ ours, floor });
  }
  const medians = (field: Exclude<keyof ThroughputRun, 'wrong' | 'firstWrong'>) => ({
    ours: median(runs.map((run) => run.ours[field])),
    floor: median(runs.map((run) => run.floor[field])),
  });
  const cpuMs = medians('cpuPerAnswerMs');
  const serverBusy = medians('serverBusy');
  const generatorBusy = medians('generatorBusy');
  return compare(
    {
      title,
      unit: '/s',
      toReach,
      notes: [
        `CPU of the server for each answer: ${cpuMs.ours.toFixed(3)} ms, floor ${cpuMs.floor.toFixed(3)} ms`,
        `busy, of a core: server ${percent(serverBusy.ours)}, floor ${percent(serverBusy.floor)}; ` +
          `load generator ${percent(generatorBusy.ours)}, for the floor ${percent(generatorBusy.floor)}`,
      ],
      problems: [
        ...runs.flatMap((run) => [
          ...problemsOf('ours', run.ours),
          ...problemsOf('floor', run.floor),
        ]),
        ...problemsOfRatio(runs),
      ],
    },
    runs,
  );
}

/** One run of one side, with a process that is started for it. */
export async function measureThroughput(start: StartSide, seconds: number): Promise<ThroughputRun> {
  await using stack = new AsyncDisposableStack();
  const { server, plan } = await start(stack);
  const generators = dealOut({ ...plan, url: server.url, seconds }).map((input) =>
    stack.use(startGenerator(input)),
  );
  await Promise.all(generators.map((each) => each.next<'warm'>(WARM_UP_SECONDS * 1000)));
  const cpuMsBefore = await server.process.cpuMs();
  const results = await Promise.all(
    generators.map((each) => each.next<LoadResult>(seconds * 1000)),
  );
  const cpuMs = (await server.process.cpuMs()) - cpuMsBefore;
  const tookMs = Math.max(...results.map((result) => result.seconds)) * 1000;
  const right = sum(results.map((result) => result.right));
  return {
    value: sum(results.map((result) => result.right / result.seconds)),
    cpuPerAnswerMs: cpuMs / right,
    serverBusy: cpuMs / tookMs,
    generatorBusy: Math.max(...results.map(({ busy }) => busy)),
    wrong: sum(results.map((result) => result.wrong)),
    firstWrong: results.find(({ firstWrong }) => firstWrong !== null)?.firstWrong ?? null,
  };
}

/** Each generator has its share of the connections and of the requests. */
function dealOut(plan: Omit<LoadPlan, 'warmUpSeconds'>): LoadPlan[] {
  return Array.from({ length: GENERATORS }, (_, generator) => ({
    ...plan,
    staysAwake: plan.staysAwake && availableParallelism() > 1,
    warmUpSeconds: WARM_UP_SECONDS,
    connections: Math.ceil((plan.connections - generator) / GENERATORS),
    requests: plan.requests.filter((_, index) => index % GENERATORS === generator),
  }));
}

/** Asks a server as it is told to: see {@link LoadPlan}. */
export function startGenerator(input: LoadPlan): NodeProcess {
  const program = import.meta.resolve('../processes/load-generator.ts');
  return new NodeProcess('the load generator', program, { input });
}

/** Why a run cannot be trusted; empty: it can. */
export function problemsOf(side: 'ours' | 'floor', run: ThroughputRun): string[] {
  const { wrong, firstWrong, serverBusy, generatorBusy } = run;
  return [
    ...(wrong > 0 ? [`${side}: ${wrong} wrong answers, the first: ${firstWrong}`] : []),
    ...(generatorBusy > GENERATOR_BUSY && serverBusy < SERVER_IDLE
      ? [`${side}: the load generator was too busy, and may be what was measured`]
      : []),
  ];
}

/** Why the medians of all runs cannot be trusted: nothing does more than the least that could be done. */
export function problemsOfRatio(runs: readonly Pair<Pick<ThroughputRun, 'value'>>[]): string[] {
  const ours = median(runs.map((run) => run.ours.value));
  const floor = median(runs.map((run) => run.floor.value));
  return ours > floor ? ['ours does more than the floor: the floor is disturbed, or none'] : [];
}
