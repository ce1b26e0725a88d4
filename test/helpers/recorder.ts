import { openLog } from '../../src/log.ts';
import { MintConduct } from '../../src/mint/mint-conduct.ts';
import type { Store } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';

/** What a process on a server's database does with what mints say, where there are no zaps. */
export function recorderOn(store: Store): RecordObservations {
  const log = openLog('silent');
  return new RecordObservations({
    store,
    conduct: new MintConduct(log),
    zaps: null,
    isOnServer: true,
    clock: Date.now,
    log,
  });
}
