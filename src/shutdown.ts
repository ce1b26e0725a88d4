import type { Logger } from './log.ts';
import { waitAtMost } from './wait-at-most.ts';

/** How to stop a part of the service. After its deadline the next stage starts, even if this one has not ended. */
type ShutdownStage = readonly [deadlineMs: number, stop: () => unknown];

/** Runs the stages one after the other. A stage that fails or takes too long does not prevent the next ones. */
export async function shutDown(
  log: Pick<Logger, 'warn'>,
  stages: Readonly<Record<string, ShutdownStage>>,
): Promise<void> {
  for (const [name, [deadlineMs, stop]] of Object.entries(stages)) {
    let hasStopped = false;
    const stopping = Promise.try(stop).then(() => {
      hasStopped = true;
    });
    try {
      await waitAtMost(deadlineMs, stopping);
      if (!hasStopped) {
        throw new Error(`still running after ${deadlineMs} ms`);
      }
    } catch (error) {
      log.warn(
        { event: 'shutdown_stage_failed', stage: name, err: error },
        'could not stop a part of the service; continuing the shutdown',
      );
    }
  }
}
