import { setTimeout as delay } from 'node:timers/promises';
import { BackgroundJob } from '../background-job.ts';
import type { Clock } from '../clock.ts';
import { retryLogLevel } from '../errors.ts';
import { type Logger, logMilestone } from '../log.ts';
import { HostSemaphore } from '../net/host-semaphore.ts';
import type { Store } from '../store.ts';
import { computeDeliveryUpdate, computeRelayStatus } from './receipt-delivery.ts';
import type { DueReceipt, DueRelay } from './receipt-delivery-store.ts';
import type { RelayPool } from './relay-pool.ts';
import { stripQuery } from './zap-request.ts';

/** How often the outbox is scanned for retries, and for receipts that a killed process left. */
const SCAN_INTERVAL_MS = 1_000;

/**
 * Concurrent deliveries, each with a socket and half a megabyte of receipts. Payers may name relays that never respond;
 * these must not delay relays that have accepted receipts before.
 */
const MAX_PROVEN_RELAYS = 128;
const MAX_UNPROVEN_RELAYS = 32;

/** Payers can invent any number of URLs of one host. */
const MAX_RELAYS_PER_HOST = 4;

/** 300 receipts a second at a round trip of 100 ms, and half a megabyte of memory per relay. */
const BATCH_SIZE = 32;

/** Longer than a handshake and a response may take. Receipts that a killed process claimed are due again after it. */
const CLAIM_TIMEOUT_MS = 30_000;

/** After this time, another relay gets the slot. */
const MAX_DELIVERY_DURATION_MS = 20_000;

/** While stopping, how long to wait for responses to receipts in flight. */
const SHUTDOWN_GRACE_MS = 500;

interface ReceiptDispatcherDeps {
  deliveries: Store['receiptDeliveries'];
  relayPool: Pick<RelayPool, 'publish' | 'close'>;
  /** Normalised. They always get a slot. */
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  clock: Clock;
  log: Logger;
}

/** Delivers due zap receipts to many relays concurrently, so that a slow relay does not delay the others. */
export class ReceiptDispatcher {
  readonly #deps: ReceiptDispatcherDeps;
  readonly #scanLoop: BackgroundJob;
  #isStopping = false;
  /** By relay URL. */
  readonly #activeDeliveries = new Map<string, Promise<void>>();
  /** For the operator's relays and those that have accepted receipts before. */
  readonly #provenSlots: HostSemaphore;
  readonly #unprovenSlots: HostSemaphore;
  /** Whether the failure has been logged already. */
  #isFailing = false;

  constructor(deps: ReceiptDispatcherDeps) {
    this.#deps = deps;
    const { operatorRelays: exemptUrls, allowPrivateNetworks } = deps;
    const limits = { maxPerHost: MAX_RELAYS_PER_HOST, exemptUrls, allowPrivateNetworks };
    this.#provenSlots = new HostSemaphore({ max: MAX_PROVEN_RELAYS, ...limits });
    this.#unprovenSlots = new HostSemaphore({ max: MAX_UNPROVEN_RELAYS, ...limits });
    this.#scanLoop = new BackgroundJob({
      work: () => this.#scanOutbox(),
      intervalMs: SCAN_INTERVAL_MS,
      onError: (error) => this.#reportFailure(error),
    });
  }

  start(): void {
    this.#scanLoop.start();
  }

  /** Delivers receipts that were just stored, without waiting for the next scan. */
  wake(): void {
    void this.#scanLoop.run();
  }

  /** Ends deliveries within a second, records their results and closes the relay connections. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scanLoop.stop();
    const allEnded = Promise.all(this.#activeDeliveries.values());
    await Promise.race([allEnded, delay(SHUTDOWN_GRACE_MS, undefined, { ref: false })]);
    await this.#deps.relayPool.close();
    await allEnded;
  }

  /** Starts a delivery to each due relay while slots are free. A later scan finds the other relays again. */
  async #scanOutbox(): Promise<void> {
    const { deliveries, clock, operatorRelays } = this.#deps;
    for (const relay of await deliveries.findDueRelays(clock())) {
      const { url } = relay;
      const isProven = relay.acceptedAtMs !== null || operatorRelays.includes(url);
      const slots = isProven ? this.#provenSlots : this.#unprovenSlots;
      const isBusy = this.#isStopping || this.#activeDeliveries.has(url);
      if (!isBusy && slots.tryAcquire(url)) {
        const delivery = this.#deliverToRelay(relay, isProven).finally(() => {
          slots.release(url);
          this.#activeDeliveries.delete(url);
        });
        this.#activeDeliveries.set(url, delivery);
      }
    }
    this.#isFailing = false;
  }

  /** Sends due receipts to a relay in batches until none is due, the relay fails, or the time is up. */
  async #deliverToRelay(relay: DueRelay, isProven: boolean): Promise<void> {
    const { deliveries, clock } = this.#deps;
    const deadlineMs = performance.now() + MAX_DELIVERY_DURATION_MS;
    const { url } = relay;
    let { failures } = relay;
    // After a failure, one receipt at a time: the relay may disconnect because of one of them.
    const limit = failures > 0 ? 1 : BATCH_SIZE;
    try {
      do {
        const nowMs = clock();
        const claim = { nowMs, claimedUntilMs: nowMs + CLAIM_TIMEOUT_MS, limit };
        const receipts = await deliveries.claimDue(url, claim);
        if (receipts.length === 0) {
          return;
        }
        failures = await this.#sendBatch(url, failures, isProven, receipts);
      } while (failures === 0 && !this.#isStopping && performance.now() < deadlineMs);
    } catch (error) {
      this.#reportFailure(error);
    }
  }

  /** @returns the relay's consecutive failures */
  async #sendBatch(
    url: string,
    failures: number,
    isProven: boolean,
    receipts: readonly DueReceipt[],
  ): Promise<number> {
    const { deliveries, relayPool, clock, log } = this.#deps;
    const relay = stripQuery(url);
    const sent = await Promise.all(
      receipts.map(async (receipt) => ({
        ...receipt,
        result: await relayPool.publish(url, receipt),
      })),
    );
    const nowMs = clock();
    const results = sent.map(({ result }) => result);
    const accepted = sent.filter(({ result }) => result.outcome === 'accepted');
    // While stopping, this process closes connections itself; that is not a failure of the relay.
    const relayStatus = this.#isStopping ? null : computeRelayStatus(failures, results, nowMs);
    const updates = sent.map(({ id, attempts, result }) => ({
      id,
      ...computeDeliveryUpdate(attempts, result, nowMs),
    }));
    const hasAccepted = accepted.length > 0;
    await deliveries.recordBatch(url, { updates, relayStatus, hasAccepted }, nowMs);
    for (const { id, paymentHash } of accepted) {
      logMilestone(log, 'receipt_delivered', paymentHash, { receipt: id, relay });
    }
    // Payers may name hosts that are not relays.
    const level = isProven ? 'info' : 'debug';
    if (failures === 0 && relayStatus !== null && relayStatus.failures > 0) {
      log[level](
        { event: 'relay_failing', relay, reason: relayStatus.lastError },
        'relay does not accept zap receipts; backing off',
      );
    }
    if (failures > 0 && relayStatus?.failures === 0) {
      log[level]({ event: 'relay_recovered', relay }, 'relay accepts zap receipts again');
    }
    return relayStatus?.failures ?? failures;
  }

  #reportFailure(error: unknown): void {
    if (!this.#isFailing) {
      this.#isFailing = true;
      this.#deps.log[retryLogLevel(error)](
        { event: 'receipt_delivery_failed', err: error },
        'zap receipt delivery failed; will retry',
      );
    }
  }
}
