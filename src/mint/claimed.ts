import { type Ceiling, HIGHEST_CEILING } from './learnt-limit.ts';
import { MinuteLog } from './minute-log.ts';
import type { RouteUse } from './route-budget.ts';

/** A ceiling that is known, and how far it is used by all. */
export type KnownUse = RouteUse & { readonly ceiling: Ceiling };

/**
 * What one claimant had of one mint. Where the clock was set back, nothing was had later than now.
 * All times in milliseconds since 1970.
 */
export class Claimed {
  readonly #minute = new MinuteLog();
  /** The last run of the mint's route that it was part of, and how often. */
  #run = 0;
  #inRun = 0;

  add({ run }: RouteUse, now: number): void {
    this.#minute.add(now);
    this.#inRun = this.#run === run ? Math.min(this.#inRun + 1, HIGHEST_CEILING) : 1;
    this.#run = run;
  }

  /** Takes back what the mint never heard of. */
  remove(addedAt: number): void {
    this.#minute.remove(addedAt);
    this.#inRun = Math.max(0, this.#inRun - 1);
  }

  /** How much it had in the last minute. */
  inMinute(now: number): number {
    this.#minute.noticeSetBack(now);
    return this.#minute.count(now);
  }

  /** How much it had in the ceiling's window. */
  inWindow({ ceiling, run }: KnownUse, now: number): number {
    if (ceiling.window === 'elastic') {
      return this.#run === run ? this.#inRun : 0;
    }
    return this.inMinute(now);
  }

  /** When it may have more than so many in a minute, at least 1; 0 where that is now. */
  opensAt(perMinute: number, now: number): number {
    this.#minute.noticeSetBack(now);
    return this.#minute.opensAt(perMinute);
  }

  /**
   * When it may have more of a ceiling, if nobody else asks; 0 is now. Whoever had none is refused by
   * the mint's budget alone, where nothing is left.
   *
   * @param left less than so much it must have had
   */
  opensWithin(left: number, use: KnownUse, now: number): number {
    const own = this.inWindow(use, now);
    if (own === 0 || own < left) {
      return 0;
    }
    return use.ceiling.window === 'elastic' ? use.runEndsAt : this.#minute.firstIsOverAt(now);
  }
}

/** Who had nothing yet. */
export const NOTHING_CLAIMED: Pick<Claimed, 'inMinute' | 'inWindow' | 'opensAt' | 'opensWithin'> = {
  inMinute: () => 0,
  inWindow: () => 0,
  opensAt: () => 0,
  opensWithin: () => 0,
};
