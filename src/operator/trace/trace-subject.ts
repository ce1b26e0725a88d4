import { MAX_QUOTE_ID_LENGTH } from '../../mints/quote-answer.ts';
import { readInvoice } from '../../quotes/bolt11.ts';
import { parseRecipient, withoutHost } from '../../recipients/address.ts';

export type TraceSubject =
  | { kind: 'payment_hash'; paymentHash: string }
  | { kind: 'pubkey'; pubkey: string }
  | { kind: 'name'; name: string }
  | { kind: 'quote_id'; quoteId: string };

/** What a text may stand for, the likeliest first; or why it can stand for nothing. */
export type TraceReading =
  | { outcome: 'read'; candidates: TraceSubject[] }
  | { outcome: 'invalid_invoice' | 'invalid_npub' | 'invalid_quote_id' };

const LIGHTNING_SCHEME = /^lightning:/i;

/** A payment hash, or a key; in theory also a name or a quote id. */
const HEX_32_BYTES = /^[0-9a-f]{64}$/i;

/** Longer than any name, shorter than any invoice: what begins like one is meant as one. */
const INVOICE_BEGINNING = /^ln(bc|tb|sb).{100}/i;

/** Visible ASCII, as quote ids are kept (NUT-04 leaves them open). */
const QUOTE_ID = new RegExp(`^[\\x21-\\x7e]{1,${MAX_QUOTE_ID_LENGTH}}$`);

/**
 * Reads what an operator asks about: a payment hash, an invoice (with or without `lightning:`), an
 * npub, a key in hex, a name, a Lightning address (whatever its host), or a quote id.
 */
export function readTraceSubject(text: string): TraceReading {
  const trimmed = text.trim();
  const request = trimmed.replace(LIGHTNING_SCHEME, '');
  const invoice = readInvoice(request.toLowerCase());
  if (invoice !== null) {
    return read({ kind: 'payment_hash', paymentHash: invoice.paymentHash });
  }
  if (request !== trimmed || INVOICE_BEGINNING.test(request)) {
    return { outcome: 'invalid_invoice' };
  }
  const recipient = parseRecipient(withoutHost(trimmed));
  switch (recipient.kind) {
    case 'pubkey':
      return read(recipient);
    case 'invalid_npub':
      return { outcome: 'invalid_npub' };
    case 'name':
      return read(...hexSubjects(trimmed), recipient, ...quoteIds(trimmed));
    case 'unknown':
      return QUOTE_ID.test(trimmed) ? read(...quoteIds(trimmed)) : { outcome: 'invalid_quote_id' };
  }
}

function read(...candidates: TraceSubject[]): TraceReading {
  return { outcome: 'read', candidates };
}

function hexSubjects(text: string): TraceSubject[] {
  const hex = text.toLowerCase();
  return HEX_32_BYTES.test(text)
    ? [
        { kind: 'payment_hash', paymentHash: hex },
        { kind: 'pubkey', pubkey: hex },
      ]
    : [];
}

function quoteIds(text: string): TraceSubject[] {
  return QUOTE_ID.test(text) ? [{ kind: 'quote_id', quoteId: text }] : [];
}
