import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const START_TIMEOUT_MS = 60_000;

/** A process that takes longer to stop is killed. */
const STOP_TIMEOUT_MS = 10_000;

/** Linux reports the CPU time of a process in ticks of this length. */
const CPU_TICK_MS = 10;

const runningChildren = new Set<ChildProcess>();

// The benchmark can exit without disposing of processes, for example after an uncaught error.
process.once('exit', stopProcesses);

/** Sends SIGTERM to every process. A benchmark that uses such a process then fails and cleans up. */
export function stopProcesses(): void {
  for (const child of runningChildren) {
    child.kill('SIGTERM');
  }
}

/** A child process of the benchmark. */
export interface BenchProcess<Ready> extends AsyncDisposable {
  pid: number;
  /** The first JSON line that the process printed with the expected key. */
  readyMessage: Ready;
}

export interface ProcessUsage {
  /** CPU time of all threads since the start of the process. */
  cpuMs: number;
  /** Resident memory now. */
  rssMb: number;
  /** The largest resident memory since the start of the process. */
  peakRssMb: number;
}

/**
 * Starts a program and waits until it prints a JSON line with the given key, such as `{"url": …}`.
 *
 * @param name for error messages
 * @param program a `file:` URL
 * @param options.env environment variables; the process inherits only PATH and TMPDIR
 * @param options.nodeOptions options of Node, before the program
 * @param options.input written to its standard input as JSON
 * @param options.hasOwnSession runs it in a session of its own. Linux divides CPU time equally among sessions first
 *   (`sched_autogroup_enabled`), so the processes of one session get little of a busy machine.
 * @param options.onOutput called with what it prints after that line, which is otherwise discarded
 */
export async function startProcess<Ready extends object>(
  name: string,
  program: string,
  readyKey: keyof Ready & string,
  options: {
    env?: Record<string, string>;
    nodeOptions?: readonly string[];
    input?: unknown;
    hasOwnSession?: boolean;
    onOutput?: (chunk: Buffer) => void;
  } = {},
): Promise<BenchProcess<Ready>> {
  const child = spawn(process.execPath, [...(options.nodeOptions ?? []), fileURLToPath(program)], {
    env: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], ...options.env },
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: options.hasOwnSession ?? false,
  });
  runningChildren.add(child);
  child.once('exit', () => runningChildren.delete(child));
  child.stdin.end(JSON.stringify(options.input ?? null));

  const timer = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS);
  for await (const line of createInterface({ input: child.stdout })) {
    const message = JSON.parse(line) as object;
    if (readyKey in message) {
      clearTimeout(timer);
      // Parsing later output would take CPU time away from the measured process.
      child.stdout.on('data', options.onOutput ?? (() => undefined));
      child.stdout.resume();
      return {
        pid: child.pid ?? 0,
        readyMessage: message as Ready,
        [Symbol.asyncDispose]: () => stopChild(child),
      };
    }
  }
  clearTimeout(timer);
  throw new Error(`${name} exited or took too long to start`);
}

/** Reads the CPU time and memory of a process from /proc (Linux only). */
export async function readProcessUsage({ pid }: { pid: number }): Promise<ProcessUsage> {
  const [stat, status] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile(`/proc/${pid}/status`, 'utf8'),
  ]);
  // Skip the program name, which is in parentheses and may contain spaces. CPU times are fields 14 and 15.
  const [userTicks, systemTicks] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  const readMb = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return {
    cpuMs: (Number(userTicks) + Number(systemTicks)) * CPU_TICK_MS,
    rssMb: readMb('VmRSS'),
    peakRssMb: readMb('VmHWM'),
  };
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (!runningChildren.has(child)) {
    return;
  }
  const exited = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  child.kill('SIGTERM');
  await exited;
  clearTimeout(timer);
}
