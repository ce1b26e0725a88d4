import { BackgroundJob } from '../background-job.ts';
import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import { type Logger, logMilestone } from '../log.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import { OutageTracker } from '../outage-tracker.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { computeDeliveryUpdate, computeRelayStatus } from './delivery-policy.ts';
import {
  claimDueReceipts,
  type DueReceipt,
  type DueRelay,
  findDueRelays,
  listWaitingRelays,
  recordDeliveryBatch,
} from './receipt-delivery-store.ts';
import type { RelayPool } from './relay-pool.ts';
import { stripQuery } from './zap-request.ts';

/** How often due deliveries are searched: retries, and receipts that a killed process did not deliver. */
const SCAN_INTERVAL_MS = 1_000;

/**
 * How many relays with open deliveries a scan looks at. The next scan continues with the others. Payers can name any
 * number of relays, and looking at 50,000 of them takes a tenth of a second with SQLite.
 */
const MAX_RELAYS_PER_SCAN = 1_000;

/**
 * How many relays receive receipts concurrently. Each needs a socket and half a megabyte for receipts. Proven relays
 * are the operator's relays and those that have accepted a receipt before. They have their own limit, because payers
 * may name any number of relays that never respond.
 */
const MAX_PROVEN_RELAYS = 128;
const MAX_UNPROVEN_RELAYS = 32;

/** Payers can invent any number of relay URLs on the same host. */
const MAX_RELAYS_PER_SITE = 4;

/** Receipts that are sent to a relay at once. At a round trip of 100 ms, 320 receipts per second. */
const BATCH_SIZE = 32;

/** Longer than a delivery may take. After this time, receipts that a killed process claimed are due again. */
const CLAIM_TIMEOUT_MS = 30_000;

/** After this time, a delivery ends, so that another relay gets the slot. */
const MAX_DELIVERY_DURATION_MS = 20_000;

/** At shutdown, how long to wait for the responses to receipts that were sent. */
const SHUTDOWN_GRACE_MS = 500;

interface ReceiptDispatcherDeps {
  db: Db;
  relayPool: Pick<RelayPool, 'publish' | 'close'>;
  /** Normalised URLs. The limits do not apply to these relays. */
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  clock: Clock;
  log: Logger;
}

/** Delivers due zap receipts to many relays concurrently, so that a slow relay does not delay the others. */
export class ReceiptDispatcher {
  readonly #deps: ReceiptDispatcherDeps;
  readonly #scanJob: BackgroundJob;
  #isStopping = false;
  /** Where the next scan continues; empty: at the first relay. */
  #lastScannedUrl = '';
  /** The relays of new receipts, oldest first. Each scan looks at them, too, until they are due no longer or get a slot. */
  #relaysOfNewReceipts = new Set<string>();
  /** By relay URL. */
  readonly #activeDeliveries = new Map<string, Promise<void>>();
  readonly #provenSlots: SiteSemaphore;
  readonly #unprovenSlots: SiteSemaphore;
  readonly #outage = new OutageTracker(() => performance.now());

