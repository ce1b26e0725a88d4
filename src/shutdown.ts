import type { Logger } from './log.ts';
import { waitAtMost } from './wait-at-most.ts';

export interface ShutdownStage {
  name: string;
  /** After this time the next stage starts, even if this one has not ended. */
  deadlineMs: number;
  stop: () => unknown;
}

/** Runs the stages one after the other. A stage that fails or takes too long does not prevent the next ones. */
export async function shutDown(
  stages: readonly ShutdownStage[],
  log: Pick<Logger, 'warn'>,
): Promise<void> {
  for (const { name, deadlineMs, stop } of stages) {
    // Stays set unless the stage ends in time.
    let problem: unknown = new Error(`still running after ${deadlineMs} ms`);
    const stopped = Promise.try(stop).then(
      () => {
        problem = null;
      },
      (error: unknown) => {
        problem = error;
      },
    );
    await waitAtMost(deadlineMs, stopped);
    if (problem !== null) {
      log.warn(
        { event: 'shutdown_stage_failed', stage: name, err: problem },
        'could not stop a part of the service; continuing the shutdown',
      );
    }
  }
}
