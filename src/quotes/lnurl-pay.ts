import { hash } from 'node:crypto';
import { RequestError } from '../errors.ts';
import type { InvoiceDescription } from '../mints/mint-client.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import { MAX_DESCRIPTION_BYTES } from './limits.ts';
import type { ReceiptRefusal } from './quote-event-store.ts';

export const MSAT_PER_SAT = 1_000;

/** The amounts that a payer may send (LUD-06 `minSendable`, `maxSendable`). */
export interface SendableRange {
  minMsat: number;
  maxMsat: number;
}

/** Narrows the operator's range to the limits of the recipient's mint and to whole sats. Returns null if none are left. */
export function narrowSendableRange(
  { minMsat, maxMsat }: SendableRange,
  mintInfo: MintInfo | null,
): SendableRange | null {
  const minSat = Math.max(Math.ceil(minMsat / MSAT_PER_SAT), mintInfo?.minAmountSat ?? 1, 1);
  const mintMaxSat = mintInfo?.maxAmountSat ?? Number.POSITIVE_INFINITY;
  const maxSat = Math.min(Math.floor(maxMsat / MSAT_PER_SAT), mintMaxSat);
  return minSat > maxSat
    ? null
    : { minMsat: minSat * MSAT_PER_SAT, maxMsat: maxSat * MSAT_PER_SAT };
}

/** Returns the LNURL `metadata` (LUD-06, LUD-16). @param address without its tag */
export function buildLnurlMetadata(address: string, tag: string | null, template: string): string {
  return JSON.stringify([
    ['text/plain', template.replaceAll('{address}', address)],
    ['text/identifier', address],
    ...(tag === null ? [] : [['text/tag', tag]]),
  ]);
}

/** Returns the payer's comment (LUD-12); null if there is none or comments are ignored. Throws RequestError. */
export function validateComment(comment: string, maxLength: number): string | null {
  if (maxLength === 0 || comment.trim() === '') {
    return null;
  }
  if ([...comment].length > maxLength) {
    throw new RequestError('invalid', `The comment must have at most ${maxLength} characters.`);
  }
  if (comment.includes('\0')) {
    throw new RequestError('invalid', 'The comment must not have NUL characters.');
  }
  return comment;
}

/** What a payer sends with a payment, and the metadata, of which the invoice may get the text or the hash. */
export interface PaymentDetails {
  /** The exact `metadata` of the discovery response (LUD-06). */
  lnurlMetadata: string;
  tag: string | null;
  comment: string | null;
  /** The exact zap request as signed (NIP-57); null if the payment is not a zap. */
  zapRequest: string | null;
  /** Why a payment with a zap request is not a zap; null if it is one, or has none. */
  receiptRefusal: ReceiptRefusal | null;
}

/**
 * Returns the hash that payers expect: of the zap request (NIP-57) or of the metadata (LUD-06). For a mint without
 * description hashes, returns the comment or the plain text, because a zap request does not fit into an invoice.
 */
export function chooseInvoiceDescription(
  mint: Pick<MintInfo, 'supportsDescription' | 'supportsDescriptionHash'>,
  { lnurlMetadata, comment, zapRequest }: PaymentDetails,
): InvoiceDescription {
  if (mint.supportsDescriptionHash) {
    return { descriptionHash: hash('sha256', zapRequest ?? lnurlMetadata) };
  }
  const [[, plainText]] = JSON.parse(lnurlMetadata) as [[string, string]];
  const line = toSingleLine(comment ?? '') || toSingleLine(plainText);
  return mint.supportsDescription && line !== '' ? { description: line } : {};
}

/** White space, control characters, and lone surrogates. Mints reject a request that contains the latter. */
const UNPRINTABLE_CHARACTERS = /[\s\p{Cc}\p{Cs}]+/gu;
const VISIBLE_CHARACTER = /[^\p{Z}\p{C}\p{Default_Ignorable_Code_Point}]/u;

/** Returns an empty text if the line has no visible character, or does not fit into an invoice. */
function toSingleLine(text: string): string {
  const line = text.replace(UNPRINTABLE_CHARACTERS, ' ').trim();
  const fits = Buffer.byteLength(line) <= MAX_DESCRIPTION_BYTES;
  return fits && VISIBLE_CHARACTER.test(line) ? line : '';
}
