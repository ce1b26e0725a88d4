import { z } from 'zod';
import { parseJson, printable } from '../domain/foreign-text.ts';

/** What mints say of a quote that they do not know; their codes for it are catch-alls (0, 50000). */
const UNKNOWN_QUOTE = /quote.*(not found|unknown|does not exist)|unknown quote/i;

/** A run this long without a space is an id, a key or a secret, and no word. */
const NO_WORD = /[\w+/=-]{20,}/g;

/** What of an answer tells of an error. */
export interface ErrorAnswer {
  headers: ReadonlyMap<string, string>;
  text: string;
}

/** Longer ones, which cost time, have no word that is worth it: FastAPI repeats what it was asked. */
const MAX_ERROR_LENGTH = 64 * 1024;

/** FastAPI has one for each field that it does not like; each one is looked at, which takes time. */
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

/**
 * The mint's own words for an error: `detail` as text, FastAPI's list of messages, or plain text
 * (cdk). Printable, one line, short; empty where there are none, as in a proxy's HTML page.
 */
export function mintErrorDetail(answer: ErrorAnswer): string {
  const { data } = ERROR_BODY.safeParse(parseError(answer.text));
  const isPlainText = answer.headers.get('content-type')?.startsWith('text/plain') === true;
  if (data === undefined) {
    return isPlainText ? printable(answer.text) : '';
  }
  const { detail } = data;
  return printable(typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; '));
}

/** The same, fit for a log: what the mint echoes of a token or a quote id is left out. */
export function refusalDetail(answer: ErrorAnswer): string {
  return mintErrorDetail(answer).replace(NO_WORD, '…');
}

/** The code of an error, as in the NUTs' error_codes.md; null where there is none. */
export function mintErrorCode({ text }: { text: string }): number | null {
  return CODED_BODY.safeParse(parseError(text)).data?.code ?? null;
}

/** Whether a mint's words say that it does not know a quote, rather than that something failed. */
export function isUnknownQuote(detail: string): boolean {
  return UNKNOWN_QUOTE.test(detail);
}

function parseError(text: string): unknown {
  return text.length > MAX_ERROR_LENGTH ? undefined : parseJson(text);
}
