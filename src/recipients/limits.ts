/** More recipients than are paid within {@link CACHE_TTL_MS}. A full cache uses about 5 MB. */
export const MAX_CACHED_RECIPIENTS = 10_000;

/** How long an old setting applies if the notification about its change is lost. */
export const CACHE_TTL_MS = 5_000;
