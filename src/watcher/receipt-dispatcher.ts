import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import { remoteParty } from '../net/remote-party.ts';
import type { RelayPool } from '../relays/relay-pool.ts';
import type { DueRelay } from '../store/receipt-delivery-store.ts';
import type { Store } from '../store/store.ts';
import type { DeliverZapReceipts } from '../usecases/deliver-zap-receipts.ts';
import { Background } from './background.ts';

/** How often the outbox is scanned for retries, and for receipts of processes that died. */
const SCAN_INTERVAL_MS = 1_000;

/** Relays in one scan, which takes some milliseconds; the next scan continues after them. */
const SCAN_LIMIT = 1_000;

/**
 * Relays that are sent to at a time, each with a socket and half a megabyte of receipts. Strangers name
 * relays that never answer: those must not delay relays that have accepted receipts before.
 */
const SLOTS = { proven: 128, unproven: 32 };

/** Strangers invent URLs, and subdomains have limits of their own. */
const MAX_SLOTS_OF_HOST = 4;

/** Answers to receipts in flight that arrive so soon after the end are still recorded. */
const LAST_ANSWERS_MS = 500;

/** What {@link ReceiptDispatcher} needs. */
export interface ReceiptDispatcherParts {
  deliveries: Pick<Store['deliveries'], 'relaysWithOpen' | 'dueAmong'>;
  deliver: Pick<DeliverZapReceipts, 'run'>;
  relayPool: Pick<RelayPool, 'close'>;
  /** The operator's, normalised: they always have a slot. */
  ownRelays: readonly string[];
  /** Development. */
  allowPrivateNetworks: boolean;
  clock: Clock;
  log: Log;
}

interface RunningDelivery {
  slot: 'own' | 'proven' | 'unproven';
  host: string;
  ended: Promise<void>;
  /** Whether more became due meanwhile. */
  isNoticed: boolean;
}

/** Delivers due zap receipts to many relays at a time, so that a slow relay delays no other. */
export class ReceiptDispatcher {
  readonly #parts: ReceiptDispatcherParts;
  readonly #ownRelays: ReadonlySet<string>;
  readonly #scan: Background;
  readonly #stopping = new AbortController();
  /** By URL of the relay. */
  readonly #running = new Map<string, RunningDelivery>();
  /** The last relay of the previous scan. */
  #scannedUpTo = '';
  /** Whether the database failed: one line is logged, not one a second. */
  #isFailing = false;

  constructor(parts: ReceiptDispatcherParts) {
    this.#parts = parts;
    this.#ownRelays = new Set(parts.ownRelays);
    this.#scan = new Background({
      work: () => this.#scanOutbox(),
      intervalMs: SCAN_INTERVAL_MS,
      onError: (error) => this.#reportFailure(error),
    });
  }

  /** Starts, with what earlier processes left open. */
  start(): void {
    this.#scan.start();
  }

  /** Delivers at once to relays (normalised URLs) that receipts were just stored for. */
  notice(urls: readonly string[]): void {
    if (this.#stopping.signal.aborted) {
      return;
    }
    for (const url of urls) {
      const running = this.#running.get(url);
      if (running !== undefined) {
        running.isNoticed = true;
      }
    }
    this.#dispatch(urls).catch((error: unknown) => this.#reportFailure(error));
  }

  /** Ends deliveries within a second, records what was answered, and closes the relay connections. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#scan.stop();
    const ended = Promise.all([...this.#running.values()].map((delivery) => delivery.ended));
    await Promise.race([ended, delay(LAST_ANSWERS_MS, undefined, { ref: false })]);
    await this.#parts.relayPool.close();
    await ended;
  }

  async #scanOutbox(): Promise<void> {
    const { deliveries } = this.#parts;
    const options = { after: this.#scannedUpTo, limit: SCAN_LIMIT };
    const urls = await deliveries.relaysWithOpen(options);
    this.#scannedUpTo = urls.length < SCAN_LIMIT ? '' : (urls.at(-1) ?? '');
    await this.#dispatch(urls);
    this.#isFailing = false;
  }

  async #dispatch(urls: readonly string[]): Promise<void> {
    const { deliveries, clock } = this.#parts;
    const idle = urls.filter((url) => !this.#running.has(url));
    for (const relay of await deliveries.dueAmong(idle, clock())) {
      if (!this.#stopping.signal.aborted && !this.#running.has(relay.url)) {
        this.#deliverIfFree(relay);
      }
    }
  }

  /** Without a free slot, a later scan finds the relay again. */
  #deliverIfFree(relay: DueRelay): void {
    const { allowPrivateNetworks } = this.#parts;
    const isOwn = this.#ownRelays.has(relay.url);
    const provenSlot = relay.hasAccepted ? 'proven' : 'unproven';
    const slot = isOwn ? 'own' : provenSlot;
    const host = remoteParty(new URL(relay.url), { allowPrivateNetworks });
    if (slot !== 'own' && !this.#hasFree(slot, host)) {
      return;
    }
    const ended = this.#deliver({ ...relay, isOwn });
    this.#running.set(relay.url, { slot, host, ended, isNoticed: false });
  }

  #hasFree(slot: 'proven' | 'unproven', host: string): boolean {
    const running = [...this.#running.values()];
    const ofSlot = running.filter((delivery) => delivery.slot === slot);
    const ofHost = running.filter((delivery) => delivery.host === host);
    return ofSlot.length < SLOTS[slot] && ofHost.length < MAX_SLOTS_OF_HOST;
  }

  async #deliver(relay: DueRelay & { isOwn: boolean }): Promise<void> {
    try {
      await this.#parts.deliver.run(relay, this.#stopping.signal);
    } catch (error) {
      this.#reportFailure(error);
    }
    const isNoticed = this.#running.get(relay.url)?.isNoticed === true;
    this.#running.delete(relay.url);
    if (isNoticed) {
      this.notice([relay.url]);
    }
  }

  #reportFailure(error: unknown): void {
    if (!this.#isFailing) {
      this.#isFailing = true;
      this.#parts.log.error(
        { event: 'receipt_delivery_failed', err: error },
        'cannot deliver zap receipts; retrying',
      );
    }
  }
}
