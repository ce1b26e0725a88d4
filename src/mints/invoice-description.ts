import { createHash } from 'node:crypto';
import type { MintInfo } from './mint-info.ts';

/** What an invoice could say of its payment. */
export interface InvoiceWords {
  /** The `metadata` text of the discovery answer (LUD-06), to the byte. */
  metadata: string;
  /** The sentence that names the recipient: the `text/plain` of the metadata. */
  text: string;
  /** What the payer wrote (LUD-12); null where nothing. */
  comment: string | null;
  /** The zap request (NIP-57), to the byte as it was signed; null where the payment is no zap. */
  zapRequest: string | null;
}

/** At most one of the two; neither where the mint takes neither. */
export interface InvoiceDescription {
  /** One line of at most 639 bytes. */
  description?: string;
  /** SHA-256, 64 lower-case hex characters. */
  descriptionHash?: string;
}

/**
 * A field of an invoice has 1023 words of five bits at most (BOLT 11). Mints take more, 1024
 * characters (Nutshell) or bytes (cdk-mintd), and then their Lightning node refuses it.
 */
const MAX_DESCRIPTION_BYTES = 639;

/**
 * What to ask a mint to put into an invoice.
 *
 * Where it can be a hash, it is the one that payers look for: of the metadata (LUD-06), or of the zap
 * request (NIP-57). Else it is a line for people: the comment, or who is paid. Never the zap request,
 * which is longer than an invoice can hold.
 */
export function describeInvoice(
  mint: Pick<MintInfo, 'takesDescription' | 'takesDescriptionHash'>,
  words: InvoiceWords,
): InvoiceDescription {
  if (mint.takesDescriptionHash) {
    return { descriptionHash: sha256Hex(words.zapRequest ?? words.metadata) };
  }
  const line = toLine(words.comment ?? '') || toLine(words.text);
  return mint.takesDescription && line !== '' ? { description: line } : {};
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}

/** Breaks, blanks, control characters, and halves of a surrogate pair, which mints refuse in JSON. */
const UNPRINTABLE = /[\s\p{Cc}\p{Cs}]+/gu;

/** Something that can be seen. */
const VISIBLE = /[^\p{Z}\p{C}\p{Default_Ignorable_Code_Point}]/u;

/** The words as one line, cut to what fits; empty where nothing can be seen of them. */
function toLine(words: string): string {
  const line = cut(words.replace(UNPRINTABLE, ' ').trim()).trimEnd();
  return VISIBLE.test(line) ? line : '';
}

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Cut between what readers take for characters: an emoji may be made of several. */
function cut(line: string): string {
  let bytes = 0;
  // A unit of the text has at least one byte: the last segment of this part does not fit, whole or not.
  const segments = [...GRAPHEMES.segment(line.slice(0, MAX_DESCRIPTION_BYTES + 1))];
  const fitting = segments.filter(({ segment }) => {
    bytes += Buffer.byteLength(segment);
    return bytes <= MAX_DESCRIPTION_BYTES;
  });
  return fitting.map(({ segment }) => segment).join('');
}
