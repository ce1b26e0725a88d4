import { RecentlyUsed } from '../domain/recently-used.ts';
import { HIGHEST_CEILING, WINDOW_MS } from './learnt-limit.ts';
import type { RequestOutcome, RouteUse } from './route-budget.ts';

/**
 * At a mint whose limit is not known, a recipient may have so many times what the mint bore in a
 * minute: whoever becomes popular waits for a few minutes, and not for good.
 */
const GROWTH_FACTOR = 2;

/**
 * After a refusal that taught no ceiling, a recipient may have half of what led to it at most: with
 * {@link GROWTH_FACTOR}, a quarter is remembered.
 */
const BORNE_SHARE_OF_REFUSED = 1 / (2 * GROWTH_FACTOR);

/** After such a refusal nothing grows for so long, as a ceiling is not tried again (`learnt-limit.ts`). */
const NO_GROWTH_MS = 60 * 60_000;

/** A quarter of all that may be under way to one mint (128, `net/guarded-fetch.ts`). */
const MOST_UNDER_WAY = 32;

/** Requests that a mint works on at a time: our connections to it (`net/guarded-fetch.ts`). */
const WORKED_ON_AT_A_TIME = 8;

/** What one recipient has under way to a mint may take so long with half of the connections. */
const PATIENCE_MS = 5_000;

/** The weight of the newest in the time that a mint takes to answer. */
const NEWEST_WEIGHT = 1 / 4;

/**
 * Recipients at mints that are counted. Strangers can name any number, but each one that is counted
 * costs an invoice; whoever was asked for the longest ago is forgotten first, and that is no flood.
 */
const MAX_SHARES = 50_000;

/** As many mints as there are budgets of (`request-budget.ts`). */
const MAX_MINTS = 5_000;

/** What one recipient asked of one mint. */
interface Share {
  /** When, in the minute before the last one; no more than a ceiling can be. */
  times: number[];
  /** The last run of the mint's route that it was part of, and how often. */
  run: number;
  inRun: number;
  underWay: number;
}

/** What one mint bears, whoever asks. */
interface Bearing {
  minuteFrom: number;
  servedInMinute: number;
  /** The most invoices in a whole minute without a refusal; less after one. */
  borne: number;
  growsAgainAt: number;
  /** How long it takes to answer; what counts is how long a payer waits. */
  answerMs: number;
}

/** A request that {@link RecipientShares.sent} counted. */
interface SharedRequest {
  readonly mintUrl: string;
  readonly share: Share;
  readonly sentAt: number;
}

/**
 * How often a mint is asked for invoices of one recipient, so that a flood for one leaves the mint to
 * the others. Pure: `now` is milliseconds since 1970.
 *
 * - Where the mint's ceiling is known, a recipient may have another invoice while what it had in the
 *   ceiling's window is less than what is left of the ceiling: one recipient gets half at most, two
 *   get a third each, and whoever had none finds room while there is any.
 * - Where none is known, a recipient has a number a minute, and more of what the mint was seen to
 *   bear.
 * - A recipient has no more under way than the mint answers in some seconds with half of our
 *   connections: where answers are slow, others still find a free one.
 *
 * Each process counts for itself: several together ask a mint for as many times more. The ceiling is
 * passed on to the process that watches the mint.
 *
 * Whoever asks looks at {@link waitMs}, tells {@link sent}, and then {@link record} or
 * {@link withdraw}.
 */
export class RecipientShares {
  readonly #perMinute: number;
  readonly #shares = new RecentlyUsed<Share>(MAX_SHARES, newShare);
  readonly #bearings = new RecentlyUsed<Bearing>(MAX_MINTS, newBearing);

  /**
   * @param perMinute invoices of one recipient at a mint whose limit is not known; 0: as many as are
   *   asked for, also at a time. A ceiling that is known is shared all the same: the mint keeps it
   */
  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /**
   * Milliseconds until a recipient may have another invoice, if nobody else asks for one; 0 is now.
   *
   * @param recipient any text that names it
   * @param use how far the mint's route is used by all
   */
  waitMs(mintUrl: string, recipient: string, use: RouteUse, now: number): number {
    const share = this.#shareOf(mintUrl, recipient, now);
    const waitMs = Math.max(
      use.ceiling === null
        ? this.#waitOfUnknown(mintUrl, share, now)
        : waitOfCeiling(share, use.ceiling, use, now),
      this.#waitOfUnderWay(mintUrl, share),
    );
    return Math.max(0, Math.ceil(waitMs));
  }

