import { type Ceiling, HIGHEST_CEILING } from './learnt-limit.ts';
import { MinuteLog } from './minute-log.ts';

/**
 * What ends an elastic window: more than the minute, for clocks that run unevenly. It is counted
 * from the mint's last answer, so that time on the way does not shorten it.
 */
const QUIET_MS = 61_000;

/** How a request stands among those before it; nothing is counted beyond the highest ceiling. */
export interface Position {
  /** Requests sent in the 60 s up to this one, itself included. */
  readonly inMinute: number;
  /** Requests sent since the route was last left alone for a minute, this one included: a run. */
  readonly inRun: number;
}

/** What was sent on one route of a mint, as far as limits ask for it. Milliseconds since 1970. */
export class SendLog {
  #minute = new MinuteLog();
  #runLength = 0;
  /** How many runs there were. */
  #run = 0;
  /** The last request or answer. */
  #touchedAt = 0;

  /** When the last request was sent; null before the first. */
  get lastSentAt(): number | null {
    return this.#minute.last;
  }

  /** Counts a request. */
  add(now: number): Position {
    this.#minute.add(now);
    if (this.#isQuiet(now)) {
      this.#run += 1;
      this.#runLength = 0;
    }
    this.#runLength = Math.min(this.#runLength + 1, HIGHEST_CEILING);
    this.#touchedAt = now;
    return { inMinute: this.#minute.count(now), inRun: this.#runLength };
  }

  /** Takes back a request that the mint never got. */
  remove(sentAt: number): void {
    this.#minute.remove(sentAt);
    this.#runLength = Math.max(0, this.#runLength - 1);
  }

  /** Notes that the mint answered. */
  touch(now: number): void {
    this.#touchedAt = now;
  }

  /** Counts requests of somebody else, of whom nothing more is known. */
  assume(requests: number, now: number): void {
    this.#minute = new MinuteLog();
    this.#minute.add(now, requests);
    this.#runLength = requests;
    this.#touchedAt = now;
  }

  /** When the next request stays within a ceiling. */
  opensAt({ window, perWindow }: Ceiling): number {
    if (window === 'elastic') {
      return this.#runLength < perWindow ? 0 : this.#touchedAt + QUIET_MS;
    }
    return this.#minute.opensAt(perWindow);
  }

  /** How many requests count against a ceiling at a time, if none is sent until then. */
  used({ window }: Ceiling, time: number): number {
    if (window === 'elastic') {
      return this.#isQuiet(time) ? 0 : this.#runLength;
    }
    return this.#minute.count(time);
  }

  /** The run that a request sent now is part of, by its number, and when it ends if none is sent. */
  runAt(now: number): { run: number; endsAt: number } {
    const endsAt = this.#touchedAt + QUIET_MS;
    return this.#isQuiet(now)
      ? { run: this.#run + 1, endsAt: now + QUIET_MS }
      : { run: this.#run, endsAt };
  }

  /** Where the clock was set back, nothing was sent later than now. */
  noticeSetBack(now: number): void {
    this.#minute.noticeSetBack(now);
    this.#touchedAt = Math.min(this.#touchedAt, now);
  }

  #isQuiet(time: number): boolean {
    return time - this.#touchedAt >= QUIET_MS;
  }
}
