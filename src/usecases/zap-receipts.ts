import { setImmediate as othersTurn } from 'node:timers/promises';
import type { EventSigner } from '../auth/event-signer.ts';
import { toUnixSeconds } from '../domain/clock.ts';
import { receiptDateMs } from '../domain/payment-time.ts';
import { zapReceipt } from '../domain/zap-receipt.ts';
import { zapRequestRelays } from '../domain/zap-request.ts';
import type { Log } from '../log.ts';
import type { TransactionStore } from '../store/store.ts';
import type { NewZapReceipt } from '../store/zap-receipt-store.ts';

/** A payment that is being recorded. */
export interface RecordedPayment {
  /** `quotes.id`. */
  quote: number;
  /** The BOLT11 invoice that was paid. */
  request: string;
  /** Hex; null where the invoice of an older row could not be read. */
  paymentHash: string | null;
  /** Milliseconds since 1970. */
  paidAtMs: number;
}

/** What was signed and kept; it counts once the transaction is committed. */
export interface MadeReceipts {
  receipts: { paymentHash: string | null; id: string; relays: number }[];
  /** The relays that they are due at (normalised urls), each once. */
  dueAt: string[];
}

/** Signatures take up to half a millisecond each: others wait no longer than for so many of them. */
const LOT = 10;

/** Makes the receipts of zaps (NIP-57 appendix E), in the transaction that first records their payment. */
export class ZapReceipts {
  readonly #signer: EventSigner;
  readonly #relays: readonly string[];
  readonly #allowPrivateRelays: boolean;
  readonly #log: Log;

  /** @param parts.relays the operator's, normalised: each gets every receipt */
  constructor(parts: {
    signer: EventSigner;
    relays: readonly string[];
    allowPrivateRelays: boolean;
    log: Log;
  }) {
    this.#signer = parts.signer;
    this.#relays = parts.relays;
    this.#allowPrivateRelays = parts.allowPrivateRelays;
    this.#log = parts.log;
  }

  /**
   * Signs and keeps the receipts of those of these payments that are zaps; they are due at once. Where
   * one cannot be made, as of a row that somebody changed by hand, that is logged: no payment is kept
   * back for a receipt.
   *
   * @param nowMs milliseconds since 1970
   */
  async make(
    tx: TransactionStore,
    payments: readonly RecordedPayment[],
    nowMs: number,
  ): Promise<MadeReceipts> {
    const zapRequests = await tx.zapReceipts.findRequests(payments.map(({ quote }) => quote));
    const zaps = payments.filter(({ quote }) => zapRequests.has(quote));
    const made: MadeReceipts['receipts'] = [];
    const dueAt = new Set<string>();
    for (let start = 0; start < zaps.length; start += LOT) {
      if (start > 0) {
        await othersTurn();
      }
      const receipts: NewZapReceipt[] = [];
      for (const zap of zaps.slice(start, start + LOT)) {
        const receipt = this.#receipt(zap, zapRequests.get(zap.quote) ?? '', nowMs);
        if (receipt !== null) {
          const { id, relays } = receipt;
          receipts.push(receipt);
          made.push({ paymentHash: zap.paymentHash, id, relays: relays.length });
        }
      }
      for (const relay of await tx.zapReceipts.add(receipts)) {
        dueAt.add(relay);
      }
    }
    return { receipts: made, dueAt: [...dueAt] };
  }

  /** Null where it cannot be made. */
  #receipt(zap: RecordedPayment, zapRequest: string, nowMs: number): NewZapReceipt | null {
    try {
      return this.#sign(zap, zapRequest, nowMs);
    } catch (error) {
      this.#log.error({ err: error, quotes: [zap.quote] }, 'a zap receipt could not be made');
      return null;
    }
  }

  #sign(
    { quote, request, paidAtMs }: RecordedPayment,
    zapRequest: string,
    nowMs: number,
  ): NewZapReceipt | null {
    const paidAtSeconds = toUnixSeconds(receiptDateMs(paidAtMs, nowMs));
    const template = zapReceipt(zapRequest, { request, paidAtSeconds });
    if (template === null) {
      this.#log.warn(
        { quotes: [quote] },
        'the zap request of this quote cannot be read: it gets no receipt',
      );
      return null;
    }
    const event = this.#signer.sign(template);
    const named = zapRequestRelays(zapRequest, { allowPrivate: this.#allowPrivateRelays });
    return {
      quote,
      id: event.id,
      event: JSON.stringify(event),
      relays: [...new Set([...named, ...this.#relays])],
      createdAtMs: nowMs,
    };
  }
}
