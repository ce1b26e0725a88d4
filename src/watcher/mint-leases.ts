import type { WatchedMint } from '../store/quote-watch-store.ts';
import type { Store } from '../store/store.ts';
import { planLeases } from './lease-plan.ts';

/** How often a process says that it is alive: several times before others take it for dead. */
export const LEASE_RENEWAL_MS = 3_000;

/** How the mints are shared, as this process sees it. */
interface LeaseShare {
  /** The mints that it watches now. */
  mine: Set<string>;
  /** The mints that other processes watch. */
  elsewhere: Set<string>;
  /** Mints that it is to give up: {@link MintLeases.release} once they are let go of. */
  release: string[];
}

/** This process's part of the mints: each is watched by one process at a time. */
export class MintLeases {
  readonly #leases: Store['leases'];
  readonly #processId: string;
  readonly #monotonicMs: () => number;
  #processes = 1;
  #freeSinceMs = new Map<string, number>();

  /**
   * @param parts.processId of this process, unlike any other's at any time
   * @param parts.monotonicMs a clock that never jumps
   */
  constructor(parts: { leases: Store['leases']; processId: string; monotonicMs: () => number }) {
    this.#leases = parts.leases;
    this.#processId = parts.processId;
    this.#monotonicMs = parts.monotonicMs;
  }

  /**
   * Says that this process is alive.
   *
   * @returns false where the others had to take it for dead: all its mints are free, or theirs
   */
  async renew(): Promise<boolean> {
    const wasAlive = await this.#leases.keepAlive(this.#processId);
    this.#processes = await this.#leases.countProcesses();
    return wasAlive;
  }

  /** Takes this process's share of what is watched. */
  async share(watched: readonly WatchedMint[]): Promise<LeaseShare> {
    const nowMs = this.#monotonicMs();
    // Mints are free where a process has left: the share of those that stay is greater now.
    if (watched.some(({ owner }) => owner === null)) {
      this.#processes = await this.#leases.countProcesses();
    }
    this.#freeSinceMs = new Map(
      watched
        .filter(({ owner }) => owner === null)
        .map(({ mintUrl }) => [mintUrl, this.#freeSinceMs.get(mintUrl) ?? nowMs]),
    );
    const { claim, release } = planLeases(
      watched,
      this.#processId,
      this.#processes,
      this.#freeSinceMs,
      nowMs,
    );
    const claimed = claim.length === 0 ? [] : await this.#leases.claim(this.#processId, claim);
    const kept = watched.filter(({ owner }) => owner === this.#processId);
    const others = watched.filter(({ owner }) => owner !== null && owner !== this.#processId);
    return {
      mine: new Set([...kept.map(({ mintUrl }) => mintUrl), ...claimed]),
      elsewhere: new Set(others.map(({ mintUrl }) => mintUrl)),
      release,
    };
  }

  /** Takes a mint that no process watches, as when its first quote was just issued. */
  async claim(mintUrl: string): Promise<boolean> {
    return (await this.#leases.claim(this.#processId, [mintUrl])).length > 0;
  }

  /** Gives up a mint that this process has stopped to watch. */
  async release(mintUrl: string): Promise<void> {
    await this.#leases.release(this.#processId, mintUrl);
  }

  /** Takes leave: every mint of this process is free at once. */
  async leave(): Promise<void> {
    await this.#leases.leave(this.#processId);
  }
}
