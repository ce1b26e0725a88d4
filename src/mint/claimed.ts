import { type Ceiling, HIGHEST_CEILING } from './learnt-limit.ts';
import { MinuteLog } from './minute-log.ts';
import type { RouteUse } from './route-budget.ts';

/** A ceiling that is known, and how far it is used by all. */
export type KnownUse = RouteUse & { readonly ceiling: Ceiling };

/** What one claimant had of one mint. All times in milliseconds since 1970. */
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

  /** Where the clock was set back, nothing was had later than now. */
  noticeSetBack(now: number): void {
    this.#minute.noticeSetBack(now);
  }

  /** How much of what it had until now is in the minute up to a time, now or later. */
  inMinute(time: number): number {
    return this.#minute.count(time);
  }

  /** How much it had in the run of an elastic ceiling, or in the minute up to a time. */
  inWindow({ ceiling, run }: KnownUse, time: number): number {
    if (ceiling.window === 'elastic') {
      return this.#run === run ? this.#inRun : 0;
    }
    return this.inMinute(time);
  }
}

/** What a {@link Claimed} tells. */
export type ClaimedUntilNow = Pick<Claimed, 'noticeSetBack' | 'inMinute' | 'inWindow'>;

/** Who had nothing yet. */
export const NOTHING_CLAIMED: ClaimedUntilNow = {
  noticeSetBack: () => {},
  inMinute: () => 0,
  inWindow: () => 0,
};
