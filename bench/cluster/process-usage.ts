import { readdir, readFile } from 'node:fs/promises';

/** A part of the installation: some processes and their descendants, without those of other parts. */
export interface Part {
  name: string;
  pids: readonly number[];
}

export interface CpuTimes {
  /** CPU time of each part by its name, in milliseconds. */
  partsMs: Map<string, number>;
  /** CPU time that all programs of the machine and the kernel have used. */
  machineMs: number;
}

/** Linux reports CPU times in ticks of this length. */
const CPU_TICK_MS = 10;

interface ProcessInfo {
  pid: number;
  parentPid: number;
  /** Includes the time of children that have exited. */
  cpuMs: number;
}

/** Reads CPU times from /proc (Linux only). */
export async function readCpuTimes(parts: readonly Part[]): Promise<CpuTimes> {
  const processes = await listProcesses();
  const stat = await readFile('/proc/stat', 'utf8');
  const [, user = 0, nice = 0, system = 0, _idle, _iowait, irq = 0, softirq = 0] =
    stat.split('\n')[0]?.split(/\s+/).map(Number) ?? [];
  const busyTicks = user + nice + system + irq + softirq;
  const partsMs = new Map(
    [...assignToParts(processes, parts)].map(([name, members]) => [
      name,
      members.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    ]),
  );
  return { partsMs, machineMs: busyTicks * CPU_TICK_MS };
}

/** Returns the proportional set size of each part in MB, in which shared memory is counted once. */
export async function readMemoryMb(parts: readonly Part[]): Promise<Map<string, number>> {
  const memoryMb = new Map<string, number>();
  for (const [name, members] of assignToParts(await listProcesses(), parts)) {
    const sizes = await Promise.all(members.map(readPssMb));
    memoryMb.set(
      name,
      sizes.reduce((sum, size) => sum + size, 0),
    );
  }
  return memoryMb;
}

function assignToParts(
  processes: ReadonlyMap<number, ProcessInfo>,
  parts: readonly Part[],
): Map<string, ProcessInfo[]> {
  const partByPid = new Map(parts.flatMap(({ name, pids }) => pids.map((pid) => [pid, name])));
  const findPart = (pid: number): string | undefined => {
    const parent = processes.get(pid)?.parentPid;
    return partByPid.get(pid) ?? (parent === undefined ? undefined : findPart(parent));
  };
  const members = new Map<string, ProcessInfo[]>(parts.map(({ name }) => [name, []]));
  for (const info of processes.values()) {
    members.get(findPart(info.pid) ?? '')?.push(info);
  }
  return members;
}

async function listProcesses(): Promise<Map<number, ProcessInfo>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const infos = await Promise.all(pids.map((pid) => readProcess(pid).catch(() => null)));
  return new Map(infos.flatMap((info) => (info === null ? [] : [[info.pid, info] as const])));
}

async function readProcess(pid: number): Promise<ProcessInfo> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // Skip the program name, which is in parentheses and may contain spaces. The first field is then field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // utime, stime, cutime, cstime
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { pid, parentPid: Number(fields[1]), cpuMs: ticks * CPU_TICK_MS };
}

/** Returns 0 for a process that has exited. */
async function readPssMb({ pid }: ProcessInfo): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) / 1024;
}
