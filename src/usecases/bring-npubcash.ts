import type { Clock } from '../domain/clock.ts';
import type { NpubcashSource } from '../store/npubcash-source.ts';
import type { Store } from '../store/store.ts';
import type { LeftOut, NpubcashCounts } from './npubcash-report.ts';

/** What users and quotes of an npubcash server are brought over with. */
export interface BringParts {
  source: NpubcashSource;
  store: Store;
  /** Whether mints are asked over plain http here. */
  allowHttp: boolean;
  /** Nothing is written, and all is counted. */
  isDry: boolean;
  /** What becomes of each is added to it. */
  counts: NpubcashCounts;
  /** Told how many rows have come to their end. */
  onRead: (rows: number) => void;
  leaveOut: (leftOut: LeftOut) => Promise<void>;
  clock: Clock;
}
