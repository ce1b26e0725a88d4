import type { WatchedMint } from '../quotes/watched-quote-store.ts';

/** After this time without an owner, any process claims a mint, even beyond its share. */
const ORPHAN_TIMEOUT_MS = 5_000;
/** A process releases mints only if it has this many times its share, because each new owner reopens a WebSocket. */
const SHARE_TOLERANCE_FACTOR = 1.25;
/** Limited, so that not all new owners open their WebSockets at the same moment. */
const MAX_RELEASES_PER_SCAN = 10;

/**
 * Plans which free mints this process claims and which of its mints it releases, so that all processes watch about
 * the same number of mints.
 *
 * @param freeSinceMs when each free mint was first seen without an owner, by the clock of `nowMs`
 */
export function planLeases(
  watched: readonly Pick<WatchedMint, 'mintUrl' | 'ownerProcessId'>[],
  processId: string,
  processCount: number,
  freeSinceMs: ReadonlyMap<string, number>,
  nowMs: number,
): { claim: string[]; release: string[] } {
  const share = Math.ceil(watched.length / Math.max(1, processCount));
  const listOwnedBy = (owner: string | null) =>
    watched.filter(({ ownerProcessId }) => ownerProcessId === owner).map(({ mintUrl }) => mintUrl);
  const mine = listOwnedBy(processId);
  const free = listOwnedBy(null);

  const unfilledShare = Math.max(0, share - mine.length);
  const orphaned = free
    .slice(unfilledShare)
    .filter((mintUrl) => nowMs - (freeSinceMs.get(mintUrl) ?? nowMs) >= ORPHAN_TIMEOUT_MS);
  const isOverShare = mine.length > Math.ceil(share * SHARE_TOLERANCE_FACTOR);
  const releaseCount = isOverShare ? Math.min(mine.length - share, MAX_RELEASES_PER_SCAN) : 0;
  return {
    claim: [...free.slice(0, unfilledShare), ...orphaned],
    release: mine.slice(mine.length - releaseCount),
  };
}
