import { decode } from 'light-bolt11-decoder';

/** Expiry of an invoice that names none (BOLT 11). */
const DEFAULT_EXPIRY_SECONDS = 3600;

const PAYMENT_HASH = /^[0-9a-f]{64}$/;

/** The facts of a BOLT 11 invoice that this service relies on. */
export interface InvoiceFacts {
  /** 64 hex characters: what both ends of the payment know it by. */
  paymentHash: string;
  /** Null where the invoice leaves the amount to the payer. */
  amountMsat: number | null;
  /** Unix seconds. */
  createdAt: number;
  /** Unix seconds. */
  expiresAt: number;
}

/**
 * Reads a BOLT 11 payment request.
 *
 * @returns the facts, or null where the text is no valid invoice (checksum included)
 */
export function readInvoice(request: string): InvoiceFacts | null {
  try {
    const { sections } = decode(request);
    const fieldOf = (name: string) => {
      const section = sections.find((candidate) => candidate.name === name);
      return section !== undefined && 'value' in section ? section.value : undefined;
    };
    const createdAt = Number(fieldOf('timestamp'));
    const amount = fieldOf('amount');
    const expirySeconds = Number(fieldOf('expiry') ?? DEFAULT_EXPIRY_SECONDS);
    const paymentHash = fieldOf('payment_hash');
    if (!Number.isSafeInteger(createdAt) || !Number.isSafeInteger(expirySeconds)) {
      return null;
    }
    if (typeof paymentHash !== 'string' || !PAYMENT_HASH.test(paymentHash)) {
      return null;
    }
    return {
      paymentHash,
      amountMsat: amount === undefined ? null : Number(amount),
      createdAt,
      expiresAt: createdAt + expirySeconds,
    };
  } catch {
    return null;
  }
}
