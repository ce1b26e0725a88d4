import { MAX_QUOTE_ID_LENGTH } from '../../mints/quote-responses.ts';
import { decodeInvoice } from '../../quotes/bolt11.ts';
import { parseAddressInput } from '../../recipients/address-input.ts';
import { parseRecipientAddress } from '../../recipients/lightning-address.ts';

export interface TraceIdentifier {
  kind: 'payment_hash' | 'pubkey' | 'name' | 'verify_token' | 'quote_id';
  value: string;
}

/** What a text can identify, the most likely candidate first, or why it identifies nothing. */
export type ParsedTraceIdentifier =
  | { outcome: 'read'; candidates: TraceIdentifier[] }
  | { outcome: 'invalid_invoice' | 'invalid_npub' | 'invalid_quote_id' };

/** A verify URL (LUD-21), or the URL of an invoice page. */
const VERIFY_URL_PATTERN = /\/(?:verify|invoice)\/([0-9a-f]{64})$/i;

/** A damaged invoice: longer than any name. */
const INVOICE_PREFIX = /^ln(bc|tb|sb).{100}/i;

/** nutpost stores no other quote ids (NUT-04 does not restrict them). */
const QUOTE_ID_PATTERN = new RegExp(`^[\\x21-\\x7e]{1,${MAX_QUOTE_ID_LENGTH}}$`);

/**
 * Parses a payment hash, an invoice (with or without `lightning:`), a verify URL, a key in hex, a quote id, or what
 * people enter for a Lightning address (with any host).
 */
export function parseTraceIdentifier(text: string): ParsedTraceIdentifier {
  const trimmed = text.trim();
  const request = trimmed.replace(/^lightning:/i, '');
  const invoice = decodeInvoice(request.toLowerCase());
  if (invoice !== null) {
    return toCandidates({ kind: 'payment_hash', value: invoice.paymentHash });
  }
  if (INVOICE_PREFIX.test(request)) {
    return { outcome: 'invalid_invoice' };
  }
  const token = VERIFY_URL_PATTERN.exec(trimmed)?.[1]?.toLowerCase();
  if (token !== undefined) {
    return toCandidates({ kind: 'verify_token', value: token });
  }
  const recipient = parseRecipientAddress(parseAddressInput(trimmed).localPart);
  const quoteIds: TraceIdentifier[] = QUOTE_ID_PATTERN.test(trimmed)
    ? [{ kind: 'quote_id', value: trimmed }]
    : [];
  switch (recipient.kind) {
    case 'pubkey':
      return toCandidates({ kind: 'pubkey', value: recipient.pubkey });
    case 'invalid_npub':
      return { outcome: 'invalid_npub' };
    case 'name':
      return toCandidates(
        ...hexCandidates(trimmed.toLowerCase()),
        { kind: 'name', value: recipient.name },
        ...quoteIds,
      );
    case 'invalid_name':
      return quoteIds.length > 0 ? toCandidates(...quoteIds) : { outcome: 'invalid_quote_id' };
  }
}

function toCandidates(...candidates: TraceIdentifier[]): ParsedTraceIdentifier {
  return { outcome: 'read', candidates };
}

/** In theory such a text is also a name or a quote id. */
function hexCandidates(value: string): TraceIdentifier[] {
  const kinds = ['payment_hash', 'pubkey', 'verify_token'] as const;
  return /^[0-9a-f]{64}$/.test(value) ? kinds.map((kind) => ({ kind, value })) : [];
}
