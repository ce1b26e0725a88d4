import type { RecordedPayment, SignedReceipt } from '../quotes/record-observations.ts';
import { setImmediate as otherWork } from 'node:timers/promises';
import type { EventTemplate } from 'nostr-tools';
import { z } from 'zod';
import { toUnixSeconds } from '../clock.ts';
import type { Log } from '../log.ts';
import type { EventSigner } from '../nostr/events.ts';
import { receiptDateMs } from '../quotes/quote.ts';
import type { TransactionStore } from '../store.ts';
import { parseJson } from '../untrusted-text.ts';
import type { NewZapReceipt } from './zap-receipt-store.ts';
import { zapRequestRelays } from './zap-request.ts';

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
  ): Promise<SignedReceipt[]> {
    const zapRequests = await tx.zapReceipts.findRequests(payments.map(({ quote }) => quote));
    const made: (NewZapReceipt & SignedReceipt)[] = [];
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

/** NIP-57 appendix E. */
const ZAP_RECEIPT_KIND = 9735;

/** The parts of a zap request that its receipt has as tags of its own. */
const zapRequestSchema = z.object({
  pubkey: z.hex().length(64),
  tags: z.array(z.array(z.string())),
});

/** Kinds are 16-bit numbers (NIP-01). */
const DECIMAL_KIND = /^\d{1,5}$/;

/**
 * Makes the unsigned receipt of a zap (NIP-57 appendix E). It names the recipient, the sender and what was
 * zapped: the first value of the first tag of each kind. It has no preimage, which only the mint knows.
 *
 * @param zapRequest as the sender signed it; it was checked before it was stored
 * @param payment.request the BOLT11 invoice that was paid
 * @returns null if the text is no zap request, such as in a row that was edited by hand
 */
export function zapReceipt(
  zapRequest: string,
  payment: { request: string; paidAtSeconds: number },
): EventTemplate | null {
  const read = zapRequestSchema.safeParse(parseJson(zapRequest));
  const recipient = read.success ? firstValue(read.data.tags, 'p') : null;
  if (!read.success || recipient === null) {
    return null;
  }
  const { pubkey, tags } = read.data;
  const zappedKind = firstValue(tags, 'k');
  return {
    kind: ZAP_RECEIPT_KIND,
    created_at: payment.paidAtSeconds,
    content: '',
    tags: [
      ['p', recipient],
      ...tag('e', firstValue(tags, 'e')),
      ...tag('a', firstValue(tags, 'a')),
      ...tag('k', DECIMAL_KIND.test(zappedKind ?? '') ? zappedKind : null),
      ['P', pubkey],
      ['bolt11', payment.request],
      ['description', zapRequest],
    ],
  };
}

/** The value of the first tag with this name; null if there is none. */
function firstValue(tags: readonly (readonly string[])[], name: string): string | null {
  return tags.find((each) => each[0] === name)?.[1] ?? null;
}

function tag(name: string, value: string | null): string[][] {
  return value === null ? [] : [[name, value]];
}
