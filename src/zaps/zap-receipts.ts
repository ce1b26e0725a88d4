import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { EventTemplate } from 'nostr-tools';
import { z } from 'zod';
import { toUnixSeconds } from '../clock.ts';
import { HISTORY_RETENTION_MS } from '../limits.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { EventSigner } from '../nostr/events.ts';
import type {
  RecordedPayment,
  RefusedReceipt,
  SignedReceipt,
  SignReceipts,
} from '../quotes/observation-recorder.ts';
import type { ReceiptRefusal } from '../quotes/quote-event-store.ts';
import { addQuoteEvents } from '../quotes/quote-event-store.ts';
import { computeReceiptCreatedAtMs } from '../quotes/quote-state.ts';
import type { TransactionStore } from '../store.ts';
import { tryParseJson } from '../untrusted-text.ts';
import {
  addZapReceipts,
  countReceiptsSince,
  findUsedZapRequests,
  findZapRequests,
  type NewZapReceipt,
} from './zap-receipt-store.ts';
import { extractReceiptRelays } from './zap-request.ts';

/** Other work may run after this many signatures, each of which takes up to half a millisecond. */
const SIGNATURES_BEFORE_YIELD = 10;

const HOUR_MS = 60 * 60_000;

/**
 * Older zap requests get no receipt, because the receipt of an earlier payment may have been deleted. The day covers
 * clocks that differ, and zap requests from the future.
 */
const MAX_ZAP_REQUEST_AGE_MS = HISTORY_RETENTION_MS - 24 * HOUR_MS;

interface ReceiptContext {
  signer: EventSigner;
  mintPolicy: Pick<MintPolicy, 'hasZapReceipts'>;
  /** Per recipient; 0: no limit. */
  maxReceiptsPerHour: number;
  /** Normalised URLs. Every receipt is published there. */
  operatorRelays: readonly string[];
  allowPrivateNetworks: boolean;
  log: Logger;
}

/** A payment with a zap request. */
interface Zap extends RecordedPayment {
  zapRequest: ZapRequest;
}

/**
 * Creates the signer of zap receipts (NIP-57 appendix E). It refuses receipts that a dishonest mint could use to forge
 * zaps. If it cannot create a receipt, it logs the failure. The payment is recorded in any case.
 *
 * The recorder has locked the recipients, and a zap request is valid for one recipient only. So other processes do not
 * sign receipts for the same recipients and zap requests meanwhile.
 */
export function createReceiptSigner(context: ReceiptContext): SignReceipts {
  const { mintPolicy, maxReceiptsPerHour } = context;
  return async (tx, mintUrl, payments, nowMs) => {
    const zaps = await loadZaps(context, tx, payments);
    if (zaps.length === 0) {
      return { signed: [], refused: [] };
    }
    const usedIds = await findUsedZapRequests(
      tx.tx,
      zaps.map((zap) => zap.zapRequest.id),
    );
    const pubkeys = zaps.map(({ pubkey }) => pubkey);
    const recentCounts =
      maxReceiptsPerHour === 0
        ? new Map<string, number>()
        : await countReceiptsSince(tx.tx, pubkeys, nowMs - HOUR_MS, maxReceiptsPerHour);
    const signed: (NewZapReceipt & SignedReceipt)[] = [];
    const refused: (Zap & RefusedReceipt)[] = [];
    for (const zap of zaps) {
      const recentCount = recentCounts.get(zap.pubkey) ?? 0;
      const reason = findRefusal({
        hasReceipts: mintPolicy.hasZapReceipts(mintUrl),
        ageMs: nowMs - zap.zapRequest.createdAtMs,
        isUsed: usedIds.has(zap.zapRequest.id),
        isLimitReached: maxReceiptsPerHour > 0 && recentCount >= maxReceiptsPerHour,
      });
      const receipt = reason === null ? signReceipt(context, zap, nowMs) : null;
      if (reason !== null) {
        refused.push({ ...zap, reason });
      } else if (receipt !== null) {
        signed.push({ ...receipt, paymentHash: zap.paymentHash });
        usedIds.add(zap.zapRequest.id);
        recentCounts.set(zap.pubkey, recentCount + 1);
        if (signed.length % SIGNATURES_BEFORE_YIELD === 0) {
          await yieldToEventLoop();
        }
      }
    }
    await addZapReceipts(tx.tx, signed);
    await addQuoteEvents(
      tx.tx,
      refused.map(({ quoteRowId, reason }) => ({
        quoteRowId,
        atMs: nowMs,
        kind: 'receipt_refused',
        reason,
      })),
    );
    return { signed, refused };
  };
}

