import type { WatchedMint } from '../quotes/watched-quote-store.ts';

/** A process releases mints only if it has this many times its share, because each new owner reopens a WebSocket. */
const SHARE_TOLERANCE_FACTOR = 1.25;
/** Limited, so that not all new owners open their WebSockets at the same moment. */
const MAX_RELEASES_PER_SCAN = 10;

/**
 * Plans which free mints this process should claim and which of its mints it should release, so that all processes watch
 * about the same number of mints. Also returns the mints that are now `mine`, and those of other processes.
 */
export function planLeases(
  watched: readonly WatchedMint[],
  processId: string,
  processCount: number,
): { mine: string[]; elsewhere: string[]; toClaim: string[]; toRelease: string[] } {
  const share = Math.ceil(watched.length / Math.max(1, processCount));
  const listOwned = (isOwner: (processId: string | null) => boolean) =>
    watched.filter((mint) => isOwner(mint.ownerProcessId)).map(({ mintUrl }) => mintUrl);
  const mine = listOwned((owner) => owner === processId);
  const free = listOwned((owner) => owner === null);
  const isOverShare = mine.length > Math.ceil(share * SHARE_TOLERANCE_FACTOR);
  const releaseCount = isOverShare ? Math.min(mine.length - share, MAX_RELEASES_PER_SCAN) : 0;
  return {
    mine,
    elsewhere: listOwned((owner) => owner !== null && owner !== processId),
    toClaim: free.slice(0, Math.max(0, share - mine.length)),
    toRelease: mine.slice(mine.length - releaseCount),
  };
}
