import { BackgroundJob } from '../background-job.ts';
import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import { type Logger, logMilestone } from '../log.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import { OutageTracker } from '../outage-tracker.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { computeDeliveryUpdate, computeRelayStatus } from './delivery-policy.ts';
import { DELIVERY_LIMITS } from './limits.ts';
import type { RelayPool } from './relay-pool.ts';
import { stripQuery } from './relay-url.ts';
import {
  claimDueReceipts,
  type DueReceipt,
  type DueRelay,
  findDueRelays,
  listWaitingRelays,
  recordDeliveries,
} from './zap-receipt-store.ts';

interface DeliveryContext {
  db: Db;
  relayPool: RelayPool;
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  clock: Clock;
  log: Logger;
}

/** Delivers due zap receipts to many relays concurrently, so that a slow relay does not delay the others. */
export class ReceiptDispatcher {
  readonly #context: DeliveryContext;
  readonly #scanJob: BackgroundJob;
  #isStopping = false;
  /** The next scan continues after it. */
  #lastScannedUrl = '';
  /** The relays of new receipts, oldest first, until they get a slot or are not due. */
  #newUrls = new Set<string>();
  readonly #activeDeliveries = new Map<string, Promise<void>>();
  /** For the operator's relays, and those that have accepted a receipt. */
  readonly #provenSlots: SiteSemaphore;
  readonly #unprovenSlots: SiteSemaphore;
  readonly #outage = new OutageTracker(() => performance.now());

