import type { EventTemplate } from 'nostr-tools';
import { z } from 'zod';
import { parseJson } from '../untrusted-text.ts';

/** NIP-57 appendix E. */
const ZAP_RECEIPT_KIND = 9735;

/** The parts of a zap request that its receipt has as tags of its own. */
const zapRequestSchema = z.object({
  pubkey: z.hex().length(64),
  tags: z.array(z.array(z.string())),
});

/** Kinds are 16-bit numbers (NIP-01). */
const DECIMAL_KIND = /^\d{1,5}$/;

/**
 * Makes the unsigned receipt of a zap (NIP-57 appendix E). It names the recipient, the sender and what was
 * zapped: the first value of the first tag of each kind. It has no preimage, which only the mint knows.
 *
 * @param zapRequest as the sender signed it; it was checked before it was stored
 * @param payment.request the BOLT11 invoice that was paid
 * @returns null if the text is no zap request, such as in a row that was edited by hand
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

/** The value of the first tag with this name; null if there is none. */
function firstValue(tags: readonly (readonly string[])[], name: string): string | null {
  return tags.find((each) => each[0] === name)?.[1] ?? null;
}

function tag(name: string, value: string | null): string[][] {
  return value === null ? [] : [[name, value]];
}
