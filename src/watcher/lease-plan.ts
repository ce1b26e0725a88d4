import type { WatchedMint } from '../quotes/quote-watch-store.ts';

/** Any process takes a mint that has been free for this time, even beyond its share. */
const ORPHANED_AFTER_MS = 5_000;

/**
 * A process keeps up to this many times its share. Otherwise mints would move whenever their number
 * changes, and each move closes and reopens a WebSocket.
 */
const TOLERANCE = 1.25;

/** Mints that are released in one scan, so that they do not all reconnect at the same moment. */
const MAX_RELEASED_AT_ONCE = 10;

export interface LeasePlan {
  /** Free mints. Another process may claim them first. */
  claim: string[];
  /** Mints for processes that have fewer. */
  release: string[];
}

/**
 * Shares the mints evenly among the running processes.
 *
 * @param watched every mint with watched quotes, and its owner
 * @param me this process
 * @param processes the number of running processes, including this one
 * @param freeSinceMs when each free mint was first seen to be free, on the same clock as `nowMs`
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
