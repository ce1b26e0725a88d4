import { npubEncode } from 'nostr-tools/nip19';
import type { ApiClient } from './api-client.ts';

/** A payment, from `GET /api/v2/wallet/quotes`. */
export interface Payment {
  /** Unix seconds. */
  paidAt: number;
  /** Unix seconds. */
  expiresAt: number;
  mintUrl: string;
  /** Secret, so it is never shown. */
  quoteId: string;
  /** Sats. */
  amount: number;
  state: 'PAID' | 'ISSUED' | 'INFLIGHT';
  comment?: string;
  /** Of the address that was paid (LUD-16). */
  tag?: string;
  /** The signed zap request as JSON (NIP-57). */
  zapRequest?: string;
}

export const STATE_TEXTS: Record<Payment['state'], string> = {
  INFLIGHT: 'arriving',
  PAID: 'waiting to be collected',
  ISSUED: 'collected',
};

interface QuotesResponse {
  data: { quotes: Payment[] };
  metadata: { total: number };
}

export async function readPayments(
  api: ApiClient,
  offset: number,
  limit: number,
): Promise<{ payments: Payment[]; total: number }> {
  const path = `/api/v2/wallet/quotes?limit=${limit}&offset=${offset}`;
  const { data, metadata } = await api.request<QuotesResponse>(path);
  return { payments: data.quotes, total: metadata.total };
}

/** Returns the payer's text (empty if there is none), and the zapper's key if the payment is a zap. */
export function readPayer({ comment, zapRequest }: Pick<Payment, 'comment' | 'zapRequest'>): {
  comment: string;
  npub: string | null;
} {
  const { content, pubkey } = parseObject(zapRequest);
  const zapText = typeof content === 'string' ? content : '';
  const isPubkey = typeof pubkey === 'string' && /^[0-9a-f]{64}$/.test(pubkey);
  return { comment: comment ?? zapText, npub: isPubkey ? npubEncode(pubkey) : null };
}

function parseObject(json = ''): Record<string, unknown> {
  try {
    return JSON.parse(json) ?? {};
  } catch {
    return {};
  }
}
