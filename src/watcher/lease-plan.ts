import type { WatchedMint } from '../store/quote-watch-store.ts';

/** A mint that nobody took in this time is taken by anybody, whoever's share it was. */
const ORPHANED_AFTER_MS = 5_000;

/**
 * So much more than its share a process keeps, so that mints do not wander to and fro as their number
 * changes: each that moves has its socket closed and opened again.
 */
const TOLERANCE = 1.25;

/** Mints that are given up in one go, so that they move over gently. */
const MAX_RELEASED_AT_ONCE = 10;

/** What a process is to do about its leases. */
export interface LeasePlan {
  /** Mints to take, where no other process is quicker. */
  claim: string[];
  /** Mints to give up, for a process that has fewer. */
  release: string[];
}

/**
 * Shares the mints evenly among the processes that are alive.
 *
 * @param watched every mint with watched quotes, and who has it
 * @param me this process
 * @param processes how many are alive, this one included
 * @param freeSinceMs since when each free mint was seen free, in milliseconds of the same clock as `nowMs`
 */
export function planLeases(
  watched: readonly Pick<WatchedMint, 'mintUrl' | 'owner'>[],
  me: string,
  processes: number,
  freeSinceMs: ReadonlyMap<string, number>,
  nowMs: number,
): LeasePlan {
  const share = Math.ceil(watched.length / Math.max(1, processes));
  const mine = watched.filter(({ owner }) => owner === me).map(({ mintUrl }) => mintUrl);
  const free = watched.filter(({ owner }) => owner === null).map(({ mintUrl }) => mintUrl);

  const room = Math.max(0, share - mine.length);
  const orphaned = free
    .slice(room)
    .filter((mintUrl) => nowMs - (freeSinceMs.get(mintUrl) ?? nowMs) >= ORPHANED_AFTER_MS);
  const isTooMany = mine.length > Math.ceil(share * TOLERANCE);
  const surplus = isTooMany ? Math.min(mine.length - share, MAX_RELEASED_AT_ONCE) : 0;
  return {
    claim: [...free.slice(0, room), ...orphaned],
    release: surplus === 0 ? [] : mine.slice(-surplus),
  };
}