  constructor(context: DeliveryContext) {
    this.#context = context;
    const limits = {
      maxPerSite: DELIVERY_LIMITS.maxRelaysPerSite,
      exemptUrls: context.operatorRelays,
      allowPrivateNetworks: context.allowPrivateNetworks,
    };
    this.#provenSlots = new SiteSemaphore({ max: DELIVERY_LIMITS.maxProvenRelays, ...limits });
    this.#unprovenSlots = new SiteSemaphore({ max: DELIVERY_LIMITS.maxUnprovenRelays, ...limits });
    this.#scanJob = new BackgroundJob({
      work: () => this.#startDueDeliveries(),
      intervalMs: DELIVERY_LIMITS.scanIntervalMs,
      onError: (error) => this.#logFailure(error),
    });
  }

  start(): void {
    this.#scanJob.start();
  }

  /** Delivers receipts that were just stored immediately, instead of at the next scan. */
  wake(relayUrls: readonly string[]): void {
    for (const url of relayUrls) {
      this.#newUrls.add(url);
    }
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
    // Relays with open deliveries, of which few may be due. A scan looks at a part of them.
    const waitingUrls = await listWaitingRelays(
      db,
      this.#lastScannedUrl,
      DELIVERY_LIMITS.maxRelaysPerScan,
    );
    const hasMore = waitingUrls.length === DELIVERY_LIMITS.maxRelaysPerScan;
    this.#lastScannedUrl = hasMore ? (waitingUrls.at(-1) ?? '') : '';
    const newUrls = [...this.#newUrls].slice(-DELIVERY_LIMITS.maxRelaysPerScan);
    this.#newUrls.clear();
    const urls = new Set([...operatorRelays, ...newUrls, ...waitingUrls]);
    const dueRelays = await findDueRelays(db, clock(), [...urls]);
    const notStarted = sortByPriority(dueRelays, newUrls).filter(
      (relay) => !this.#tryDeliver(relay),
    );
    const notStartedUrls = new Set(notStarted.map(({ url }) => url));
    const remainingUrls = newUrls.filter((url) => notStartedUrls.has(url));
    // Receipts that were stored meanwhile are newer.
    this.#newUrls = new Set([...remainingUrls, ...this.#newUrls]);
    this.#outage.recordSuccess();
  }

  /** Returns false if the relay got no slot, or an earlier delivery to it is still active. */
  #tryDeliver(relay: DueRelay): boolean {
    const { url } = relay;
    const slots = this.#isProven(relay) ? this.#provenSlots : this.#unprovenSlots;
    if (this.#isStopping || this.#activeDeliveries.has(url) || !slots.tryAcquire(url)) {
      return false;
    }
    const delivery = this.#deliverToRelay(relay).finally(() => {
      slots.release(url);
      this.#activeDeliveries.delete(url);
    });
    this.#activeDeliveries.set(url, delivery);
    return true;
  }

  #isProven({ url, acceptedAtMs }: DueRelay): boolean {
    return acceptedAtMs !== null || this.#context.operatorRelays.includes(url);
  }

  async #deliverToRelay(relay: DueRelay): Promise<void> {
    const { db, clock } = this.#context;
    const deadlineMs = performance.now() + DELIVERY_LIMITS.maxDurationMs;
    const { url } = relay;
    let { failures } = relay;
    // After a failure, sends one receipt at a time, because a certain receipt may make the relay disconnect.
    const limit = failures > 0 ? 1 : DELIVERY_LIMITS.batchSize;
    try {
      do {
        const receipts = await claimDueReceipts(db, url, clock(), limit);
        if (receipts.length === 0) {
          return;
        }
        failures = await this.#sendBatch({ ...relay, failures }, receipts);
      } while (failures === 0 && !this.#isStopping && performance.now() < deadlineMs);
    } catch (error) {
      this.#logFailure(error);
    }
  }

  /** @returns the relay's consecutive failures after the batch */
  async #sendBatch(relay: DueRelay, receipts: readonly DueReceipt[]): Promise<number> {
    const { db, relayPool, clock, log } = this.#context;
    const { url, failures } = relay;
    const loggedUrl = stripQuery(url);
    const published = await Promise.all(
      receipts.map(async (receipt) => ({
        ...receipt,
        result: await relayPool.publish(url, receipt),
      })),
    );
    const nowMs = clock();
    const updates = published.map(({ id, paymentHash, attempts, result }) => ({
      id,
      paymentHash,
      ...computeDeliveryUpdate(attempts, result, nowMs),
    }));
    const results = published.map(({ result }) => result);
    // At shutdown, this process closes the connections itself, which is no failure of the relay.
    const relayStatus = this.#isStopping ? null : computeRelayStatus(failures, results, nowMs);
    await recordDeliveries(db, url, updates, relayStatus, nowMs);
    for (const { id, state, paymentHash } of updates) {
      if (state === 'accepted') {
        logMilestone(log, 'receipt_delivered', paymentHash, { receipt: id, relay: loggedUrl });
      }
    }
    // Not logged for unproven relays, because payers may name hosts that are not relays.
    const level = this.#isProven(relay) ? 'info' : 'debug';
    // A relay that fails only now and then is not logged.
    if (failures === 1 && relayStatus !== null && relayStatus.failures > 1) {
      log[level](
        { event: 'relay_failing', relay: loggedUrl, reason: relayStatus.lastError },
        'relay does not accept zap receipts; backing off',
      );
    }
    if (failures > 1 && relayStatus?.failures === 0) {
      log[level](
        { event: 'relay_recovered', relay: loggedUrl },
        'relay accepts zap receipts again',
      );
    }
    return relayStatus?.failures ?? failures;
  }

  #logFailure(error: unknown): void {
    const beginsOutage = this.#outage.recordFailure();
    if (beginsOutage) {
      this.#context.log[retryLogLevel(error)](
        { event: 'receipt_delivery_failed', err: error },
        'zap receipt delivery failed; will retry',
      );
    }
  }
}

/**
 * Among relays with equally many failures, those of the newest receipts are first: payers can name any number of relays
 * that never respond, and the others must not wait for all of them.
 */
function sortByPriority(relays: readonly DueRelay[], newUrls: readonly string[]): DueRelay[] {
  const ranks = new Map(newUrls.map((url, index) => [url, index]));
  const rank = ({ url }: DueRelay) => ranks.get(url) ?? -1;
  return relays.toSorted((a, b) => a.failures - b.failures || rank(b) - rank(a));
}
