import type { LoadPlan, LoadResult } from '../processes/load-generator.ts';
import type { Effort, Row } from './figure.ts';
import { NodeProcess } from './node-process.ts';
import type { BenchServer } from './servers.ts';
import { median } from './statistics.ts';

/** In which a server's hot code gets compiled, unmeasured. */
const WARM_UP_SECONDS = 2;

/**
 * A load generator that is busier than this, beside a server that is less busy than that, may be what
 * is measured. (On two cores, two generators got no more out of a bare server at 80 % than one did.)
 */
const GENERATOR_BUSY = 0.95;
const SERVER_IDLE = 0.8;

/** A server and what is asked of it. */
interface Load {
  server: BenchServer;
  plan: Omit<LoadPlan, 'url' | 'warmUpSeconds' | 'seconds'>;
}

/** Starts one side of a comparison anew; what it starts goes on the stack. */
export type StartSide = (stack: AsyncDisposableStack) => Promise<Load>;

/** One run of one side. */
interface Run {
  perSecond: number;
  /** Of the server's process alone. */
  cpuPerAnswerMs: number;
  /** CPU time as a share of the time; the load generator has one thread. */
  serverBusy: number;
  generatorBusy: number;
  wrong: number;
  firstWrong: string | null;
}

/**
 * Compares what two servers answer in a second under the same load: ours and the floor in turn,
 * each run with fresh processes, so that neither is there to disturb the other.
 */
export async function compareThroughput(
  title: string,
  sides: { ours: StartSide; floor: StartSide },
  effort: Effort,
): Promise<Row> {
  const runs: { ours: Run; floor: Run }[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    const ours = await measure(sides.ours, effort.seconds);
    const floor = await measure(sides.floor, effort.seconds);
    runs.push({ ours, floor });
  }
  const medians = (field: Exclude<keyof Run, 'wrong' | 'firstWrong'>) => ({
    ours: median(runs.map((run) => run.ours[field])),
    floor: median(runs.map((run) => run.floor[field])),
  });
  const rate = medians('perSecond');
  const cpuMs = medians('cpuPerAnswerMs');
  const serverBusy = medians('serverBusy');
  const generatorBusy = medians('generatorBusy');
  const ratios = runs.map((run) => run.ours.perSecond / run.floor.perSecond);
  return {
    title,
    ...rate,
    unit: '/s',
    ratio: rate.ours / rate.floor,
    lowestRatio: Math.min(...ratios),
    highestRatio: Math.max(...ratios),
    notes: [
      `CPU of the server for each answer: ${cpuMs.ours.toFixed(3)} ms, floor ${cpuMs.floor.toFixed(3)} ms`,
      `busy, of a core: server ${percent(serverBusy.ours)}, floor ${percent(serverBusy.floor)}; ` +
        `load generator ${percent(generatorBusy.ours)}, for the floor ${percent(generatorBusy.floor)}`,
    ],
    problems: runs.flatMap((run) => [
      ...problemsOf('ours', run.ours),
      ...problemsOf('floor', run.floor),
    ]),
    runs,
  };
}

async function measure(start: StartSide, seconds: number): Promise<Run> {
  await using stack = new AsyncDisposableStack();
  const { server, plan } = await start(stack);
  const generator = stack.use(startGenerator({ ...plan, url: server.url, seconds }));
  const cpuMs = () => Promise.all([server.process.cpuMs(), generator.cpuMs()]);

  await generator.next<'warm'>(WARM_UP_SECONDS * 1000);
  const [serverCpuMs, generatorCpuMs] = await cpuMs();
  const result = await generator.next<LoadResult>(seconds * 1000);
  const [serverCpuMsAfter, generatorCpuMsAfter] = await cpuMs();
  const serverCpuTookMs = serverCpuMsAfter - serverCpuMs;
  const tookMs = result.seconds * 1000;
  return {
    perSecond: result.right / result.seconds,
    cpuPerAnswerMs: serverCpuTookMs / result.right,
    serverBusy: serverCpuTookMs / tookMs,
    generatorBusy: (generatorCpuMsAfter - generatorCpuMs) / tookMs,
    wrong: result.wrong,
    firstWrong: result.firstWrong,
  };
}

function startGenerator(plan: Omit<LoadPlan, 'warmUpSeconds'>): NodeProcess {
  const program = import.meta.resolve('../processes/load-generator.ts');
  const input: LoadPlan = { ...plan, warmUpSeconds: WARM_UP_SECONDS };
  return new NodeProcess('the load generator', program, { input });
}

function problemsOf(side: 'ours' | 'floor', run: Run): string[] {
  const { wrong, firstWrong, serverBusy, generatorBusy } = run;
  return [
    ...(wrong > 0 ? [`${side}: ${wrong} wrong answers, the first: ${firstWrong}`] : []),
    ...(generatorBusy > GENERATOR_BUSY && serverBusy < SERVER_IDLE
      ? [`${side}: the load generator was too busy, and may be what was measured`]
      : []),
  ];
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
