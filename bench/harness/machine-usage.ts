import { cpus } from 'node:os';
import { sum } from './statistics.ts';

/** What all cores have done since the machine started, in milliseconds, summed up. */
interface MachineUsage {
  idleMs: number;
  allMs: number;
}

/** As of now. */
export function machineUsage(): MachineUsage {
  const times = cpus().map((cpu) => cpu.times);
  return {
    idleMs: sum(times.map(({ idle }) => idle)),
    allMs: sum(times.flatMap(({ user, nice, sys, idle, irq }) => [user, nice, sys, idle, irq])),
  };
}

/** The share of all cores that was in use between two moments; 1 is all of them. */
export function busyShare(before: MachineUsage, after: MachineUsage): number {
  return 1 - (after.idleMs - before.idleMs) / (after.allMs - before.allMs);
}