  constructor(deps: ReceiptDispatcherDeps) {
    this.#deps = deps;
    const limits = {
      maxPerSite: MAX_RELAYS_PER_SITE,
      exemptUrls: deps.operatorRelays,
      allowPrivateNetworks: deps.allowPrivateNetworks,
    };
    this.#provenSlots = new SiteSemaphore({ max: MAX_PROVEN_RELAYS, ...limits });
    this.#unprovenSlots = new SiteSemaphore({ max: MAX_UNPROVEN_RELAYS, ...limits });
    this.#scanJob = new BackgroundJob({
      work: () => this.#startDueDeliveries(),
      intervalMs: SCAN_INTERVAL_MS,
      onError: (error) => this.#reportFailure(error),
    });
  }

  start(): void {
    this.#scanJob.start();
  }

  /** Delivers receipts that were just stored immediately, instead of at the next scan. */
  wake(relayUrls: readonly string[]): void {
    for (const url of relayUrls) {
      this.#relaysOfNewReceipts.add(url);
    }
    void this.#scanJob.run();
  }

  /** Ends deliveries within a second, records their results and closes the relay connections. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scanJob.stop();
    const allEnded = Promise.all(this.#activeDeliveries.values());
    await waitAtMost(SHUTDOWN_GRACE_MS, allEnded);
    await this.#deps.relayPool.close();
    await allEnded;
  }

  /** Starts to deliver to each due relay, as far as the limits allow. Later scans find the other relays again. */
  async #startDueDeliveries(): Promise<void> {
    const { db, clock, operatorRelays } = this.#deps;
    const waitingUrls = await listWaitingRelays(db, this.#lastScannedUrl, MAX_RELAYS_PER_SCAN);
    const hasMore = waitingUrls.length === MAX_RELAYS_PER_SCAN;
    this.#lastScannedUrl = (hasMore && waitingUrls.at(-1)) || '';
    const newUrls = [...this.#relaysOfNewReceipts].reverse().slice(0, MAX_RELAYS_PER_SCAN);
    this.#relaysOfNewReceipts.clear();
    const urls = new Set([...operatorRelays, ...newUrls, ...waitingUrls]);
    const dueRelays = await findDueRelays(db, clock(), [...urls]);
    const newUrlsWithoutSlot: string[] = [];
    for (const relay of sortNewestFirst(dueRelays, newUrls)) {
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
      } else if (newUrls.includes(url)) {
        newUrlsWithoutSlot.push(url);
      }
    }
    // Receipts that were stored meanwhile are newer.
    this.#relaysOfNewReceipts = new Set([
      ...newUrlsWithoutSlot.reverse(),
      ...this.#relaysOfNewReceipts,
    ]);
    this.#outage.recordSuccess();
  }

  /** Sends due receipts to a relay in batches, until no receipt is due, the relay fails, or the time is up. */
  async #deliverToRelay(relay: DueRelay, isProven: boolean): Promise<void> {
    const { db, clock } = this.#deps;
    const deadlineMs = performance.now() + MAX_DELIVERY_DURATION_MS;
    const { url } = relay;
    let { failures } = relay;
    // After a failure, sends one receipt at a time, because a certain receipt may make the relay disconnect.
    const limit = failures > 0 ? 1 : BATCH_SIZE;
    try {
      do {
        const nowMs = clock();
        const claim = { nowMs, claimedUntilMs: nowMs + CLAIM_TIMEOUT_MS, limit };
        const receipts = await claimDueReceipts(db, url, claim);
        if (receipts.length === 0) {
          return;
        }
        failures = await this.#sendBatch(url, failures, isProven, receipts);
      } while (failures === 0 && !this.#isStopping && performance.now() < deadlineMs);
    } catch (error) {
      this.#reportFailure(error);
    }
  }

  /** @returns the relay's consecutive failures after the batch */
  async #sendBatch(
    url: string,
    failures: number,
    isProven: boolean,
    receipts: readonly DueReceipt[],
  ): Promise<number> {
    const { db, relayPool, clock, log } = this.#deps;
    const relay = stripQuery(url);
    const receiptsWithResults = await Promise.all(
      receipts.map(async (receipt) => ({
        ...receipt,
        result: await relayPool.publish(url, receipt),
      })),
    );
    const nowMs = clock();
    const results = receiptsWithResults.map(({ result }) => result);
    const acceptedReceipts = receiptsWithResults.filter(
      ({ result }) => result.outcome === 'accepted',
    );
    // At shutdown, this process closes the connections itself, which is no failure of the relay.
    const relayStatus = this.#isStopping ? null : computeRelayStatus(failures, results, nowMs);
    const updates = receiptsWithResults.map(({ id, attempts, result }) => ({
      id,
      ...computeDeliveryUpdate(attempts, result, nowMs),
    }));
    const hasAccepted = acceptedReceipts.length > 0;
    await recordDeliveryBatch(db, url, { updates, relayStatus, hasAccepted }, nowMs);
    for (const { id, paymentHash } of acceptedReceipts) {
      logMilestone(log, 'receipt_delivered', paymentHash, { receipt: id, relay });
    }
    // Not logged for unproven relays, because payers may name hosts that are not relays.
    const level = isProven ? 'info' : 'debug';
    // A relay that fails only now and then is not logged.
    if (failures === 1 && relayStatus !== null && relayStatus.failures > 1) {
      log[level](
        { event: 'relay_failing', relay, reason: relayStatus.lastError },
        'relay does not accept zap receipts; backing off',
      );
    }
    if (failures > 1 && relayStatus?.failures === 0) {
      log[level]({ event: 'relay_recovered', relay }, 'relay accepts zap receipts again');
    }
    return relayStatus?.failures ?? failures;
  }

  #reportFailure(error: unknown): void {
    if (this.#outage.recordFailure()) {
      this.#deps.log[retryLogLevel(error)](
        { event: 'receipt_delivery_failed', err: error },
        'zap receipt delivery failed; will retry',
      );
    }
  }
}

/**
 * Among relays with equally many failures, puts those of the newest receipts first: payers can name any number of
 * relays that never respond, and the others must not wait for all of them.
 */
function sortNewestFirst(relays: readonly DueRelay[], newUrls: readonly string[]): DueRelay[] {
  const ranks = new Map(newUrls.map((url, index) => [url, index]));
  const rank = ({ url }: DueRelay) => ranks.get(url) ?? newUrls.length;
  return relays.toSorted((a, b) => a.failures - b.failures || rank(a) - rank(b));
}
