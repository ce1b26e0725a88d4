import type { ObservedState } from '../domain/quote.ts';

/** What came of recording what a mint said. */
export interface Recorded {
  /** What was news, and was believed. */
  news: { quoteId: string; state: ObservedState }[];
  /** Ids of quotes that need no more watching. */
  finished: string[];
}

/** Some lots of a batch are recorded, and another is not, for the `cause`; the same batch can be given again. */
export class PartlyRecorded extends Error {
  readonly recorded: Recorded;

  constructor(recorded: Recorded, cause: unknown) {
    super('a part of what a mint said was not recorded', { cause });
    this.recorded = recorded;
  }
}

/**
 * Records the lots of a batch, each in a transaction of its own, some at a time: while the database is busy with
 * one, another is put together. None is under way any more once it is over.
 *
 * @param atATime how many transactions
 * @param before what was recorded of the batch already
 * @param record one lot
 * @throws PartlyRecorded where one fails and others did not; what was thrown where nothing was recorded
 */
export async function recordLots<Lot>(
  lots: readonly Lot[],
  atATime: number,
  before: Recorded,
  record: (lot: Lot) => Promise<Recorded>,
): Promise<Recorded> {
  const all: Recorded = { news: [...before.news], finished: [...before.finished] };
  const failures: unknown[] = [];
  const waiting = lots.values();
  const recordNext = async () => {
    for (const lot of waiting) {
      try {
        const { news, finished } = await record(lot);
        all.news.push(...news);
        all.finished.push(...finished);
      } catch (error) {
        failures.push(error);
      }
      if (failures.length > 0) {
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: atATime }, recordNext));
  if (failures.length > 0) {
    const isNothingRecorded = all.news.length === 0 && all.finished.length === 0;
    const cause = failures.length === 1 ? failures[0] : new AggregateError(failures);
    throw isNothingRecorded ? cause : new PartlyRecorded(all, cause);
  }
  return all;
}
