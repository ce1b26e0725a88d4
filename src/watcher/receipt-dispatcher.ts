import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import { retryLogLevel } from '../domain/errors.ts';
import {
  type BatchResult,
  deliveryAfter,
  standingAfter,
  troubleIn,
} from '../domain/receipt-delivery.ts';
import { withoutQuery } from '../domain/relay-url.ts';
import type { Log } from '../log.ts';
import { originKey } from '../net/request-limiter.ts';
import type { RelayPool } from '../relays/relay-pool.ts';
import type { DueReceipt, DueRelay } from '../store/receipt-delivery-store.ts';
import type { Store } from '../store/store.ts';
import { logMilestone } from '../usecases/milestones.ts';
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

/** At 100 ms there and back, 300 receipts a second; in memory, half a megabyte for each relay. */
const BATCH = 32;

/** Longer than a handshake and an answer may take. Receipts of a killed process come back after that. */
const CLAIM_MS = 30_000;

/** Then it is another relay's turn. */
const MAX_DURATION_MS = 20_000;

/** Answers to receipts in flight that arrive so soon after the end are still recorded. */
const LAST_ANSWERS_MS = 500;

/** What {@link ReceiptDispatcher} needs. */
export interface ReceiptDispatcherParts {
  deliveries: Store['deliveries'];
  relayPool: Pick<RelayPool, 'publish' | 'close'>;
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
}

/** Delivers due zap receipts to many relays at a time, so that a slow relay delays no other. */
export class ReceiptDispatcher {
  readonly #parts: ReceiptDispatcherParts;
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
    const options = { after: this.#scannedUpTo, limit: SCAN_LIMIT };
    const urls = await this.#parts.deliveries.relaysWithOpen(options);
    this.#scannedUpTo = urls.length < SCAN_LIMIT ? '' : (urls.at(-1) ?? '');
    await this.#dispatch(urls);
    this.#isFailing = false;
  }

  /** Starts a delivery to each relay that has a free slot; a later scan finds the others again. */
  async #dispatch(urls: readonly string[]): Promise<void> {
    const { deliveries, clock, ownRelays, allowPrivateNetworks } = this.#parts;
    const idle = urls.filter((url) => !this.#running.has(url));
    for (const relay of await deliveries.dueAmong(idle, clock())) {
      const { url, hasAccepted } = relay;
      const provenSlot = hasAccepted ? 'proven' : 'unproven';
      const slot = ownRelays.includes(url) ? 'own' : provenSlot;
      const host = originKey(new URL(url), { allowPrivateNetworks });
      const isBusy = this.#stopping.signal.aborted || this.#running.has(url);
      if (!isBusy && (slot === 'own' || this.#hasFree(slot, host))) {
        this.#running.set(url, { slot, host, ended: this.#deliver(relay) });
      }
    }
  }

  #hasFree(slot: 'proven' | 'unproven', host: string): boolean {
    const running = [...this.#running.values()];
    const ofSlot = running.filter((delivery) => delivery.slot === slot);
    const ofHost = running.filter((delivery) => delivery.host === host);
    return ofSlot.length < SLOTS[slot] && ofHost.length < MAX_SLOTS_OF_HOST;
  }

  async #deliver(relay: DueRelay): Promise<void> {
    try {
      const result = await this.#sendDue(relay);
      // The end of this process says nothing about the relay.
      if (result !== null && !this.#stopping.signal.aborted) {
        await this.#recordRelay(relay, result);
      }
    } catch (error) {
      this.#reportFailure(error);
    }
    this.#running.delete(relay.url);
  }

  /**
   * Sends a relay what is due there, batch after batch, until nothing is due, the relay is in trouble, or
   * time is up. A relay that failed before is sent a single receipt first: one that it disconnects at must
   * not take others with it.
   *
   * @returns null if nothing was due
   */
  async #sendDue({ url, failures }: DueRelay): Promise<BatchResult | null> {
    const endsAtMs = performance.now() + MAX_DURATION_MS;
    const result: BatchResult = { hasAccepted: false, trouble: null };
    let limit = failures > 0 ? 1 : BATCH;
    let hasSent = false;
    let isOver = false;
    while (!isOver) {
      const nowMs = this.#parts.clock();
      const claim = { nowMs, untilMs: nowMs + CLAIM_MS, limit };
      const receipts = await this.#parts.deliveries.claim(url, claim);
      await this.#send(url, receipts, result);
      hasSent ||= receipts.length > 0;
      limit = BATCH;
      const isTimeUp = this.#stopping.signal.aborted || performance.now() >= endsAtMs;
      isOver = receipts.length === 0 || result.trouble !== null || isTimeUp;
    }
    return hasSent ? result : null;
  }

  async #send(url: string, receipts: readonly DueReceipt[], batch: BatchResult): Promise<void> {
    const { deliveries, relayPool, clock, log } = this.#parts;
    const sent = await Promise.all(
      receipts.map(async ({ id, text, tries, paymentHash }) => {
        const result = await relayPool.publish(url, { id, text });
        return { id, paymentHash, result, step: deliveryAfter(tries, result, clock()) };
      }),
    );
    const tried = sent.flatMap(({ id, step }) => (step === null ? [] : [{ id, ...step }]));
    const unsent = sent.filter(({ step }) => step === null);
    await deliveries.record(url, tried, clock());
    await deliveries.release(
      url,
      unsent.map(({ id }) => id),
    );
    for (const { id, paymentHash, result } of sent) {
      batch.trouble ??= troubleIn(result);
      if (result.outcome === 'accepted') {
        batch.hasAccepted = true;
        const relay = withoutQuery(url);
        logMilestone(log, 'receipt_delivered', paymentHash, { receipt: id, relay });
      }
    }
  }

  async #recordRelay({ url, failures, hasAccepted }: DueRelay, result: BatchResult): Promise<void> {
    const { deliveries, clock, log, ownRelays } = this.#parts;
    const nowMs = clock();
    const standing = standingAfter(failures, result, nowMs);
    await deliveries.recordRelay(url, { ...standing, hasAccepted: result.hasAccepted }, nowMs);
    // Strangers name hosts that never were relays.
    const level = hasAccepted || ownRelays.includes(url) ? 'info' : 'debug';
    const relay = withoutQuery(url);
    if (failures === 0 && standing.failures > 0) {
      log[level](
        { event: 'relay_failing', relay, reason: standing.word },
        'relay takes no zap receipts; backing off',
      );
    }
    if (failures > 0 && standing.failures === 0) {
      log[level]({ event: 'relay_recovered', relay }, 'relay takes zap receipts again');
    }
  }

  #reportFailure(error: unknown): void {
    if (!this.#isFailing) {
      this.#isFailing = true;
      this.#parts.log[retryLogLevel(error)](
        { event: 'receipt_delivery_failed', err: error },
        'cannot deliver zap receipts; retrying',
      );
    }
  }
}