/** Returns the payments with a zap request. Logs and leaves out unreadable zap requests. */
async function loadZaps(
  { log }: ReceiptContext,
  tx: TransactionStore,
  payments: readonly RecordedPayment[],
): Promise<Zap[]> {
  const zapRequests = await findZapRequests(
    tx.tx,
    payments.map((each) => each.quoteRowId),
  );
  return payments.flatMap((payment) => {
    const json = zapRequests.get(payment.quoteRowId);
    if (json === undefined) {
      return [];
    }
    const zapRequest = parseZapRequest(json);
    if (zapRequest === null) {
      log.warn(
        { event: 'zap_request_unreadable', quotes: [payment.quoteRowId] },
        'stored zap request is unreadable; the payment gets no receipt',
      );
      return [];
    }
    return [{ ...payment, zapRequest }];
  });
}

/** Returns why a zap gets no receipt; null if it gets one. */
function findRefusal(zap: {
  hasReceipts: boolean;
  ageMs: number;
  isUsed: boolean;
  isLimitReached: boolean;
}): ReceiptRefusal | null {
  if (!zap.hasReceipts) {
    return 'mint_not_in_zap_mints';
  }
  if (zap.ageMs > MAX_ZAP_REQUEST_AGE_MS) {
    return 'zap_request_too_old';
  }
  if (zap.isUsed) {
    return 'zap_request_reused';
  }
  return zap.isLimitReached ? 'too_many_receipts' : null;
}

/** @returns null if the receipt cannot be created */
function signReceipt(
  { signer, operatorRelays, allowPrivateNetworks, log }: ReceiptContext,
  { quoteRowId, pubkey, request, paidAtMs, zapRequest }: Zap,
  nowMs: number,
): NewZapReceipt | null {
  const createdAtSeconds = toUnixSeconds(computeReceiptCreatedAtMs(paidAtMs, nowMs));
  try {
    const event = signer.sign(createZapReceiptTemplate(zapRequest, { request, createdAtSeconds }));
    const senderRelays = extractReceiptRelays(zapRequest.json, { allowPrivateNetworks });
    return {
      quote: quoteRowId,
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

/** NIP-57 appendix E. */
const ZAP_RECEIPT_KIND = 9735;

/** The parts of a stored zap request that its receipt depends on. */
export interface ZapRequest {
  /** The event as the sender signed it. */
  json: string;
  /** Event id, hex. */
  id: string;
  /** The sender; hex. */
  pubkey: string;
  createdAtMs: number;
  tags: string[][];
  /** Hex. */
  recipient: string;
}

const zapRequestSchema = z.object({
  id: z.hex().length(64),
  pubkey: z.hex().length(64),
  created_at: z.int(),
  tags: z.array(z.array(z.string())),
});

/** Returns null if the text is not a zap request, for example because the row was edited by hand. */
export function parseZapRequest(json: string): ZapRequest | null {
  const { data: event } = zapRequestSchema.safeParse(tryParseJson(json));
  const recipient = event && findTagValue(event.tags, 'p');
  if (event === undefined || !recipient) {
    return null;
  }
  const { id, pubkey, tags, created_at } = event;
  return { json, id, pubkey, createdAtMs: created_at * 1000, tags, recipient };
}

/** Kinds are 16-bit numbers (NIP-01). */
const KIND_PATTERN = /^\d{1,5}$/;

/**
 * Creates the unsigned receipt of a zap (NIP-57 appendix E). The receipt contains no preimage, which only the mint
 * knows.
 *
 * @param payment.request the BOLT 11 invoice that was paid
 */
export function createZapReceiptTemplate(
  { json, pubkey, tags, recipient }: ZapRequest,
  payment: { request: string; createdAtSeconds: number },
): EventTemplate {
  const zappedKind = findTagValue(tags, 'k') ?? '';
  const receiptTags = [
    ['p', recipient],
    ['e', findTagValue(tags, 'e')],
    ['a', findTagValue(tags, 'a')],
    ['k', KIND_PATTERN.test(zappedKind) ? zappedKind : null],
    ['P', pubkey],
    ['bolt11', payment.request],
    ['description', json],
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
