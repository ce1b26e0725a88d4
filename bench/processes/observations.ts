import { openSync } from 'node:fs';
import { json } from 'node:stream/consumers';
import { LineOutput, openLog } from '../../src/log.ts';
import { MintConduct } from '../../src/mint/mint-conduct.ts';
import { openDatabase } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';
import { timeRecording } from '../harness/time-recording.ts';
import { databaseLocation } from './database-location.ts';

/** Batches of quotes that a mint tells of: standard input. */
export interface ObservationPlan {
  mintUrl: string;
  /** What it says of all of them, which are unpaid. */
  says: 'UNPAID' | 'PAID';
  /** Ids of quotes; the first batches are for the hot code to be compiled, and not measured. */
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
const location = databaseLocation();
const database = await openDatabase(location, () => undefined);
// Lines are written as those of the service are, and nobody reads them.
const log = openLog('info', new LineOutput(openSync('/dev/null', 'w')));
const recording = new RecordObservations({
  store: new Store(database.db),
  conduct: new MintConduct(log),
  zaps: null,
  isOnServer: location.kind === 'postgres',
  clock: Date.now,
  log,
});

await timeRecording(plan, async (batch) => {
  const observations = batch.map((quoteId) => ({ quoteId, state: plan.says }));
  await recording.record(plan.mintUrl, observations, 'poll', () => true);
});
await database.close();
process.disconnect?.();
