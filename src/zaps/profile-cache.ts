import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { toDisplayText, tryParseJson } from '../untrusted-text.ts';
import { PROFILE_LIMITS } from './limits.ts';
import { findNewestEvent } from './newest-event.ts';
import type { RelayListCache } from './relay-list-cache.ts';
import type { RelayPool } from './relay-pool.ts';

interface ProfileContext {
  relayPool: Pick<RelayPool, 'query'>;
  recipientRelays: Pick<RelayListCache, 'findWriteRelays'>;
  operatorRelays: readonly string[];
  monotonicMs: () => number;
}

/**
 * Caches the names in the Nostr profiles of recipients (NIP-01, kind 0). Visitors do not wait: the first visit starts a
 * fetch, and later visits find its result, even if it is outdated. At most a fixed number of fetches starts in a minute.
 */
export class ProfileCache {
  readonly #context: ProfileContext;
  /** Empty names belong to recipients without a profile. */
  readonly #names: LRUCache<string, string>;
  readonly #limiter: FixedWindowRateLimiter;

  constructor(context: ProfileContext) {
    const { maxCached, perWindow, windowMs } = PROFILE_LIMITS;
    const { monotonicMs } = context;
    this.#context = context;
    this.#names = new LRUCache({
      max: maxCached,
      allowStale: true,
      noDeleteOnStaleGet: true,
      perf: { now: monotonicMs },
    });
    this.#limiter = new FixedWindowRateLimiter(perWindow, 1, monotonicMs, windowMs);
  }

  /** Returns what the owner of a key calls themselves; null if that is unknown. */
  getName(pubkey: string): string | null {
    const name = this.#names.get(pubkey) ?? '';
    // `has` is false for an outdated name.
    if (!this.#names.has(pubkey) && this.#limiter.consume([{ key: 'all', factor: 1 }]) === null) {
      // Prevents a second fetch meanwhile, and for some time if this one fails.
      this.#names.set(pubkey, name, { ttl: PROFILE_LIMITS.retryMs });
      void this.#fetchName(pubkey);
    }
    return name || null;
  }

  async #fetchName(pubkey: string): Promise<void> {
    const { relayPool, recipientRelays, operatorRelays } = this.#context;
    const writeRelays = await recipientRelays.findWriteRelays(pubkey);
    const relays = [...operatorRelays, ...writeRelays.slice(0, PROFILE_LIMITS.maxWriteRelays)];
    const filter = { kinds: [0], authors: [pubkey] };
    const { newest, isComplete } = await findNewestEvent(relayPool, [...new Set(relays)], filter);
    if (newest !== undefined || isComplete) {
      const ttl = isComplete ? PROFILE_LIMITS.ttlMs : PROFILE_LIMITS.retryMs;
      this.#names.set(pubkey, parseName(newest?.content ?? ''), { ttl });
    }
  }
}

const nameSchema = z
  .string()
  .transform((name) => toDisplayText(name, PROFILE_LIMITS.maxNameLength))
  .catch('');

const profileSchema = z.object({ name: nameSchema, display_name: nameSchema });

function parseName(content: string): string {
  const isTooLong = content.length > PROFILE_LIMITS.maxContentLength;
  const profile = profileSchema.safeParse(isTooLong ? null : tryParseJson(content)).data;
  return profile?.display_name || profile?.name || '';
}
