import { parseArgs } from 'node:util';
import { type Effort, ENOUGH_RUNS } from './figure.ts';

/** What `npm run bench` was asked for. */
export interface BenchArguments {
  /** In the order of the table. */
  figures: string[];
  /** Whether these were asked for by their names: without any, all are. */
  isNamed: boolean;
  effort: Effort;
  /** The commit to compare with. */
  against: string | null;
  /** Whether a figure that is not as it has to be is a failure. */
  mustReach: boolean;
  /** Whether the service makes CPU profiles. */
  profile: boolean;
}

/**
 * Reads the words after the command.
 *
 * @param known every figure's name
 * @returns null where they are not understood
 */
export function readArguments(
  words: readonly string[],
  known: readonly string[],
): BenchArguments | null {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      allowPositionals: true,
      options: {
        runs: { type: 'string', default: '3' },
        seconds: { type: 'string', default: '3' },
        zaps: { type: 'string', default: '10000' },
        quotes: { type: 'string', default: '10000000' },
        against: { type: 'string' },
        'must-reach': { type: 'boolean', default: false },
        profile: { type: 'boolean', default: false },
      },
    });
    const effort = {
      runs: Number(values.runs),
      seconds: Number(values.seconds),
      zaps: Number(values.zaps),
      quotes: Number(values.quotes),
    };
    const isKnown = positionals.every((name) => known.includes(name));
    const isEnough = Object.values(effort).every(
      (amount) => Number.isSafeInteger(amount) && amount >= 1,
    );
    // Against another commit, what a figure has to reach and where its time goes are other questions.
    // And a service that makes a profile is not as fast as it has to be.
    const questions = [values.against !== undefined, values['must-reach'], values.profile];
    const isOneQuestion = questions.filter(Boolean).length <= 1;
    const isMedian = !values['must-reach'] || effort.runs >= ENOUGH_RUNS;
    return isKnown && isEnough && isOneQuestion && isMedian
      ? {
          figures: known.filter((name) => positionals.length === 0 || positionals.includes(name)),
          isNamed: positionals.length > 0,
          effort,
          against: values.against ?? null,
          mustReach: values['must-reach'],
          profile: values.profile,
        }
      : null;
  } catch {
    return null;
  }
}
