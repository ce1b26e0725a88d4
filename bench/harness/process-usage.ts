import { readFile } from 'node:fs/promises';

/** What a process has taken, since it was started and now. */
export interface ProcessUsage {
  /** Of all its threads. */
  cpuMs: number;
  /** Memory that it holds (RSS). */
  rssMb: number;
  /** The most that it ever held. */
  peakRssMb: number;
}

/** Linux tells the CPU time of a process in these. */
const CPU_TICK_MS = 10;

/** Null where there is no such process, or no Linux to tell of it. */
export async function processUsage(pid: number): Promise<ProcessUsage | null> {
  const [stat, status] = await Promise.all(
    ['stat', 'status'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => null)),
  );
  if (stat == null || status == null) {
    return null;
  }
  // The name of the program, in brackets, may hold spaces; two of what follows are CPU times.
  const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [userTicks, systemTicks] = afterName.slice(11, 13);
  return {
    cpuMs: (Number(userTicks) + Number(systemTicks)) * CPU_TICK_MS,
    rssMb: megabytes(status, 'VmRSS'),
    peakRssMb: megabytes(status, 'VmHWM'),
  };
}

function megabytes(status: string, name: string): number {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status) ?? [];
  return Number(kilobytes ?? 0) / 1024;
}
