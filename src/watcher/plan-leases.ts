import type { WatchedMint } from '../quotes/watched-quote-store.ts';

/** A process releases mints only if it has this many times its share, because each new owner reopens a WebSocket. */
const SHARE_TOLERANCE_FACTOR = 1.25;
/** Limited, so that not all new owners open their WebSockets at the same moment. */
const MAX_RELEASES_PER_SCAN = 10;

/**
 * Plans which free mints this process claims and which of its mints it releases, so that all processes watch about
 * the same number of mints. Also returns its own mints and those of others.
 */
export function planLeases(
  watched: readonly WatchedMint[],
  processId: string,
  processCount: number,
): { mine: string[]; elsewhere: string[]; claim: string[]; release: string[] } {
  const share = Math.ceil(watched.length / Math.max(1, processCount));
  const list = (isIncluded: (owner: string | null) => boolean) =>
    watched
      .filter(({ ownerProcessId }) => isIncluded(ownerProcessId))
      .map(({ mintUrl }) => mintUrl);
  const mine = list((owner) => owner === processId);
  const free = list((owner) => owner === null);
  const isOverShare = mine.length > Math.ceil(share * SHARE_TOLERANCE_FACTOR);
  const releaseCount = isOverShare ? Math.min(mine.length - share, MAX_RELEASES_PER_SCAN) : 0;
  return {
    mine,
    elsewhere: list((owner) => owner !== null && owner !== processId),
    claim: free.slice(0, Math.max(0, share - mine.length)),
    release: mine.slice(mine.length - releaseCount),
  };
}
