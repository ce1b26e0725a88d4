import { setImmediate as otherWork } from 'node:timers/promises';
import type { EventSigner } from '../nostr/event-signer.ts';
import { toUnixSeconds } from '../clock.ts';
import { receiptDateMs } from '../quotes/quote.ts';
import { zapReceipt } from './zap-receipt.ts';
import { zapRequestRelays } from './zap-request.ts';
import type { Log } from '../log.ts';
import type { TransactionStore } from '../store.ts';
import type { NewZapReceipt } from './zap-receipt-store.ts';

/** A payment that is being recorded. */
export interface RecordedPayment {
  /** `quotes.id`. */
  quote: number;
  /** The BOLT11 invoice that was paid. */
  request: string;
  /** Hex; null if the invoice of an older row could not be read. */
  paymentHash: string | null;
  /** Milliseconds since 1970. */
  paidAtMs: number;
}

/** What was signed and stored; it counts once the transaction is committed. */
export interface MadeReceipt extends NewZapReceipt {
  /** Hex; null if the invoice of an older row could not be read. */
  paymentHash: string | null;
}

/** A signature takes up to half a millisecond: other work runs after this number of signatures. */
const SIGNATURES_IN_A_ROW = 10;

/** What {@link ZapReceipts} needs. */
interface ZapReceiptsParts {
  signer: EventSigner;
  /** The operator's, normalised: each gets every receipt. */
  relays: readonly string[];
  allowPrivateRelays: boolean;
  log: Log;
}

/** Makes zap receipts (NIP-57 appendix E), in the transaction that first records their payment. */
export class ZapReceipts {
  readonly #parts: ZapReceiptsParts;

  constructor(parts: ZapReceiptsParts) {
    this.#parts = parts;
  }

  /**
   * Signs and stores the receipts of those payments that are zaps; they are due at once. Logs a receipt
   * that cannot be made, such as of a row that was edited by hand: the payment is recorded all the same.
   *
   * @param nowMs milliseconds since 1970
   */
  async make(
    tx: TransactionStore,
    payments: readonly RecordedPayment[],
    nowMs: number,
  ): Promise<MadeReceipt[]> {
    const zapRequests = await tx.zapReceipts.findRequests(payments.map(({ quote }) => quote));
    const made: MadeReceipt[] = [];
    for (const payment of payments) {
      const zapRequest = zapRequests.get(payment.quote);
      const receipt = zapRequest === undefined ? null : this.#receipt(payment, zapRequest, nowMs);
      if (receipt !== null) {
        made.push({ ...receipt, paymentHash: payment.paymentHash });
        if (made.length % SIGNATURES_IN_A_ROW === 0) {
          await otherWork();
        }
      }
    }
    await tx.zapReceipts.add(made);
    return made;
  }

  /** @returns null if it cannot be made */
  #receipt(
    { quote, request, paidAtMs }: RecordedPayment,
    zapRequest: string,
    nowMs: number,
  ): NewZapReceipt | null {
    const { signer, log, allowPrivateRelays: allowPrivate, relays: ownRelays } = this.#parts;
    const paidAtSeconds = toUnixSeconds(receiptDateMs(paidAtMs, nowMs));
    const template = zapReceipt(zapRequest, { request, paidAtSeconds });
    if (template === null) {
      log.warn(
        { event: 'zap_request_unreadable', quotes: [quote] },
        'cannot read the zap request of a quote; it gets no receipt',
      );
      return null;
    }
    try {
      const event = signer.sign(template);
      const relays = [
        ...new Set([...zapRequestRelays(zapRequest, { allowPrivate }), ...ownRelays]),
      ];
      return { quote, id: event.id, event: JSON.stringify(event), relays, createdAtMs: nowMs };
    } catch (error) {
      log.error(
        { event: 'zap_receipt_failed', err: error, quotes: [quote] },
        'cannot make a zap receipt',
      );
      return null;
    }
  }
}
