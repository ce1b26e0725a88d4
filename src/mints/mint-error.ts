import { z } from 'zod';
import { toDisplayText } from '../untrusted-text.ts';

const errorDetailSchema = z.object({
  detail: z.union([
    z.string(),
    // FastAPI sends a message for each invalid field.
    z
      .array(z.unknown())
      .max(100)
      .pipe(z.array(z.object({ msg: z.string() }))),
  ]),
});

export interface MintErrorResponse {
  headers: ReadonlyMap<string, string>;
  json: unknown;
  text: string;
}

/**
 * Returns the mint's error message as one short, printable line, also from a plain-text body (cdk). Empty for other
 * bodies, such as a proxy's HTML page.
 */
export function parseErrorDetail({ headers, json, text }: MintErrorResponse): string {
  const detail = errorDetailSchema.safeParse(json).data?.detail;
  if (detail === undefined) {
    return headers.get('content-type')?.startsWith('text/plain') ? toDisplayText(text) : '';
  }
  const message = typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; ');
  return toDisplayText(message);
}

/** For the log. A word of 20 or more characters may be an id, a key or a secret. */
export function parseRedactedErrorDetail(response: MintErrorResponse): string {
  return parseErrorDetail(response).replace(/[\w+/=-]{20,}/g, '…');
}

/** The error codes that mints send for an unknown quote have many meanings (0, 50000). */
export function isUnknownQuoteError(response: MintErrorResponse): boolean {
  return /quote.*(not found|unknown|does not exist)|unknown quote/i.test(
    parseErrorDetail(response),
  );
}
