import { setTimeout as delay } from 'node:timers/promises';
import { Background } from '../background.ts';
import type { Clock } from '../clock.ts';
import { retryLogLevel } from '../errors.ts';
import type { Log } from '../log.ts';
import { HostSlots } from '../net/host-slots.ts';
import { logMilestone } from '../quotes/milestones.ts';
import type { Store } from '../store.ts';
import { deliveryAfter, standingAfter } from './receipt-delivery.ts';
import type { DueReceipt, DueRelay } from './receipt-delivery-store.ts';
import type { RelayPool } from './relay-pool.ts';
import { withoutQuery } from './relay-url.ts';

/** How often the outbox is scanned for retries, and for receipts of processes that died. */
const SCAN_INTERVAL_MS = 1_000;

/**
 * Relays that are sent to at a time, each with a socket and half a megabyte of receipts. Strangers name
 * relays that never answer: those must not delay relays that have accepted receipts before.
 */
const PROVEN_SLOTS = 128;
const UNPROVEN_SLOTS = 32;

/** Strangers invent URLs, and subdomains have limits of their own. */
const MAX_SLOTS_OF_HOST = 4;

/** At 100 ms there and back, 300 receipts a second; in memory, half a megabyte for each relay. */
const BATCH = 32;

/** Longer than a handshake and an answer may take. Receipts that a killed process took are due again after that. */
const CLAIM_MS = 30_000;

/** Then it is another relay's turn. */
const MAX_DURATION_MS = 20_000;

/** Answers to receipts in flight that arrive so soon after the end are still recorded. */
const LAST_ANSWERS_MS = 500;

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

/** Delivers due zap receipts to many relays at a time, so that a slow relay delays no other. */
export class ReceiptDispatcher {
  readonly #parts: ReceiptDispatcherParts;
  readonly #scan: Background;
  readonly #stopping = new AbortController();
  /** By URL of the relay. */
  readonly #running = new Map<string, Promise<void>>();
  /** For the operator's relays, and those that have accepted receipts before. */
  readonly #provenSlots: HostSlots;
  readonly #unprovenSlots: HostSlots;
  /** Whether the database failed: one line is logged, not one a second. */
  #isFailing = false;

  constructor(parts: ReceiptDispatcherParts) {
    this.#parts = parts;
    const { ownRelays: trusted, allowPrivateNetworks } = parts;
    const options = { maxPerHost: MAX_SLOTS_OF_HOST, trusted, allowPrivateNetworks };
    this.#provenSlots = new HostSlots({ max: PROVEN_SLOTS, ...options });
    this.#unprovenSlots = new HostSlots({ max: UNPROVEN_SLOTS, ...options });
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

  /** Delivers receipts that were just stored, without waiting for the next scan. */
  notice(): void {
    void this.#scan.run();
  }

  /** Ends deliveries within a second, records what was answered, and closes the relay connections. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#scan.stop();
    const ended = Promise.all(this.#running.values());
    await Promise.race([ended, delay(LAST_ANSWERS_MS, undefined, { ref: false })]);
    await this.#parts.relayPool.close();
    await ended;
  }

  /** Starts a delivery to each relay that has a free slot; a later scan finds the others again. */
  async #scanOutbox(): Promise<void> {
    const { deliveries, clock, ownRelays } = this.#parts;
    for (const relay of await deliveries.dueRelays(clock())) {
      const { url } = relay;
      const isProven = relay.hasAccepted || ownRelays.includes(url);
      const slots = isProven ? this.#provenSlots : this.#unprovenSlots;
      const isBusy = this.#stopping.signal.aborted || this.#running.has(url);
      if (!isBusy && slots.acquire(url)) {
        const ended = this.#deliver(relay, isProven).finally(() => {
          slots.release(url);
          this.#running.delete(url);
        });
        this.#running.set(url, ended);
      }
    }
    this.#isFailing = false;
  }

  /** Sends a relay what is due there, batch after batch, until nothing is due, the relay fails, or time is up. */
  async #deliver(relay: DueRelay, isProven: boolean): Promise<void> {
    const { deliveries, clock } = this.#parts;
    const { url } = relay;
    const endsAtMs = performance.now() + MAX_DURATION_MS;
    let { failures } = relay;
    // After a failure one by one: a receipt that the relay disconnects at must not take others with it.
    const limit = failures > 0 ? 1 : BATCH;
    let isOver = false;
    try {
      while (!isOver) {
        const nowMs = clock();
        const receipts = await deliveries.claim(url, { nowMs, untilMs: nowMs + CLAIM_MS, limit });
        if (receipts.length > 0) {
          failures = await this.#send({ url, failures, isProven }, receipts);
        }
        const isTimeUp = this.#stopping.signal.aborted || performance.now() >= endsAtMs;
        isOver = receipts.length === 0 || failures > 0 || isTimeUp;
      }
    } catch (error) {
      this.#reportFailure(error);
    }
  }

  /** @returns the consecutive failures of the relay */
  async #send(
    { url, failures, isProven }: { url: string; failures: number; isProven: boolean },
    receipts: readonly DueReceipt[],
  ): Promise<number> {
    const { deliveries, relayPool, clock, log } = this.#parts;
    const relay = withoutQuery(url);
    const sent = await Promise.all(
      receipts.map(async (receipt) => ({
        ...receipt,
        result: await relayPool.publish(url, receipt),
      })),
    );
    const nowMs = clock();
    const results = sent.map(({ result }) => result);
    const accepted = sent.filter(({ result }) => result.outcome === 'accepted');
    // The end of this process says nothing about the relay.
    const isStopping = this.#stopping.signal.aborted;
    const standing = isStopping ? null : standingAfter(failures, results, nowMs);
    const steps = sent.map(({ id, tries, result }) => ({
      id,
      ...deliveryAfter(tries, result, nowMs),
    }));
    await deliveries.record(url, { steps, standing, hasAccepted: accepted.length > 0 }, nowMs);
    for (const { id, paymentHash } of accepted) {
      logMilestone(log, 'receipt_delivered', paymentHash, { receipt: id, relay });
    }
    // Strangers name hosts that never were relays.
    const level = isProven ? 'info' : 'debug';
    if (failures === 0 && standing !== null && standing.failures > 0) {
      log[level](
        { event: 'relay_failing', relay, reason: standing.word },
        'relay takes no zap receipts; backing off',
      );
    }
    if (failures > 0 && standing?.failures === 0) {
      log[level]({ event: 'relay_recovered', relay }, 'relay takes zap receipts again');
    }
    return standing?.failures ?? failures;
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
