import { type BackgroundJob, createDatabaseJob } from '../background-job.ts';
import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { type Logger, logMilestone } from '../log.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import type { PublishResult } from '../relays/publish-result.ts';
import type { RelayPool } from '../relays/relay-pool.ts';
import { stripQuery } from '../relays/relay-url.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { computeDeliveryUpdate, computeRelayStatus } from './delivery-policy.ts';
import { DELIVERY_LIMITS } from './limits.ts';
import {
  claimDueReceipts,
  type DueReceipt,
  type DueRelay,
  findDueRelays,
  listDeliveryRelays,
  recordDeliveries,
} from './zap-receipt-store.ts';

interface DeliveryContext {
  db: Db;
  relayPool: RelayPool;
  operatorRelays: readonly string[];
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Delivers zap receipts to many relays concurrently, so that a slow relay does not delay the others. */
export class ReceiptDispatcher {
  readonly #context: DeliveryContext;
  readonly #scanJob: BackgroundJob;
  #isStopping = false;
  /** The next scan continues after this relay. */
  #lastScannedUrl = '';
  /** The relays of the newest receipts, the newest first. Each scan looks at them. */
  #newUrls: string[] = [];
  readonly #activeDeliveries = new Map<string, Promise<void>>();
  /** For the operator's relays, and those that have accepted a receipt. */
  readonly #provenSlots: SiteSemaphore;
  readonly #unprovenSlots: SiteSemaphore;

  constructor(context: DeliveryContext) {
    this.#context = context;
    const common = {
      maxPerSite: DELIVERY_LIMITS.maxRelaysPerSite,
      exemptUrls: context.operatorRelays,
    };
    this.#provenSlots = new SiteSemaphore({ max: DELIVERY_LIMITS.maxProvenRelays, ...common });
    this.#unprovenSlots = new SiteSemaphore({ max: DELIVERY_LIMITS.maxUnprovenRelays, ...common });
    const work = () => this.#startDueDeliveries();
    const failure = { event: 'receipt_delivery_failed', message: 'zap receipt delivery failed' };
    const { scanIntervalMs } = DELIVERY_LIMITS;
    this.#scanJob = createDatabaseJob({ work, intervalMs: scanIntervalMs }, failure, context);
  }

  start(): void {
    this.#scanJob.start();
  }

  /** Delivers receipts that were just stored immediately, instead of at the next scan. */
  wake(relayUrls: readonly string[]): void {
    const urls = new Set([...relayUrls, ...this.#newUrls]);
    this.#newUrls = [...urls].slice(0, DELIVERY_LIMITS.maxRelaysPerScan);
    void this.#scanJob.run();
  }

  /** Ends deliveries within a second, records their results and closes the relay connections. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#scanJob.stop();
    const allEnded = Promise.all(this.#activeDeliveries.values());
    await waitAtMost(500, allEnded);
    await this.#context.relayPool.close();
    await allEnded;
  }

  async #startDueDeliveries(): Promise<void> {
    const { db, clock, operatorRelays } = this.#context;
    const { maxRelaysPerScan } = DELIVERY_LIMITS;
    // Only some of these relays have deliveries that are due.
    const scannedUrls = await listDeliveryRelays(db, this.#lastScannedUrl, maxRelaysPerScan);
    const hasMore = scannedUrls.length === maxRelaysPerScan;
    this.#lastScannedUrl = hasMore ? (scannedUrls.at(-1) ?? '') : '';
    const urls = new Set([...operatorRelays, ...this.#newUrls, ...scannedUrls]);
    const dueRelays = await findDueRelays(db, clock(), [...urls]);
    for (const relay of sortByPriority(dueRelays, this.#newUrls)) {
      this.#tryDeliver(relay);
    }
  }

  /** Does nothing if the relay gets no slot, or an earlier delivery to it is still active. */
  #tryDeliver(relay: DueRelay): void {
    const { url } = relay;
    const slots = this.#isProven(relay) ? this.#provenSlots : this.#unprovenSlots;
    if (this.#isStopping || this.#activeDeliveries.has(url) || !slots.tryAcquire(url)) {
      return;
    }
    const delivery = this.#deliverToRelay(relay).finally(() => {
      slots.release(url);
      this.#activeDeliveries.delete(url);
    });
    this.#activeDeliveries.set(url, delivery);
  }

  #isProven({ url, acceptedAtMs }: DueRelay): boolean {
    return acceptedAtMs !== null || this.#context.operatorRelays.includes(url);
  }

  async #deliverToRelay(relay: DueRelay): Promise<void> {
    const { db, clock } = this.#context;
    const deadlineMs = performance.now() + DELIVERY_LIMITS.maxDurationMs;
    const { url } = relay;
    let { failures } = relay;
    // If the relay has failed, sends one receipt at a time, because a certain receipt may make the relay disconnect.
    const batchSize = failures > 0 ? 1 : DELIVERY_LIMITS.batchSize;
    try {
      do {
        const receipts = await claimDueReceipts(db, url, clock(), batchSize);
        if (receipts.length === 0) {
          return;
        }
        failures = await this.#sendBatch({ ...relay, failures }, receipts);
      } while (failures === 0 && !this.#isStopping && performance.now() < deadlineMs);
    } catch (error) {
      this.#scanJob.reportFailure(error);
    }
  }

  /** Returns the relay's consecutive failures after the batch. */
  async #sendBatch(relay: DueRelay, receipts: readonly DueReceipt[]): Promise<number> {
    const { db, relayPool, clock, log } = this.#context;
    const { url, failures } = relay;
    const loggedUrl = stripQuery(url);
    const results = await Promise.all(receipts.map((receipt) => relayPool.publish(url, receipt)));
    const nowMs = clock();
    const updates = receipts.map(({ id, paymentHash, attempts }, i) => {
      const update = computeDeliveryUpdate(attempts, results[i] as PublishResult, nowMs);
      return { id, paymentHash, ...update };
    });
    // At shutdown, this process closes the connections itself. The relay has not failed.
    const relayStatus = this.#isStopping ? null : computeRelayStatus(failures, results, nowMs);
    await recordDeliveries(db, url, updates, relayStatus, nowMs);
    for (const { id, state, paymentHash } of updates) {
      if (state === 'accepted') {
        logMilestone(log, 'receipt_delivered', paymentHash, { receipt: id, relay: loggedUrl });
      }
    }
    // Payers may name hosts that are not relays, so the failures of unproven relays are only logged as `debug`.
    const level = this.#isProven(relay) ? 'info' : 'debug';
    const newFailures = relayStatus?.failures ?? failures;
    // A single failure means little.
    if (failures <= 1 && newFailures > 1) {
      const event = 'relay_failing';
      const message = 'relay does not accept zap receipts; backing off';
      log[level]({ event, relay: loggedUrl, reason: relayStatus?.lastError }, message);
    } else if (failures > 1 && newFailures === 0) {
      const event = 'relay_recovered';
      log[level]({ event, relay: loggedUrl }, 'relay accepts zap receipts again');
    }
    return newFailures;
  }
}

/**
 * Relays with fewer failures are first. Among equals, the relays of the newest receipts are first, because payers can name
 * any number of relays that never respond, and other relays must not wait for all of these.
 */
function sortByPriority(relays: readonly DueRelay[], newUrls: readonly string[]): DueRelay[] {
  const ages = new Map(newUrls.map((url, index) => [url, index]));
  const getAge = ({ url }: DueRelay) => ages.get(url) ?? newUrls.length;
  return relays.toSorted((a, b) => a.failures - b.failures || getAge(a) - getAge(b));
}
