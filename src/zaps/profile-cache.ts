import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import type { GuardedFetch } from '../net/guarded-fetch.ts';
import { findNewestEvent, type RelayListCache } from '../relays/relay-list-cache.ts';
import type { RelayPool } from '../relays/relay-pool.ts';
import { toDisplayText, tryParseJson } from '../untrusted-text.ts';
import { PROFILE_LIMITS } from './limits.ts';

/** What the owner of a key says about themselves. */
export interface Profile {
  name: string;
  /** Such as `alice@example.com` (NIP-05). Null unless its host confirms that it belongs to the key. */
  identifier: string | null;
}

interface ProfileContext {
  fetch: Pick<GuardedFetch, 'request'>;
  relayPool: Pick<RelayPool, 'query'>;
  recipientRelays: Pick<RelayListCache, 'find'>;
  operatorRelays: readonly string[];
  monotonicMs: () => number;
}

/**
 * Caches the Nostr profiles of recipients (NIP-01, kind 0). Visitors do not wait: the first visit starts a
 * fetch, and later visits find its result, even if it is outdated. At most a fixed number of fetches starts in a minute.
 */
export class ProfileCache {
  readonly #context: ProfileContext;
  /** An empty name belongs to a recipient without a profile. */
  readonly #profiles: LRUCache<string, Profile>;
  readonly #limiter: FixedWindowRateLimiter;

  constructor(context: ProfileContext) {
    const { maxCached, perWindow, windowMs } = PROFILE_LIMITS;
    const { monotonicMs } = context;
    this.#context = context;
    this.#profiles = new LRUCache({
      max: maxCached,
      allowStale: true,
      noDeleteOnStaleGet: true,
      perf: { now: monotonicMs },
    });
    this.#limiter = new FixedWindowRateLimiter(perWindow, 1, monotonicMs, windowMs);
  }

  /** Returns the profile of a key; null if it is unknown. */
  get(pubkey: string): Profile | null {
    const profile = this.#profiles.get(pubkey) ?? NO_PROFILE;
    // `has` is false for an outdated profile.
    if (
      !this.#profiles.has(pubkey) &&
      this.#limiter.consume([{ key: 'all', factor: 1 }]) === null
    ) {
      // Prevents a second fetch meanwhile, and for some time if this one fails.
      this.#profiles.set(pubkey, profile, { ttl: PROFILE_LIMITS.retryMs });
      void this.#fetch(pubkey);
    }
    return profile.name === '' ? null : profile;
  }

  async #fetch(pubkey: string): Promise<void> {
    const { relayPool, recipientRelays, operatorRelays } = this.#context;
    const { relays: writeRelays } = await recipientRelays.find(pubkey);
    const relays = [...operatorRelays, ...writeRelays.slice(0, PROFILE_LIMITS.maxWriteRelays)];
    const filter = { kinds: [0], authors: [pubkey] };
    const { newest, isComplete } = await findNewestEvent(relayPool, [...new Set(relays)], filter);
    if (newest !== undefined || isComplete) {
      const ttl = isComplete ? PROFILE_LIMITS.ttlMs : PROFILE_LIMITS.retryMs;
      const { name, nip05 } = parseProfile(newest?.content ?? '');
      const isConfirmed = name !== '' && (await this.#isConfirmed(nip05, pubkey));
      this.#profiles.set(pubkey, { name, identifier: isConfirmed ? nip05 : null }, { ttl });
    }
  }

  /** Asks the host of an identifier for its key (NIP-05). */
  async #isConfirmed(identifier: string, pubkey: string): Promise<boolean> {
    const [, localPart = '', host = ''] = IDENTIFIER.exec(identifier) ?? [];
    if (host === '') {
      return false;
    }
    const response = await this.#context.fetch.request({
      url: `https://${host}/.well-known/nostr.json?name=${localPart}`,
      maxBodyBytes: PROFILE_LIMITS.maxIdentifierBytes,
    });
    const json =
      response.outcome === 'responded' ? identifierSchema.safeParse(response.json) : null;
    return json?.data?.names[localPart] === pubkey;
  }
}

const NO_PROFILE: Profile = { name: '', identifier: null };

/** NIP-05 allows these letters in the local part. */
const IDENTIFIER = /^([a-z0-9_.-]+)@([a-z0-9-]+(?:\.[a-z0-9-]+)+)$/;

const identifierSchema = z.object({ names: z.record(z.string(), z.unknown()) });

const nameSchema = z
  .string()
  .transform((name) => toDisplayText(name, PROFILE_LIMITS.maxNameLength))
  .catch('');

const profileSchema = z.object({ name: nameSchema, display_name: nameSchema, nip05: nameSchema });

/** Missing fields are empty. */
function parseProfile(content: string): { name: string; nip05: string } {
  const isTooLong = content.length > PROFILE_LIMITS.maxContentLength;
  const profile = profileSchema.safeParse(isTooLong ? null : tryParseJson(content)).data;
  return {
    name: profile?.display_name || profile?.name || '',
    nip05: profile?.nip05.toLowerCase() ?? '',
  };
}
