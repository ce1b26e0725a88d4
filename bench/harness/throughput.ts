import { availableParallelism } from 'node:os';
import { type LoadPlan, type LoadResult, TURN } from '../processes/load-plan.ts';
import { compare, type Pair } from './compare.ts';
import type { ComparedRow, Effort, Reach } from './figure.ts';
import { NodeProcess } from './node-process.ts';
import { percent } from './report.ts';
import type { BenchServer } from './servers.ts';
import { median, sum } from './statistics.ts';
import { type Wrongs, withUnkept, wrongsIn } from './wrongs.ts';

/** Where both sides are there at once: a machine that is shared is seldom as fast for many seconds. */
const TURN_SECONDS = 0.5;

/** In which a server's hot code gets compiled, unmeasured. */
const WARM_UP_SECONDS = 3;

/**
 * A load generator that is busier than this, by its own account, or a mint that takes more of a core, may be what is
 * measured, beside a server that takes less than that. What takes a whole core has not all of the time for its one
 * thread, where there are few of them.
 */
const GENERATOR_BUSY = 0.95;
export const BYSTANDER_BUSY = 0.85;
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
  /** Whom the server asks in its turn; absent: nobody. */
  mint?: BenchServer;
  /** How many answers left in the database what they should, once the server has ended; absent: none should. */
  countKept?: () => Promise<number>;
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
  /** CPU time of the mint as a share of the time; 0 where there is none. */
  mintBusy: number;
} & Wrongs;

/**
 * Compares what two servers answer in a second under the same load, each run with fresh processes.
 *
 * @param sides.areIdle whether a server does nothing unless it is asked: ours and the floor are then there at
 *   once and take turns, and what else the machine does meets both. Else one is there after the other, so that
 *   neither disturbs the other
 * @param toReach of the ratio of both; null where nothing is asked of it
 */
