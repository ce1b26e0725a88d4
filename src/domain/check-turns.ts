import { CHECK_CLASS, type CheckClass } from './poll-schedule.ts';

const { soon, next, rarely } = CHECK_CLASS;

/**
 * Young quotes go before old ones, but where a mint's requests never suffice for the young, the
 * others have a share all the same: one turn in four each.
 */
const FIRST_OF_TURN: readonly CheckClass[] = [soon, next, soon, rarely];

/** Every class, the most urgent first. */
export const BY_URGENCY: readonly CheckClass[] = [soon, next, rarely];

/**
 * In which order the classes of due quotes are asked about.
 *
 * @param turn counts a mint's rounds from 0
 * @returns every class once
 */
export function orderOfTurn(turn: number): readonly CheckClass[] {
  const first = FIRST_OF_TURN[turn % FIRST_OF_TURN.length] ?? soon;
  return [first, ...BY_URGENCY.filter((checkClass) => checkClass !== first)];
}
