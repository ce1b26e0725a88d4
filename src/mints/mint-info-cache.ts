import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Log } from '../log.ts';
import type { MintClient } from './mint-client.ts';
import type { MintInfo } from './mint-info.ts';

/** Mints rarely change what they offer, and a quote that a mint no longer accepts is refused anyway. */
const FRESH_MS = 5 * 60_000;

/** How long a failure counts as the answer, so that a dead mint does not delay every payer. */
const FAILURE_MS = 15_000;

/** Far more mints than are in use at a time. Users can name any number. */
const MAX_MINTS = 5_000;

export interface MintInfoCacheParts {
  client: Pick<MintClient, 'readInfo'>;
  /** Reads the stored info of a mint; null if there is none. */
  recall: (mintUrl: string) => Promise<MintInfo | null>;
  /** Stores the info of a mint. Called when it is new or has changed. */
  remember: (mintUrl: string, info: MintInfo) => Promise<void>;
  monotonicMs: () => number;
  log: Pick<Log, 'warn'>;
}

interface Entry {
  /** The latest info that the mint gave; null if it never answered. */
  info: MintInfo | null;
  /** Whether the mint answered the latest request. */
  isCurrent: boolean;
  /** When to ask the mint again, on the monotonic clock. */
  dueAtMs: number;
}

/**
 * Caches what mints offer (NUT-06). Stale info is served at once and refreshed in the background; stored
 * info is used after a restart, so that a mint that is down does not stop invoices.
 */
export class MintInfoCache {
  readonly #parts: MintInfoCacheParts;
  readonly #entries = new LRUCache<string, Entry>({ max: MAX_MINTS });
  readonly #requests = new Map<string, Promise<MintInfo | null>>();

  constructor(parts: MintInfoCacheParts) {
    this.#parts = parts;
  }

  /** Returns what is known of a mint, and asks it if nothing is; null if it does not answer as a mint. */
  async get(mintUrl: string): Promise<MintInfo | null> {
    const entry = await this.#entry(mintUrl);
    if (this.#parts.monotonicMs() < entry.dueAtMs) {
      return entry.info;
    }
    const refreshed = this.refresh(mintUrl);
    if (entry.info === null) {
      return await refreshed;
    }
    refreshed.catch((error: unknown) => {
      this.#parts.log.warn({ err: error, mintUrl }, 'could not refresh the info of a mint');
    });
    return entry.info;
  }

  /** Returns info of the last minutes, or asks the mint; null if it does not answer as a mint. */
  async current(mintUrl: string): Promise<MintInfo | null> {
    const entry = this.#entries.get(mintUrl);
    const isFresh = entry?.isCurrent === true && this.#parts.monotonicMs() < entry.dueAtMs;
    return isFresh ? entry.info : await this.refresh(mintUrl);
  }

  /** Asks the mint, once for all concurrent callers; null if it does not answer as a mint. */
  refresh(mintUrl: string): Promise<MintInfo | null> {
    let request = this.#requests.get(mintUrl);
    if (request === undefined) {
      request = this.#ask(mintUrl).finally(() => this.#requests.delete(mintUrl));
      this.#requests.set(mintUrl, request);
    }
    return request;
  }

  /** Returns the entry of a mint, at first with the stored info, which is due to be refreshed. */
  async #entry(mintUrl: string): Promise<Entry> {
    const cached = this.#entries.get(mintUrl);
    if (cached !== undefined) {
      return cached;
    }
    const info = await this.#parts.recall(mintUrl);
    const entry = { info, isCurrent: false, dueAtMs: 0 };
    this.#entries.set(mintUrl, entry);
    return entry;
  }

  async #ask(mintUrl: string): Promise<MintInfo | null> {
    const { client, remember, monotonicMs, log } = this.#parts;
    const [known, answer] = await Promise.all([this.#entry(mintUrl), client.readInfo(mintUrl)]);
    if (answer.outcome !== 'found') {
      const dueAtMs = monotonicMs() + FAILURE_MS;
      this.#entries.set(mintUrl, { info: known.info, isCurrent: false, dueAtMs });
      return null;
    }
    const { info } = answer;
    this.#entries.set(mintUrl, { info, isCurrent: true, dueAtMs: monotonicMs() + FRESH_MS });
    if (!isDeepStrictEqual(info, known.info)) {
      await remember(mintUrl, info).catch((error: unknown) => {
        this.#entries.delete(mintUrl);
        log.warn({ err: error, mintUrl }, 'could not store the info of a mint; trying again later');
      });
    }
    return info;
  }
}
