import type { WatchedMint } from '../store/quote-watch-store.ts';
import type { Store } from '../store/store.ts';
import { planLeases } from './lease-plan.ts';

/** How often a process renews its lease: several times before it expires. */
export const LEASE_RENEWAL_MS = 3_000;

/** Which process watches which mints. */
interface LeaseShare {
  /** The mints of this process. */
  mine: Set<string>;
  /** The mints that other processes watch. */
  elsewhere: Set<string>;
  /** Mints that this process must stop watching and then {@link MintLeases.release}. */
  release: string[];
}

interface MintLeasesParts {
  leases: Store['leases'];
  /** Unique among all processes, also earlier ones. */
  processId: string;
  monotonicMs: () => number;
}

/** The leases of this process. Each mint is watched by one process at a time. */
export class MintLeases {
  readonly #parts: MintLeasesParts;
  #processes = 1;
  #freeSinceMs = new Map<string, number>();

  constructor(parts: MintLeasesParts) {
    this.#parts = parts;
  }

  /**
   * Renews the lease of this process.
   *
   * @returns false if it had expired: other processes may watch its mints now
   */
  async renew(): Promise<boolean> {
    const wasAlive = await this.#parts.leases.keepAlive(this.#parts.processId);
    this.#processes = await this.#parts.leases.countProcesses();
    return wasAlive;
  }

  /** Claims this process's share of the watched mints. */
  async share(watched: readonly WatchedMint[]): Promise<LeaseShare> {
    const nowMs = this.#parts.monotonicMs();
    // Free mints mean that a process may have left, which increases the share of the others.
    if (watched.some(({ owner }) => owner === null)) {
      this.#processes = await this.#parts.leases.countProcesses();
    }
    this.#freeSinceMs = new Map(
      watched
        .filter(({ owner }) => owner === null)
        .map(({ mintUrl }) => [mintUrl, this.#freeSinceMs.get(mintUrl) ?? nowMs]),
    );
    const { claim, release } = planLeases(
      watched,
      this.#parts.processId,
      this.#processes,
      this.#freeSinceMs,
      nowMs,
    );
    const claimed =
      claim.length === 0 ? [] : await this.#parts.leases.claim(this.#parts.processId, claim);
    const kept = watched.filter(({ owner }) => owner === this.#parts.processId);
    const others = watched.filter(({ owner }) => owner !== null && owner !== this.#parts.processId);
    return {
      mine: new Set([...kept.map(({ mintUrl }) => mintUrl), ...claimed]),
      elsewhere: new Set(others.map(({ mintUrl }) => mintUrl)),
      release,
    };
  }

  /** Claims a mint that no process watches, for example when its first quote was just issued. */
  async claim(mintUrl: string): Promise<boolean> {
    return (await this.#parts.leases.claim(this.#parts.processId, [mintUrl])).length > 0;
  }

  /** Releases a mint that this process no longer watches. */
  async release(mintUrl: string): Promise<void> {
    await this.#parts.leases.release(this.#parts.processId, mintUrl);
  }

  /** Releases all mints of this process. */
  async leave(): Promise<void> {
    await this.#parts.leases.leave(this.#parts.processId);
  }
}