export async function compareThroughput(
  title: string,
  sides: { ours: StartSide; floor: StartSide; areIdle: boolean },
  effort: Effort,
  toReach: Reach | null,
): Promise<ComparedRow> {
  const runs: Pair<ThroughputRun>[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    runs.push(await measurePair(sides, effort.seconds));
  }
  const medians = (field: Exclude<keyof ThroughputRun, keyof Wrongs>) => ({
    ours: median(runs.map((run) => run.ours[field])),
    floor: median(runs.map((run) => run.floor[field])),
  });
  const cpuMs = medians('cpuPerAnswerMs');
  const serverBusy = medians('serverBusy');
  const generatorBusy = medians('generatorBusy');
  const mintBusy = medians('mintBusy');
  return compare(
    {
      title,
      unit: '/s',
      toReach,
      notes: [
        `CPU of the server for each answer: ${cpuMs.ours.toFixed(3)} ms, floor ${cpuMs.floor.toFixed(3)} ms`,
        `busy, of a core: server ${percent(serverBusy.ours)}, floor ${percent(serverBusy.floor)}; ` +
          `load generator ${percent(generatorBusy.ours)}, for the floor ${percent(generatorBusy.floor)}` +
          (mintBusy.ours + mintBusy.floor === 0
            ? ''
            : `; mint ${percent(mintBusy.ours)}, for the floor ${percent(mintBusy.floor)}`),
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

async function measurePair(
  { ours, floor, areIdle }: { ours: StartSide; floor: StartSide; areIdle: boolean },
  seconds: number,
): Promise<Pair<ThroughputRun>> {
  if (!areIdle) {
    return {
      ours: await measureThroughput(ours, seconds),
      floor: await measureThroughput(floor, seconds),
    };
  }
  await using stack = new AsyncDisposableStack();
  const times = { warmUpSeconds: 0, turnSeconds: turnSecondsOf(seconds) };
  const both = {
    ours: await LoadedServer.start(ours, stack, times),
    floor: await LoadedServer.start(floor, stack, times),
  };
  await takeTurns([both.ours, both.floor], seconds);
  await both.ours.checkKept();
  await both.floor.checkKept();
  return { ours: both.ours.run, floor: both.floor.run };
}

/** A side of a comparison whose sides are there at once. */
export interface TurnTaker {
  /** A turn that does not count. */
  warmUp(): Promise<void>;
  takeTurn(): Promise<void>;
}

/** How long a turn takes, where each side has so many seconds in all. */
export function turnSecondsOf(seconds: number): number {
  return seconds / turnsIn(seconds);
}

/** Lets the sides take turns of {@link turnSecondsOf}. */
export async function takeTurns(sides: readonly TurnTaker[], seconds: number): Promise<void> {
  const turns = turnsIn(seconds);
  // In turns too: a server that was idle for long may have let go of what it had compiled.
  const warmUps = Math.ceil(WARM_UP_SECONDS / turnSecondsOf(seconds));
  for (let turn = -warmUps; turn < turns; turn += 1) {
    for (const side of sides) {
      await (turn < 0 ? side.warmUp() : side.takeTurn());
    }
  }
}

function turnsIn(seconds: number): number {
  return Math.max(1, Math.round(seconds / TURN_SECONDS));
}

/** One run of one side, with a process that is started for it. */
async function measureThroughput(start: StartSide, seconds: number): Promise<ThroughputRun> {
  await using stack = new AsyncDisposableStack();
  const times = { warmUpSeconds: WARM_UP_SECONDS, turnSeconds: seconds };
  const side = await LoadedServer.start(start, stack, times);
  await side.takeTurn();
  await side.checkKept();
  return side.run;
}

/** A server under load, turn by turn. */
export class LoadedServer implements TurnTaker {
  readonly #server: BenchServer;
  readonly #mint: BenchServer | undefined;
  readonly #generators: readonly NodeProcess[];
  readonly #turnSeconds: number;
  readonly #countKept: Load['countKept'];
  #right = 0;
  #rightInAll = 0;
  #seconds = 0;
  #cpuMs = 0;
  #busySeconds = 0;
  #mintCpuMs = 0;
  #wrongs: Wrongs = wrongsIn([]);

  /** Warms it up for so long; what is started goes on the stack. */
  static async start(
    start: StartSide,
    stack: AsyncDisposableStack,
    { warmUpSeconds, turnSeconds }: { warmUpSeconds: number; turnSeconds: number },
  ): Promise<LoadedServer> {
    const load = await start(stack);
    const { server, plan } = load;
    const times = { warmUpSeconds, seconds: turnSeconds };
    const generators = dealOut({ ...plan, ...times, url: server.url }).map((input) =>
      stack.use(startGenerator(input)),
    );
    await Promise.all(generators.map((each) => each.next<'warm'>(warmUpSeconds * 1000)));
    return new LoadedServer(load, generators, turnSeconds);
  }

  private constructor(
    { server, mint, countKept }: Load,
    generators: readonly NodeProcess[],
    turnSeconds: number,
  ) {
    this.#server = server;
    this.#mint = mint;
    this.#generators = generators;
    this.#turnSeconds = turnSeconds;
    this.#countKept = countKept;
  }

  /** Of all turns until now. */
  get run(): ThroughputRun {
    return {
      value: this.#right / this.#seconds,
      cpuPerAnswerMs: this.#cpuMs / this.#right,
      serverBusy: this.#cpuMs / this.#seconds / 1000,
      generatorBusy: this.#busySeconds / this.#seconds,
      mintBusy: this.#mintCpuMs / this.#seconds / 1000,
      ...this.#wrongs,
    };
  }

  /** What is wrong in it counts. */
  async warmUp(): Promise<void> {
    await takeTurn(this.#generators, this.#turnSeconds);
  }

  async takeTurn(): Promise<void> {
    const before = await this.#look();
    const results = await takeTurn(this.#generators, this.#turnSeconds);
    const seconds = Math.max(...results.map((result) => result.seconds));
    const after = await this.#look();
    this.#cpuMs += after.server - before.server;
    this.#mintCpuMs += after.mint - before.mint;
    this.#seconds += seconds;
    this.#right += sum(results.map(({ right }) => right));
    this.#busySeconds += Math.max(...results.map(({ busy }) => busy)) * seconds;
    this.#rightInAll = sum(results.map(({ rightInAll }) => rightInAll));
    this.#wrongs = wrongsIn(results);
  }

  /** CPU time until now, in milliseconds. */
  async #look(): Promise<{ server: number; mint: number }> {
    return {
      server: await this.#server.process.cpuMs(),
      mint: (await this.#mint?.process.cpuMs()) ?? 0,
    };
  }

  /** Ends the server, and looks whether what it answered is in its database. */
  async checkKept(): Promise<void> {
    if (this.#countKept !== undefined) {
      await this.#server[Symbol.asyncDispose]();
      this.#wrongs = withUnkept(this.#wrongs, this.#rightInAll, await this.#countKept());
    }
  }
}

/** Lets generators that are warm ask for a turn. */
export function takeTurn(
  generators: readonly NodeProcess[],
  seconds: number,
): Promise<LoadResult[]> {
  return Promise.all(
    generators.map((each) => {
      each.tell(TURN);
      return each.next<LoadResult>(seconds * 1000);
    }),
  );
}

/** Each generator has its share of the connections and of the requests. */
function dealOut(plan: LoadPlan): LoadPlan[] {
  return Array.from({ length: GENERATORS }, (_, generator) => ({
    ...plan,
    staysAwake: plan.staysAwake && availableParallelism() > 1,
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
  const { wrong, firstWrong, serverBusy, generatorBusy, mintBusy } = run;
  return [
    ...(wrong > 0 ? [`${side}: ${wrong} wrong answers, the first: ${firstWrong}`] : []),
    ...(generatorBusy > GENERATOR_BUSY && serverBusy < SERVER_IDLE
      ? [`${side}: the load generator was too busy, and may be what was measured`]
      : []),
    ...(mintBusy > BYSTANDER_BUSY && serverBusy < SERVER_IDLE
      ? [`${side}: the mint was too busy, and may be what was measured`]
      : []),
  ];
}

/** Why the ratio of all runs cannot be trusted: nothing does more than the least that could be done. */
export function problemsOfRatio(runs: readonly Pair<Pick<ThroughputRun, 'value'>>[]): string[] {
  const ratio = median(runs.map((run) => run.ours.value / run.floor.value));
  return ratio > 1 ? ['ours does more than the floor: the floor is disturbed, or none'] : [];
}
