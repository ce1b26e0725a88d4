import { z } from 'zod';
import { toDisplayText } from '../untrusted-text.ts';

/** Messages for an unknown quote. The error codes that mints send with them have many meanings (0, 50000). */
const UNKNOWN_QUOTE_PATTERN = /quote.*(not found|unknown|does not exist)|unknown quote/i;

/** A word of 20 or more such characters may be an id, a key or a secret. */
const SECRET_PATTERN = /[\w+/=-]{20,}/g;

/** FastAPI sends a message for each invalid field. */
const MAX_MESSAGES = 100;

const errorCodeSchema = z.object({ code: z.int() });

const errorDetailSchema = z.object({
  detail: z.union([
    z.string(),
    z
      .array(z.unknown())
      .max(MAX_MESSAGES)
      .pipe(z.array(z.object({ msg: z.string() }))),
  ]),
});

export interface MintErrorResponse {
  headers: ReadonlyMap<string, string>;
  json: unknown;
  text: string;
}

/**
 * Returns the mint's error message as one short, printable line. Reads the field `detail`, which is a text or
 * FastAPI's list of messages, or a plain-text body (cdk). Empty for other bodies, such as a proxy's HTML page.
 */
export function parseErrorDetail({ headers, json, text }: MintErrorResponse): string {
  const detail = errorDetailSchema.safeParse(json).data?.detail;
  if (detail === undefined) {
    return headers.get('content-type')?.startsWith('text/plain') ? toDisplayText(text) : '';
  }
  const message = typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; ');
  return toDisplayText(message);
}

/** Returns the mint's error message without tokens and quote ids, for the log. */
export function parseRedactedErrorDetail(response: MintErrorResponse): string {
  return parseErrorDetail(response).replace(SECRET_PATTERN, '…');
}

/** Returns the error code (error_codes.md of the NUTs); null if there is none. */
export function parseErrorCode({ json }: Pick<MintErrorResponse, 'json'>): number | null {
  return errorCodeSchema.safeParse(json).data?.code ?? null;
}

export function isUnknownQuoteError(detail: string): boolean {
  return UNKNOWN_QUOTE_PATTERN.test(detail);
}
