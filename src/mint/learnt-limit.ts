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
  /** Null where the mint always said itself when to come back. */
  ceiling: Ceiling | null;
  restUntil: number;
  /** How long that rest was meant to be. */
  restMs: number;
}

/** What a mint seems to allow that refuses without a word on when to come back. */
export interface Ceiling {
  /**
   * `sliding`: no more than the ceiling in any 60 s. `elastic`: no more than the ceiling until the
   * route was left alone for a minute (Nutshell: every request, admitted or not, starts it anew).
   */
  window: 'sliding' | 'elastic';
  perWindow: number;
  /** The last refusal that taught it, or when it was raised since. */
  learntAt: number;
  /** Whether it was raised since that refusal, to see whether the mint bears it. */
  isProbe: boolean;
  probeAfterMs: number;
}

/** {@link LearntLimit} as it may come back from a place where it was stored. */
export const learntLimitSchema = z.object({
  ceiling: z
    .object({
      window: z.enum(['sliding', 'elastic']),
      perWindow: z.int().min(LOWEST_CEILING).max(HIGHEST_CEILING),
      learntAt: z.number().nonnegative(),
      isProbe: z.boolean(),
      probeAfterMs: z.number().min(FIRST_PROBE_AFTER_MS).max(LONGEST_PROBE_AFTER_MS),
    })
    .nullable(),
  restUntil: z.number().nonnegative(),
  restMs: z.number().nonnegative().max(LONGEST_REST_MS),
});

/** A 429 without `Retry-After`, and what had been sent before. */
export interface Refusal {
  /** Requests sent in the 60 s up to the refused one, itself included. */
  inMinute: number;
  /** Requests sent since the route was last left alone for a minute, the refused one included. */
  inRun: number;
  /** Of the runs that the mint bore before, the longest. */
  longestRun: number;
}

/**
 * The limit with the rest that follows a 429. An earlier one that is longer stands.
 *
 * @param limit what was known before
 * @param retryAfterMs what the mint said; null where it said nothing
 */
export function rested(
  limit: LearntLimit | null,
  retryAfterMs: number | null,
  now: number,
): LearntLimit {
  const askedMs = Math.max(retryAfterMs ?? RATE_LIMIT_REST_MS, SHORTEST_REST_MS);
  const restUntil = Math.max(limit?.restUntil ?? 0, now + Math.min(askedMs, LONGEST_REST_MS));
  return { ceiling: limit?.ceiling ?? null, restUntil, restMs: restUntil - now };
}

/**
 * The ceiling that a refusal teaches. One with `Retry-After` teaches none: the mint says itself how
 * long to stay away, and may do so for other reasons than how much we ask.
 *
 * @param known what was believed before
 */
export function ceilingAfter(known: Ceiling | null, refusal: Refusal, now: number): Ceiling {
  const window = windowAfter(known, refusal);
  return {
    window,
    perWindow: perWindowAfter(known, window, refusal),
    learntAt: now,
    isProbe: false,
    probeAfterMs: probeAfter(known),
  };
}

/** The ceiling, raised where the time to try that has come; else as it is. */
export function probed(ceiling: Ceiling, now: number): Ceiling {
  if (now < ceiling.learntAt + ceiling.probeAfterMs) {
    return ceiling;
  }
  const raised = Math.ceil(ceiling.perWindow * PROBE_FACTOR);
  const perWindow = Math.min(raised, HIGHEST_CEILING);
  return { ...ceiling, perWindow, learntAt: now, isProbe: true };
}

/** The limit where the clock was set back: a rest begins anew and is not stretched. */
export function notAhead({ ceiling, restUntil, restMs }: LearntLimit, now: number): LearntLimit {
  return {
    ceiling: ceiling === null ? null : { ...ceiling, learntAt: Math.min(ceiling.learntAt, now) },
    restUntil: Math.min(restUntil, now + restMs),
    restMs,
  };
}

/** Both taken together, so that neither is broken. */
export function stricterOf(one: LearntLimit, other: LearntLimit): LearntLimit {
  const { restUntil, restMs } = one.restUntil >= other.restUntil ? one : other;
  return { ceiling: stricterCeiling(one.ceiling, other.ceiling), restUntil, restMs };
}

function stricterCeiling(one: Ceiling | null, other: Ceiling | null): Ceiling | null {
  if (one === null || other === null) {
    return one ?? other;
  }
  const lower = one.perWindow <= other.perWindow ? one : other;
  return {
    ...lower,
    window: one.window === other.window ? one.window : 'elastic',
    learntAt: Math.max(one.learntAt, other.learntAt),
    probeAfterMs: Math.max(one.probeAfterMs, other.probeAfterMs),
  };
}

/**
 * Which kind of window explains the refusal. A mint that bore many more requests without a quiet
 * minute does not count until one. Where requests older than a minute were there to be counted, they
 * probably were, for Nutshell counts them. But not where a higher ceiling was just tried: that
 * explains the refusal as well.
 */
function windowAfter(known: Ceiling | null, refusal: Refusal): Ceiling['window'] {
  const { inMinute, inRun, longestRun } = refusal;
  if (longestRun >= 2 * inRun) {
    return 'sliding';
  }
  const isSlidingProbe = known?.window === 'sliding' && known.isProbe;
  return inRun > inMinute && !isSlidingProbe ? 'elastic' : (known?.window ?? 'sliding');
}

/**
 * A share of what was sent until the refusal. One refusal at most halves what was believed: the mint
 * may have counted requests that we know nothing of, as of a process that ran before.
 */
function perWindowAfter(
  known: Ceiling | null,
  window: Ceiling['window'],
  { inMinute, inRun }: Refusal,
): number {
  const believed = known?.window === window ? known.perWindow : null;
  const counted = window === 'elastic' ? inRun : inMinute;
  const lowest = Math.max(Math.floor((believed ?? 0) / 2), LOWEST_CEILING);
  const perWindow = Math.max(Math.floor(counted * SHARE_OF_LIMIT), lowest);
  return Math.min(perWindow, believed ?? HIGHEST_CEILING);
}

function probeAfter(known: Ceiling | null): number {
  if (known === null) {
    return FIRST_PROBE_AFTER_MS;
  }
  return known.isProbe
    ? Math.min(known.probeAfterMs * 2, LONGEST_PROBE_AFTER_MS)
    : known.probeAfterMs;
}
