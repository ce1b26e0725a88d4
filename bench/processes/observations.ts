import { openSync } from 'node:fs';
import { json } from 'node:stream/consumers';
import { LineOutput, openLog } from '../../src/log.ts';
import { MintAnomalies } from '../../src/mint/mint-anomalies.ts';
import { openDatabase } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';
import { timeRecording } from '../harness/time-recording.ts';
import { databaseLocation } from './database-location.ts';

/** Batches of unpaid quotes that a mint reports as paid: standard input. */
export interface ObservationPlan {
  mintUrl: string;
  /** Ids of quotes; the first batches compile the hot code and are not measured. */
  batches: string[][];
  warmUps: number;
}

/** The line of standard output. */
export interface ObservationResult {
  /** All batches that were measured, one after another. */
  seconds: number;
  /** Of this process, in that time. */
  cpuMs: number;
}

/** Records observations as the watcher does: its use case, with everything behind it and a log. */

const plan = (await json(process.stdin)) as ObservationPlan;
const database = await openDatabase(databaseLocation(), () => undefined);
// Lines are written as those of the service are, and nobody reads them.
const log = openLog('info', new LineOutput(openSync('/dev/null', 'w')));
const recording = new RecordObservations({
  store: new Store(database.db),
  anomalies: new MintAnomalies(log),
  zaps: null,
  clock: Date.now,
  log,
});

await timeRecording(plan, async (batch) => {
  const observations = batch.map((quoteId) => ({
    quoteId,
    state: 'PAID' as const,
    source: 'poll' as const,
  }));
  await recording.record(plan.mintUrl, observations);
});
await database.close();
process.disconnect?.();
