import type { EventTemplate } from 'nostr-tools';
import { z } from 'zod';
import { parseJson } from './foreign-text.ts';

/** Says that a zap was paid (NIP-57 appendix E). */
const ZAP_RECEIPT_KIND = 9735;

/** What of a zap request goes into its receipt by itself; all of it is in the description. */
const zapRequestSchema = z.object({
  pubkey: z.hex().length(64),
  tags: z.array(z.array(z.string())),
});

/** Kinds are 16-bit numbers (NIP-01). */
const DECIMAL_KIND = /^\d{1,5}$/;

/**
 * What the operator's zap key signs when a zap was paid (NIP-57 appendix E). It names the recipient, the
 * sender and what was zapped, of each the first that the request names, without what the sender added
 * behind the name. It has no preimage, which only the mint knows.
 *
 * @param zapRequest the text as the sender signed it, checked when it was kept
 * @param payment.request the BOLT11 invoice that was paid
 * @returns null where the text is no zap request, as in a row that somebody changed by hand
 */
export function zapReceipt(
  zapRequest: string,
  payment: { request: string; paidAtSeconds: number },
): EventTemplate | null {
  const read = zapRequestSchema.safeParse(parseJson(zapRequest));
  const recipient = read.success ? firstValue(read.data.tags, 'p') : null;
  if (!read.success || recipient === null) {
    return null;
  }
  const { pubkey, tags } = read.data;
  const zappedKind = firstValue(tags, 'k');
  return {
    kind: ZAP_RECEIPT_KIND,
    created_at: payment.paidAtSeconds,
    content: '',
    tags: [
      ['p', recipient],
      ...tag('e', firstValue(tags, 'e')),
      ...tag('a', firstValue(tags, 'a')),
      ...tag('k', DECIMAL_KIND.test(zappedKind ?? '') ? zappedKind : null),
      ['P', pubkey],
      ['bolt11', payment.request],
      ['description', zapRequest],
    ],
  };
}

/** Of the first tag with this name; null where there is none, or nothing in it. */
function firstValue(tags: readonly (readonly string[])[], name: string): string | null {
  return tags.find((each) => each[0] === name)?.[1] ?? null;
}

function tag(name: string, value: string | null): string[][] {
  return value === null ? [] : [[name, value]];
}
