import { z } from 'zod';
import { parseJson, printable } from '../untrusted-text.ts';

/** How mints report an unknown quote; the codes that they use for it are catch-alls (0, 50000). */
const UNKNOWN_QUOTE = /quote.*(not found|unknown|does not exist)|unknown quote/i;

/** A run of this length without a space is an id, a key or a secret, not a word. */
const SECRET = /[\w+/=-]{20,}/g;

/** Longer error answers are not parsed: FastAPI repeats the request in them. */
const MAX_ERROR_LENGTH = 64 * 1024;

/** FastAPI sends a message for each invalid field. */
const MAX_MESSAGES = 100;

const CODED_BODY = z.object({ code: z.int() });

const ERROR_BODY = z.object({
  detail: z.union([
    z.string(),
    z
      .array(z.unknown())
      .max(MAX_MESSAGES)
      .pipe(z.array(z.object({ msg: z.string() }))),
  ]),
});

export interface ErrorAnswer {
  headers: ReadonlyMap<string, string>;
  text: string;
}

/**
 * Returns the mint's error message as one short, printable line: `detail` as text, FastAPI's list of
 * messages, or plain text (cdk). Empty if there is none, as in a proxy's HTML page.
 */
export function mintErrorDetail({ headers, text }: ErrorAnswer): string {
  const detail = ERROR_BODY.safeParse(parseError(text)).data?.detail;
  if (detail === undefined) {
    return headers.get('content-type')?.startsWith('text/plain') ? printable(text) : '';
  }
  return printable(typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; '));
}

/** Returns the mint's error message for a log, without tokens and quote ids that the mint repeats. */
export function refusalDetail(answer: ErrorAnswer): string {
  return mintErrorDetail(answer).replace(SECRET, '…');
}

/** Returns the error code (error_codes.md of the NUTs); null if there is none. */
export function mintErrorCode({ text }: { text: string }): number | null {
  return CODED_BODY.safeParse(parseError(text)).data?.code ?? null;
}

/** Whether an error message means that the mint does not know the quote. */
export function isUnknownQuote(detail: string): boolean {
  return UNKNOWN_QUOTE.test(detail);
}

function parseError(text: string): unknown {
  return text.length > MAX_ERROR_LENGTH ? undefined : parseJson(text);
}
