import { sum } from './statistics.ts';

/** Answers that were not as they should be. */
export type Wrongs = {
  wrong: number;
  /** Null where there is none. */
  firstWrong: string | null;
};

/** Those of several who asked. */
export function wrongsIn(results: readonly Wrongs[]): Wrongs {
  return {
    wrong: sum(results.map(({ wrong }) => wrong)),
    firstWrong: results.find(({ firstWrong }) => firstWrong !== null)?.firstWrong ?? null,
  };
}

/**
 * Takes an invoice that is not in the database for a wrong answer, too, however right it looked. There may be
 * more quotes than answers: one that was made for an answer that got lost is nobody's.
 *
 * @param right all right answers since the database was empty, each with an invoice of its own
 * @param quotes in the database, as they were asked for
 */
export function withUnkept(wrongs: Wrongs, right: number, quotes: number): Wrongs {
  const unkept = Math.max(0, right - quotes);
  return wrongsIn([
    wrongs,
    {
      wrong: unkept,
      firstWrong: unkept === 0 ? null : `of ${right} invoices, ${quotes} are in the database`,
    },
  ]);
}
