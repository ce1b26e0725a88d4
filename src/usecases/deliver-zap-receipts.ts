import type { Clock } from '../domain/clock.ts';
import {
  deliveryAfter,
  type RelayTrouble,
  standingAfter,
  troubleIn,
} from '../domain/receipt-delivery.ts';
import { withoutQuery } from '../domain/relay-url.ts';
import type { Log } from '../log.ts';
import type { RelayPool } from '../relays/relay-pool.ts';
import type { DueReceipt, DueRelay } from '../store/receipt-delivery-store.ts';
import type { Store } from '../store/store.ts';
import { logMilestone } from './milestones.ts';

/** At 100 ms there and back, 300 receipts a second; in memory, half a megabyte for each relay. */
const BATCH = 32;

/** Longer than a handshake and an answer may take. Receipts of a killed process come back after that. */
const CLAIM_MS = 30_000;

/** Then it is another relay's turn. */
const MAX_DURATION_MS = 20_000;

/** What came of the receipts that were sent to a relay. */
interface Progress {
  hasAccepted: boolean;
  trouble: RelayTrouble | null;
}

/** What {@link DeliverZapReceipts} needs. */
export interface DeliverZapReceiptsParts {
  deliveries: Pick<Store['deliveries'], 'claim' | 'record' | 'release' | 'recordRelay'>;
  relays: Pick<RelayPool, 'publish'>;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}

/** Sends zap receipts to relays, and records the results. */
export class DeliverZapReceipts {
  readonly #parts: DeliverZapReceiptsParts;

  constructor(parts: DeliverZapReceiptsParts) {
    this.#parts = parts;
  }

  /**
   * Sends a relay what is due there, batch after batch, until nothing is due, the relay is in trouble, or
   * time is up. A relay that failed before is sent a single receipt first: one that it disconnects at must
   * not take others with it.
   *
   * @param relay.isOwn whether the operator named it
   * @param signal ends it after the batch in flight
   */
  async run(relay: DueRelay & { isOwn: boolean }, signal: AbortSignal): Promise<void> {
    const endsAtMs = this.#parts.monotonicMs() + MAX_DURATION_MS;
    const progress: Progress = { hasAccepted: false, trouble: null };
    let limit = relay.failures > 0 ? 1 : BATCH;
    let isDone = false;
    let hasSent = false;
    while (!isDone) {
      const receipts = await this.#claim(relay.url, limit);
      await this.#send(relay.url, receipts, progress);
      hasSent ||= receipts.length > 0;
      limit = BATCH;
      const isOver = signal.aborted || this.#parts.monotonicMs() >= endsAtMs;
      isDone = receipts.length === 0 || progress.trouble !== null || isOver;
    }
    // The end of this process says nothing about the relay.
    if (hasSent && !signal.aborted) {
      await this.#recordRelay(relay, progress);
    }
  }

  #claim(url: string, limit: number): Promise<DueReceipt[]> {
    const nowMs = this.#parts.clock();
    return this.#parts.deliveries.claim(url, { nowMs, untilMs: nowMs + CLAIM_MS, limit });
  }

  async #send(url: string, receipts: readonly DueReceipt[], progress: Progress): Promise<void> {
    const sent = await Promise.all(
      receipts.map(async (receipt) => {
        const result = await this.#parts.relays.publish(url, receipt);
        return {
          ...receipt,
          result,
          step: deliveryAfter(receipt.tries, result, this.#parts.clock()),
        };
      }),
    );
    const tried = sent.flatMap(({ id, step }) => (step === null ? [] : [{ id, ...step }]));
    const unsent = sent.flatMap(({ id, step }) => (step === null ? [id] : []));
    await this.#parts.deliveries.record(url, tried, this.#parts.clock());
    await this.#parts.deliveries.release(url, unsent);
    for (const { id, paymentHash, result } of sent) {
      progress.trouble ??= troubleIn(result);
      if (result.outcome === 'accepted') {
        progress.hasAccepted = true;
        const relay = withoutQuery(url);
        logMilestone(this.#parts.log, 'receipt_delivered', paymentHash, { receipt: id, relay });
      }
    }
  }

  async #recordRelay(
    { url, failures, hasAccepted, isOwn }: DueRelay & { isOwn: boolean },
    progress: Progress,
  ): Promise<void> {
    const nowMs = this.#parts.clock();
    const standing = standingAfter(failures, progress, nowMs);
    const { hasAccepted: acceptedNow } = progress;
    await this.#parts.deliveries.recordRelay(url, { ...standing, hasAccepted: acceptedNow }, nowMs);
    // Strangers name hosts that never were relays.
    const level = hasAccepted || isOwn ? 'info' : 'debug';
    const relay = withoutQuery(url);
    if (failures === 0 && standing.failures > 0) {
      this.#parts.log[level](
        { event: 'relay_failing', relay, reason: standing.word },
        'relay takes no zap receipts; backing off',
      );
    }
    if (failures > 0 && standing.failures === 0) {
      this.#parts.log[level]({ event: 'relay_recovered', relay }, 'relay takes zap receipts again');
    }
  }
}
