import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const START_TIMEOUT_MS = 60_000;

/** A process that takes longer to end is killed. */
const STOP_TIMEOUT_MS = 10_000;

/** The unit in which Linux reports the CPU time of a process. */
const CPU_TICK_MS = 10;

const running = new Set<ChildProcess>();

// The bench can end without disposing of them, after an uncaught error for example.
process.once('exit', stopProcesses);

/** Asks every process of the bench to end. Whatever waits for one of them then fails and cleans up. */
export function stopProcesses(): void {
  for (const child of running) {
    child.kill('SIGTERM');
  }
}

/** A program that the bench runs in a process of its own. */
export interface BenchProcess<Ready> extends AsyncDisposable {
  pid: number;
  /** The first message that it printed with the expected key. */
  ready: Ready;
}

/** What a process has used since it started. */
export interface ProcessUsage {
  /** CPU time of all its threads. */
  cpuMs: number;
  /** Resident memory now, and at most so far. */
  rssMb: number;
  peakRssMb: number;
}

/**
 * Starts a program and waits until it prints a line of JSON with the given key, such as `{"url": …}`.
 *
 * @param name for error messages
 * @param program a `file:` URL
 * @param options.env its whole environment, apart from PATH and TMPDIR
 * @param options.input becomes its standard input, as JSON
 */
export async function startProcess<Ready extends object>(
  name: string,
  program: string,
  readyKey: keyof Ready & string,
  options: { env?: Record<string, string>; input?: unknown } = {},
): Promise<BenchProcess<Ready>> {
  const child = spawn(process.execPath, [fileURLToPath(program)], {
    env: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], ...options.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  child.stdin.end(JSON.stringify(options.input ?? null));

  const timer = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS);
  for await (const line of createInterface({ input: child.stdout })) {
    const message = JSON.parse(line) as object;
    if (readyKey in message) {
      clearTimeout(timer);
      // Later output is discarded unread: reading it would take CPU time from what is measured.
      child.stdout.resume();
      return {
        pid: child.pid ?? 0,
        ready: message as Ready,
        [Symbol.asyncDispose]: () => stop(child),
      };
    }
  }
  clearTimeout(timer);
  throw new Error(`${name} ended, or took too long to start`);
}

/** Reads what a process has used from /proc; other systems than Linux do not have it. */
export async function usageOf({ pid }: Pick<BenchProcess<unknown>, 'pid'>): Promise<ProcessUsage> {
  const [stat, status] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile(`/proc/${pid}/status`, 'utf8'),
  ]);
  // The program's name, in parentheses, can contain spaces. Fields 14 and 15 of all are CPU times.
  const [userTicks, systemTicks] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  const megabytes = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return {
    cpuMs: (Number(userTicks) + Number(systemTicks)) * CPU_TICK_MS,
    rssMb: megabytes('VmRSS'),
    peakRssMb: megabytes('VmHWM'),
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (!running.has(child)) {
    return;
  }
  const exited = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  child.kill('SIGTERM');
  await exited;
  clearTimeout(timer);
}
