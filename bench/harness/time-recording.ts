import type { ObservationPlan, ObservationResult } from '../processes/observations.ts';

/**
 * Records all batches of a plan, one after another, and says on standard output how long those took that
 * are measured.
 */
export async function timeRecording(
  { batches, warmUps }: ObservationPlan,
  record: (batch: readonly string[]) => Promise<void>,
): Promise<void> {
  let cpu = process.cpuUsage();
  let startedAtMs = performance.now();
  for (const [number, batch] of batches.entries()) {
    if (number === warmUps) {
      cpu = process.cpuUsage();
      startedAtMs = performance.now();
    }
    await record(batch);
  }
  const seconds = (performance.now() - startedAtMs) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const result: ObservationResult = { seconds, cpuMs: (user + system) / 1000 };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
