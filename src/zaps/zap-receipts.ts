import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { EventTemplate } from 'nostr-tools';
import { toUnixSeconds } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import { type NostrEvent, nostrEventSchema, tagValues } from '../nostr/event-schema.ts';
import type { EventSigner } from '../nostr/events.ts';
import type { RecordedPayment, SignReceipts } from '../quotes/observation-recorder.ts';
import { addQuoteEvents, type ReceiptRefusal } from '../quotes/quote-event-store.ts';
import { computeReceiptCreatedAtMs } from '../quotes/quote-state.ts';
import { tryParseJson } from '../untrusted-text.ts';
import { HOUR_MS, MAX_RECEIPT_DELAY_MS } from './limits.ts';
import {
  addZapReceipts,
  countReceiptsSince,
  findUsedZapRequests,
  type NewZapReceipt,
} from './zap-receipt-store.ts';
import { extractReceiptRelays } from './zap-request.ts';

interface ReceiptContext {
  signer: EventSigner;
  mintPolicy: Pick<MintPolicy, 'hasZapReceipts'>;
  maxReceiptsPerHour: number;
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  log: Logger;
}

interface Zap extends Omit<RecordedPayment, 'zapRequest'> {
  zapRequest: NostrEvent;
  /** The zap request exactly as its sender signed it. */
  zapRequestJson: string;
}

/**
 * Creates the function that signs and stores zap receipts (NIP-57 appendix E) in the transaction that records payments. It
 * refuses receipts that a dishonest mint could use to forge zaps. The transaction has locked the recipients, so no other
 * process counts their receipts or uses the same zap request at the same time: a request is for one recipient only.
 */
export function createReceiptSigner(context: ReceiptContext): SignReceipts {
  const { mintPolicy, maxReceiptsPerHour } = context;
  return async (tx, mintUrl, payments, nowMs) => {
    const zaps = payments.flatMap((payment) => {
      const zapRequestJson = payment.zapRequest ?? '';
      const zapRequest = parseZapRequest(zapRequestJson);
      return zapRequest === null ? [] : { ...payment, zapRequest, zapRequestJson };
    });
    if (zaps.length === 0) {
      return { signed: [], refused: [] };
    }
    const zapRequestIds = zaps.map(({ zapRequest }) => zapRequest.id);
    const usedIds = await findUsedZapRequests(tx, zapRequestIds);
    const pubkeys = zaps.map(({ pubkey }) => pubkey);
    const recentCounts = await countReceiptsSince(tx, pubkeys, nowMs - HOUR_MS, maxReceiptsPerHour);

    const findRefusal = ({ pubkey, zapRequest }: Zap): ReceiptRefusal | null => {
      if (!mintPolicy.hasZapReceipts(mintUrl)) {
        return 'mint_not_in_zap_mints';
      }
      if (nowMs - zapRequest.created_at * 1_000 > MAX_RECEIPT_DELAY_MS) {
        return 'zap_request_too_old';
      }
      if (usedIds.has(zapRequest.id)) {
        return 'zap_request_reused';
      }
      const isLimitReached = (recentCounts.get(pubkey) ?? 0) >= maxReceiptsPerHour;
      return maxReceiptsPerHour > 0 && isLimitReached ? 'too_many_receipts' : null;
    };

    const signed: (NewZapReceipt & { paymentHash: string | null })[] = [];
    const refused: (Zap & { reason: ReceiptRefusal })[] = [];
    for (const zap of zaps) {
      const reason = findRefusal(zap);
      if (reason !== null) {
        refused.push({ ...zap, reason });
        continue;
      }
      const receipt = signReceipt(context, zap, nowMs);
      if (receipt === null) {
        continue;
      }
      signed.push({ ...receipt, paymentHash: zap.paymentHash });
      usedIds.add(zap.zapRequest.id);
      recentCounts.set(zap.pubkey, (recentCounts.get(zap.pubkey) ?? 0) + 1);
      // A signature takes up to half a millisecond.
      if (signed.length % 10 === 0) {
        await yieldToEventLoop();
      }
    }
    await addZapReceipts(tx, signed);
    const refusalEvents = refused.map(({ quoteRowId, reason }) => {
      return { quoteRowId, atMs: nowMs, kind: 'receipt_refused', reason } as const;
    });
    await addQuoteEvents(tx, refusalEvents);
    return { signed, refused };
  };
}

/** Parses a stored zap request. Returns null if there is none, or it is unreadable because the row was edited by hand. */
export function parseZapRequest(json: string): NostrEvent | null {
  const event = nostrEventSchema.safeParse(tryParseJson(json)).data;
  const [recipient = ''] = tagValues(event?.tags ?? [], 'p');
  return event === undefined || recipient === '' ? null : event;
}

/** Returns null if an error occurs, so that it does not prevent the payment from being recorded. */
function signReceipt(
  { signer, operatorRelays, allowPrivateNetworks, log }: ReceiptContext,
  { quoteRowId, pubkey, request, paidAtMs, zapRequest, zapRequestJson }: Zap,
  nowMs: number,
): NewZapReceipt | null {
  const createdAtSeconds = toUnixSeconds(computeReceiptCreatedAtMs(paidAtMs, nowMs));
  try {
    const receiptContent = { zapRequestJson, request, createdAtSeconds };
    const event = signer.sign(createZapReceiptTemplate(zapRequest, receiptContent));
    const senderRelays = extractReceiptRelays(zapRequest.tags, { allowPrivateNetworks });
    return {
      quoteRowId,
      pubkey,
      zapRequestId: zapRequest.id,
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

/** Creates the unsigned receipt (NIP-57 appendix E), without the preimage, which only the mint knows. */
export function createZapReceiptTemplate(
  { pubkey, tags }: NostrEvent,
  receipt: { zapRequestJson: string; request: string; createdAtSeconds: number },
): EventTemplate {
  const firstTag = (name: string) => {
    const [value] = tagValues(tags, name);
    return value === undefined ? [] : [[name, value]];
  };
  return {
    kind: 9735,
    created_at: receipt.createdAtSeconds,
    content: '',
    tags: [
      ...firstTag('p'),
      ...firstTag('e'),
      ...firstTag('a'),
      // Kinds are 16-bit numbers (NIP-01).
      ...firstTag('k').filter(([, kind = '']) => /^\d{1,5}$/.test(kind)),
      ['P', pubkey],
      ['bolt11', receipt.request],
      ['description', receipt.zapRequestJson],
    ],
  };
}
