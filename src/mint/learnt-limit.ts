import { z } from 'zod';

/** Mints state their limits by the minute. */
export const WINDOW_MS = 60_000;

/**
 * After a 429 without `Retry-After`. Nutshell's minute is elastic: every request starts it anew, so
 * the route must be left quite alone for more than 60 s.
 */
const RATE_LIMIT_REST_MS = 65_000;

/** After a 429 whose `Retry-After` is none at all, such as 0 or a date that is over. */
const SHORTEST_REST_MS = 2_000;

/** As long as a `Retry-After` may be (`retry-after.ts`): a longer one that was stored is garbage. */
const LONGEST_REST_MS = 60 * 60_000;

/** The rest of a limit is for others who ask from our address, and for requests that came late. */
const SHARE_OF_LIMIT = 0.8;

/**
 * Half of the strictest limit that is known, Nutshell's 20. A mint that sends us away sooner has
 * other reasons than how much we ask, and the rest after a 429 is answer enough.
 */
const LOWEST_CEILING = 10;

/**
 * 20 a second: whoever allows more sets no limit that matters here. It bounds how many requests are
 * remembered.
 */
export const HIGHEST_CEILING = 1_200;

/** By how much a ceiling is raised to see whether the mint bears more. */
const PROBE_FACTOR = 1.25;

/** Without a refusal for so long, a ceiling is tried again. */
const FIRST_PROBE_AFTER_MS = 60 * 60_000;

/** Each refused probe doubles the time to the next one, up to this. */
const LONGEST_PROBE_AFTER_MS = 24 * 60 * 60_000;

/** What 429s taught of one route of a mint. Serialisable; times in milliseconds since 1970. */
export interface LearntLimit {
  /**
   * `sliding`: no more than the ceiling in any 60 s. `elastic`: no more than the ceiling until the
   * route was left alone for a minute (Nutshell: every request, admitted or not, starts it anew).
   */
  window: 'sliding' | 'elastic';
  ceilingPerWindow: number;
  /** The last refusal, or when the ceiling was raised since. */
  learntAt: number;
  /** Whether the ceiling was raised since the last refusal, to see whether the mint bears it. */
  isProbe: boolean;
  probeAfterMs: number;
  restUntil: number;
  /** How long that rest was meant to be. */
  restMs: number;
}

/** {@link LearntLimit} as it may come back from a place where it was stored. */
export const learntLimitSchema = z.object({
  window: z.enum(['sliding', 'elastic']),
  ceilingPerWindow: z.int().min(LOWEST_CEILING).max(HIGHEST_CEILING),
  learntAt: z.number().nonnegative(),
  isProbe: z.boolean(),
  probeAfterMs: z.number().min(FIRST_PROBE_AFTER_MS).max(LONGEST_PROBE_AFTER_MS),
  restUntil: z.number().nonnegative(),
  restMs: z.number().nonnegative().max(LONGEST_REST_MS),
});

/** A 429, and what had been sent before. */
export interface Refusal {
  /** Requests sent in the 60 s up to the refused one, itself included. */
  inMinute: number;
  /** Requests sent since the route was last left alone for a minute, the refused one included. */
  inRun: number;
  /** Of the runs that the mint bore before, the longest. */
  longestRun: number;
  /** What the mint said; null where it said nothing. */
  retryAfterMs: number | null;
}

/**
 * What is known of a route after a refusal.
 *
 * @param limit what was known before
 */
export function afterRefusal(
  limit: LearntLimit | null,
  refusal: Refusal,
  now: number,
): LearntLimit {
  const restMs = Math.min(
    Math.max(refusal.retryAfterMs ?? RATE_LIMIT_REST_MS, SHORTEST_REST_MS),
    LONGEST_REST_MS,
  );
  const window = windowAfter(limit, refusal);
  return {
    window,
    ceilingPerWindow: ceilingAfter(limit, window, refusal),
    learntAt: now,
    isProbe: false,
    probeAfterMs: probeAfter(limit),
    restUntil: now + restMs,
    restMs,
  };
}

/** The limit with its ceiling raised, where the time to try that has come; else as it is. */
export function probed(limit: LearntLimit, now: number): LearntLimit {
  if (now < limit.learntAt + limit.probeAfterMs) {
    return limit;
  }
  const raised = Math.ceil(limit.ceilingPerWindow * PROBE_FACTOR);
  const ceilingPerWindow = Math.min(raised, HIGHEST_CEILING);
  return { ...limit, ceilingPerWindow, learntAt: now, isProbe: true };
}

/** The limit where the clock was set back: a rest begins anew and is not stretched. */
export function notAhead(limit: LearntLimit, now: number): LearntLimit {
  return {
    ...limit,
    learntAt: Math.min(limit.learntAt, now),
    restUntil: Math.min(limit.restUntil, now + limit.restMs),
  };
}

/** Both taken together, so that neither is broken. */
export function stricterOf(one: LearntLimit, other: LearntLimit): LearntLimit {
  const lower = one.ceilingPerWindow <= other.ceilingPerWindow ? one : other;
  const { restUntil, restMs } = one.restUntil >= other.restUntil ? one : other;
  return {
    ...lower,
    window: one.window === other.window ? one.window : 'elastic',
    learntAt: Math.max(one.learntAt, other.learntAt),
    probeAfterMs: Math.max(one.probeAfterMs, other.probeAfterMs),
    restUntil,
    restMs,
  };
}

/**
 * Which kind of window explains the refusal. A mint that bore many more requests without a quiet
 * minute does not count until one, nor does one that says itself when to come back. Where requests
 * older than a minute were there to be counted, they probably were, for Nutshell counts them. But
 * not where a higher ceiling was just tried: that explains the refusal as well.
 */
function windowAfter(limit: LearntLimit | null, refusal: Refusal): LearntLimit['window'] {
  const { inMinute, inRun, longestRun, retryAfterMs } = refusal;
  if (retryAfterMs !== null || longestRun >= 2 * inRun) {
    return 'sliding';
  }
  const isSlidingProbe = limit?.window === 'sliding' && limit.isProbe;
  return inRun > inMinute && !isSlidingProbe ? 'elastic' : (limit?.window ?? 'sliding');
}

/**
 * A share of what was sent until the refusal. One refusal at most halves what was believed: the mint
 * may have counted requests that we know nothing of, as of a process that ran before.
 */
function ceilingAfter(
  limit: LearntLimit | null,
  window: LearntLimit['window'],
  { inMinute, inRun }: Refusal,
): number {
  const known = limit?.window === window ? limit.ceilingPerWindow : null;
  const counted = window === 'elastic' ? inRun : inMinute;
  const lowest = Math.max(Math.floor((known ?? 0) / 2), LOWEST_CEILING);
  const ceiling = Math.max(Math.floor(counted * SHARE_OF_LIMIT), lowest);
  return Math.min(ceiling, known ?? HIGHEST_CEILING);
}

function probeAfter(limit: LearntLimit | null): number {
  if (limit === null) {
    return FIRST_PROBE_AFTER_MS;
  }
  return limit.isProbe
    ? Math.min(limit.probeAfterMs * 2, LONGEST_PROBE_AFTER_MS)
    : limit.probeAfterMs;
}
