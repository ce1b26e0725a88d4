import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { EventTemplate } from 'nostr-tools';
import { z } from 'zod';
import { toUnixSeconds } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { EventSigner } from '../nostr/events.ts';
import type {
  RecordedPayment,
  SignedReceipt,
  SignReceipts,
} from '../quotes/observation-recorder.ts';
import { computeReceiptCreatedAtMs } from '../quotes/quote-state.ts';
import { tryParseJson } from '../untrusted-text.ts';
import type { NewZapReceipt } from './zap-receipt-store.ts';
import { extractReceiptRelays } from './zap-request.ts';

/** Other work may run after this many signatures, each of which takes up to half a millisecond. */
const SIGNATURES_BEFORE_YIELD = 10;

interface ReceiptContext {
  signer: EventSigner;
  /** Normalised URLs. Every receipt is published there. */
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  log: Logger;
}

/**
 * Creates the signer of zap receipts (NIP-57 appendix E). If it cannot create a receipt, it logs the failure, so that
 * the payment is recorded nevertheless.
 */
export function createReceiptSigner(context: ReceiptContext): SignReceipts {
  return async (tx, payments, nowMs) => {
    const quoteRowIds = payments.map(({ quoteRowId }) => quoteRowId);
    const zapRequests = await tx.zapReceipts.findZapRequests(quoteRowIds);
    const signedReceipts: (NewZapReceipt & SignedReceipt)[] = [];
    for (const payment of payments) {
      const zapRequest = zapRequests.get(payment.quoteRowId);
      const receipt =
        zapRequest === undefined ? null : signReceipt(context, payment, zapRequest, nowMs);
      if (receipt !== null) {
        signedReceipts.push({ ...receipt, paymentHash: payment.paymentHash });
        if (signedReceipts.length % SIGNATURES_BEFORE_YIELD === 0) {
          await yieldToEventLoop();
        }
      }
    }
    await tx.zapReceipts.add(signedReceipts);
    return signedReceipts;
  };
}

/** @returns null if the receipt cannot be created */
function signReceipt(
  { signer, operatorRelays, allowPrivateNetworks, log }: ReceiptContext,
  { quoteRowId, request, paidAtMs }: RecordedPayment,
  zapRequestJson: string,
  nowMs: number,
): NewZapReceipt | null {
  const createdAtSeconds = toUnixSeconds(computeReceiptCreatedAtMs(paidAtMs, nowMs));
  const template = createZapReceiptTemplate(zapRequestJson, { request, createdAtSeconds });
  if (template === null) {
    log.warn(
      { event: 'zap_request_unreadable', quotes: [quoteRowId] },
      'stored zap request is unreadable; the payment gets no receipt',
    );
    return null;
  }
  try {
    const event = signer.sign(template);
    const senderRelays = extractReceiptRelays(zapRequestJson, { allowPrivateNetworks });
    return {
      quote: quoteRowId,
      id: event.id,
      eventJson: JSON.stringify(event),
      relayUrls: [...new Set([...senderRelays, ...operatorRelays])],
      createdAtMs: nowMs,
    };
  } catch (error) {
    log.error(
      { event: 'zap_receipt_failed', err: error, quotes: [quoteRowId] },
      'cannot create a zap receipt; the payment gets none',
    );
    return null;
  }
}

/** NIP-57 appendix E. */
const ZAP_RECEIPT_KIND = 9735;

/** The parts of a zap request that are copied into its receipt. */
const zapRequestSchema = z.object({
  pubkey: z.hex().length(64),
  tags: z.array(z.array(z.string())),
});

/** Kinds are 16-bit numbers (NIP-01). */
const KIND_PATTERN = /^\d{1,5}$/;

/**
 * Creates the unsigned receipt of a zap (NIP-57 appendix E). The receipt contains no preimage, which only the mint
 * knows.
 *
 * @param zapRequestJson the zap request as the sender signed it
 * @param payment.request the BOLT 11 invoice that was paid
 * @returns null if the text is not a zap request, for example because the row was edited by hand
 */
export function createZapReceiptTemplate(
  zapRequestJson: string,
  payment: { request: string; createdAtSeconds: number },
): EventTemplate | null {
  const parsed = zapRequestSchema.safeParse(tryParseJson(zapRequestJson));
  const recipient = parsed.success ? findTagValue(parsed.data.tags, 'p') : null;
  if (!parsed.success || recipient === null) {
    return null;
  }
  const { pubkey, tags } = parsed.data;
  const zappedKind = findTagValue(tags, 'k') ?? '';
  const receiptTags = [
    ['p', recipient],
    ['e', findTagValue(tags, 'e')],
    ['a', findTagValue(tags, 'a')],
    ['k', KIND_PATTERN.test(zappedKind) ? zappedKind : null],
    ['P', pubkey],
    ['bolt11', payment.request],
    ['description', zapRequestJson],
  ];
  return {
    kind: ZAP_RECEIPT_KIND,
    created_at: payment.createdAtSeconds,
    content: '',
    tags: receiptTags.filter((tag): tag is string[] => tag[1] !== null),
  };
}

/** Returns the value of the first tag with this name. */
function findTagValue(tags: readonly (readonly string[])[], name: string): string | null {
  return tags.find((tag) => tag[0] === name)?.[1] ?? null;
}