  /** Counts a request that is sent to the mint now. */
  sent(mintUrl: string, recipient: string, { run }: RouteUse, now: number): SharedRequest {
    const share = this.#shareOf(mintUrl, recipient, now);
    share.times.push(now);
    while (share.times.length > HIGHEST_CEILING || (share.times[0] ?? now) <= now - WINDOW_MS) {
      share.times.shift();
    }
    share.inRun = share.run === run ? Math.min(share.inRun + 1, HIGHEST_CEILING) : 1;
    share.run = run;
    share.underWay += 1;
    return { mintUrl, share, sentAt: now };
  }

  /** Takes back a request that was counted, and that the mint never got. */
  withdraw({ share, sentAt }: SharedRequest): void {
    share.underWay -= 1;
    share.inRun = Math.max(0, share.inRun - 1);
    const index = share.times.lastIndexOf(sentAt);
    if (index >= 0) {
      share.times.splice(index, 1);
    }
  }

  /** Tells what came of a request. */
  record(
    { mintUrl, share, sentAt }: SharedRequest,
    { outcome }: RequestOutcome,
    now: number,
  ): void {
    share.underWay -= 1;
    const bearing = this.#bearings.use(mintUrl);
    bearing.answerMs += (Math.max(0, now - sentAt) - bearing.answerMs) * NEWEST_WEIGHT;
    noticeMinute(bearing, now);
    if (outcome === 'rate_limited') {
      const refusedAt = Math.floor(bearing.servedInMinute * BORNE_SHARE_OF_REFUSED);
      bearing.borne = Math.min(bearing.borne, refusedAt);
      bearing.growsAgainAt = now + NO_GROWTH_MS;
    } else if (outcome === 'created') {
      bearing.servedInMinute += 1;
    }
  }

  #shareOf(mintUrl: string, recipient: string, now: number): Share {
    const share = this.#shares.use(`${recipient} ${mintUrl}`);
    if ((share.times.at(-1) ?? 0) > now) {
      // The clock was set back.
      share.times = share.times.map((time) => Math.min(time, now));
    }
    return share;
  }

  #waitOfUnknown(mintUrl: string, share: Share, now: number): number {
    if (this.#perMinute === 0) {
      return 0;
    }
    const bearing = this.#bearings.use(mintUrl);
    noticeMinute(bearing, now);
    const allowed = Math.max(this.#perMinute, bearing.borne * GROWTH_FACTOR);
    const first = share.times.at(-allowed);
    return first === undefined ? 0 : first + WINDOW_MS - now;
  }

  #waitOfUnderWay(mintUrl: string, share: Share): number {
    if (this.#perMinute === 0) {
      return 0;
    }
    const { answerMs } = this.#bearings.use(mintUrl);
    const answeredSoon = (WORKED_ON_AT_A_TIME / 2) * (PATIENCE_MS / answerMs);
    const allowed = Math.max(1, Math.min(Math.floor(answeredSoon), MOST_UNDER_WAY));
    return share.underWay < allowed ? 0 : Math.max(answerMs, 1);
  }
}

function waitOfCeiling(
  share: Share,
  { window, perWindow }: NonNullable<RouteUse['ceiling']>,
  { used, run, runEndsAt }: RouteUse,
  now: number,
): number {
  const inMinute = share.times.filter((time) => time > now - WINDOW_MS);
  const inRun = share.run === run ? share.inRun : 0;
  const ownUse = window === 'elastic' ? inRun : inMinute.length;
  // Whoever had none is refused by the mint's budget alone, where nothing is left.
  if (ownUse === 0 || ownUse < perWindow - used) {
    return 0;
  }
  return (window === 'elastic' ? runEndsAt : (inMinute[0] ?? now) + WINDOW_MS) - now;
}

function noticeMinute(bearing: Bearing, now: number): void {
  const passedMs = now - bearing.minuteFrom;
  if (passedMs >= 0 && passedMs < WINDOW_MS) {
    return;
  }
  // Where the clock was set back, nobody knows how long that minute was.
  if (passedMs >= WINDOW_MS && now >= bearing.growsAgainAt) {
    bearing.borne = Math.max(bearing.borne, bearing.servedInMinute);
  }
  bearing.growsAgainAt = Math.min(bearing.growsAgainAt, now + NO_GROWTH_MS);
  bearing.minuteFrom = now;
  bearing.servedInMinute = 0;
}

function newShare(): Share {
  return { times: [], run: 0, inRun: 0, underWay: 0 };
}

function newBearing(): Bearing {
  return { minuteFrom: 0, servedInMinute: 0, borne: 0, growsAgainAt: 0, answerMs: 0 };
}
