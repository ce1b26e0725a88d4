import { npubEncode } from 'nostr-tools/nip19';

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

/** Returns the payer's text, and the zapper's key if the payment is a zap; each is empty if there is none. */
export function readPayer({ comment = '', zapRequest }: Payment): {
  comment: string;
  npub: string;
} {
  try {
    const { content, pubkey } = JSON.parse(zapRequest ?? '');
    return { comment: comment || `${content ?? ''}`, npub: npubEncode(pubkey) };
  } catch {
    return { comment, npub: '' };
  }
}
