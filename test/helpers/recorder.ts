import { openLog } from '../../src/log.ts';
import { MintAnomalies } from '../../src/mint/mint-anomalies.ts';
import type { Store } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';

/** Records observations as a process without a zap key does. */
export function recorderOn(
  store: Store,
  {
    clock = Date.now,
    log = openLog('silent'),
    anomalies = new MintAnomalies(log) as Pick<MintAnomalies, 'report'>,
  } = {},
): RecordObservations {
  return new RecordObservations({ store, anomalies, zaps: null, clock, log });
}
