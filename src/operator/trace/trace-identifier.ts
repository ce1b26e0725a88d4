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
  | { outcome: 'parsed'; candidates: TraceIdentifier[] }
  | { outcome: 'invalid_invoice' | 'invalid_npub' | 'invalid_quote_id' };

/** Parses what `nutpost trace` accepts, also an invoice after `lightning:`, a key in hex, or an address of any host. */
export function parseTraceIdentifier(text: string): ParsedTraceIdentifier {
  const trimmed = text.trim();
  const request = trimmed.replace(/^lightning:/i, '');
  const invoice = decodeInvoice(request.toLowerCase());
  if (invoice !== null) {
    return toCandidates({ kind: 'payment_hash', value: invoice.paymentHash });
  }
  if (DAMAGED_INVOICE.test(request)) {
    return { outcome: 'invalid_invoice' };
  }
  const verifyToken = VERIFY_URL.exec(trimmed)?.[1]?.toLowerCase();
  if (verifyToken !== undefined) {
    return toCandidates({ kind: 'verify_token', value: verifyToken });
  }
  const recipient = parseRecipientAddress(parseAddressInput(trimmed).localPart);
  const quoteIds: TraceIdentifier[] = QUOTE_ID.test(trimmed)
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

/** Longer than any name, so the text can only be an invoice. */
const DAMAGED_INVOICE = /^ln(bc|tb|sb).{100}/i;

/** A verify URL (LUD-21), or the URL of an invoice page. */
const VERIFY_URL = /\/(?:verify|invoice)\/([0-9a-f]{64})$/i;

/** The quote ids that nutpost stores. NUT-04 also allows others. */
const QUOTE_ID = new RegExp(`^[\\x21-\\x7e]{1,${MAX_QUOTE_ID_LENGTH}}$`);

function toCandidates(...candidates: TraceIdentifier[]): ParsedTraceIdentifier {
  return { outcome: 'parsed', candidates };
}

/** Returns what 64 hexadecimal digits can identify, besides a name or a quote id; nothing for another text. */
function hexCandidates(value: string): TraceIdentifier[] {
  const kinds = ['payment_hash', 'pubkey', 'verify_token'] as const;
  return /^[0-9a-f]{64}$/.test(value) ? kinds.map((kind) => ({ kind, value })) : [];
}
