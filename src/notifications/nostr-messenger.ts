import { setTimeout as delay } from 'node:timers/promises';
import type { Event, UnsignedEvent } from 'nostr-tools';
import { type Clock, toUnixSeconds } from '../clock.ts';
import type { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import type { Logger } from '../log.ts';
import type { Egress } from '../net/egress.ts';
import { getSite } from '../net/site.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import { type EventSigner, type EventVerifier, giftWrap } from '../nostr/events.ts';
import { type RelayList, RelayListCache } from '../relays/relay-list-cache.ts';
import { RelayPool } from '../relays/relay-pool.ts';
import { stripQuery } from '../relays/relay-url.ts';
import { SerialQueue } from '../serial-queue.ts';
import { toDisplayText } from '../untrusted-text.ts';
import type { DeliveryResult } from './delivery-policy.ts';
import { NOSTR_LIMITS } from './limits.ts';
import type { Reader, TranslateMessage } from './message-text.ts';
import { writeNostrMessage } from './nostr-message.ts';
import type { Message } from './select-message.ts';

interface NostrMessengerOptions {
  signer: EventSigner;
  verifyEvent: EventVerifier;
  egress: Egress;
  /** Where the lists of recipients are looked up. */
  operatorRelays: readonly string[];
  siteLimiter: FixedWindowRateLimiter;
  translate: TranslateMessage;
  /** Null: the service has no such page. */
  getCollectUrl: () => string | null;
  allowPrivateNetworks: boolean;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Sends private direct messages (NIP-17) from the key of the service to the relays that recipients list for them. */
export class NostrMessenger {
  readonly #options: NostrMessengerOptions;
  readonly #relayPool: RelayPool;
  readonly #relayLists: RelayListCache;
  readonly #lookups: SiteSemaphore;
  readonly #publications: SiteSemaphore;
  readonly #encryptions = new SerialQueue();

  constructor(options: NostrMessengerOptions) {
    const { egress, operatorRelays } = options;
    const { maxLookups, maxPublications, maxPublicationsPerSite } = NOSTR_LIMITS;
    this.#options = options;
    this.#relayPool = new RelayPool(egress.connect, options);
    this.#relayLists = new RelayListCache({
      ...options,
      kind: 10_050,
      relayPool: this.#relayPool,
      // A user who has just published a list tests it.
      allowStale: false,
    });
    const lookupLimits = { max: maxLookups, maxPerSite: maxLookups };
    this.#lookups = new SiteSemaphore({ ...lookupLimits, exemptUrls: [] });
    const publicationLimits = { max: maxPublications, maxPerSite: maxPublicationsPerSite };
    this.#publications = new SiteSemaphore({ ...publicationLimits, exemptUrls: operatorRelays });
  }

  get pubkey(): string {
    return this.#options.signer.pubkey;
  }

  async close(): Promise<void> {
    await this.#relayPool.close();
  }

  /** Sends a message to all relays of the recipient. It is delivered if one of them accepts it. */
  async send(recipient: string, reader: Reader, message: Message): Promise<DeliveryResult> {
    const { signer, getCollectUrl, clock } = this.#options;
    const { relays, isKnown } = await this.#findRelays(recipient);
    if (relays.length === 0) {
      return { outcome: 'failed', text: isKnown ? NO_LIST : NO_ANSWER };
    }
    const rumor = writeNostrMessage(
      { ...this.#options, collectUrl: getCollectUrl() },
      message,
      { sender: signer.pubkey, recipient, reader },
      clock(),
    );
    const event = await this.#encrypt(rumor, recipient);
    const results = await Promise.all(
      relays.map(async (url) => ({ url, problem: await this.#publish(url, event) })),
    );
    const accepted = results.filter(({ problem }) => problem === null);
    if (accepted.length > 0) {
      const text = `accepted by ${accepted.length} of ${relays.length} relays`;
      return { outcome: 'delivered', text };
    }
    const text = results.map(({ url, problem }) => `${stripQuery(url)}: ${problem}`).join('; ');
    return { outcome: 'failed', text: toDisplayText(text, 500) };
  }

  async #findRelays(recipient: string): Promise<RelayList> {
    // All lookups ask the same relays.
    const [url = ''] = this.#options.operatorRelays;
    if (!(await this.#lookups.acquireWithin(url, NOSTR_LIMITS.maxWaitMs))) {
      return { relays: [], isKnown: false };
    }
    try {
      return await this.#relayLists.find(recipient);
    } finally {
      this.#lookups.release(url);
    }
  }

  /** Encrypts one message at a time, because each occupies the event loop for milliseconds. */
  #encrypt(rumor: UnsignedEvent, recipient: string): Promise<Event> {
    const { signer, clock } = this.#options;
    return this.#encryptions.run(() => giftWrap(signer, rumor, recipient, toUnixSeconds(clock())));
  }

  /** Returns null if the relay accepts the event, otherwise the reason. */
  async #publish(url: string, event: Event): Promise<string | null> {
    const { operatorRelays, siteLimiter } = this.#options;
    const { maxWaitMs, publishTimeoutMs } = NOSTR_LIMITS;
    const key = getSite(url);
    const isLimited = !operatorRelays.includes(url) && siteLimiter.consume([{ key, factor: 1 }]);
    if (isLimited || !(await this.#publications.acquireWithin(url, maxWaitMs))) {
      return 'the service sends it too many messages';
    }
    const eventJson = JSON.stringify(event);
    const publication = this.#relayPool
      .publish(url, { id: event.id, eventJson })
      .finally(() => this.#publications.release(url));
    const timeout = delay(publishTimeoutMs, null, { ref: false });
    const result = await Promise.race([publication, timeout]);
    return result?.outcome === 'accepted' ? null : result?.message || 'no response';
  }
}

const NO_LIST = 'You have no list of relays for private messages (kind 10050)';

const NO_ANSWER = 'The relays that may have your list of relays (kind 10050) do not respond';
