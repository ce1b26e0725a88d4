import { openLog } from '../../src/log.ts';
import { MintAnomalies } from '../../src/mint/mint-anomalies.ts';
import type { Store } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';

/** Records observations as a process without a zap key does. */
export function recorderOn(
  store: Store,
  { clock = Date.now, log = openLog('silent') } = {},
): RecordObservations {
  return new RecordObservations({
    store,
    anomalies: new MintAnomalies(log),
    zaps: null,
    clock,
    log,
  });
}
