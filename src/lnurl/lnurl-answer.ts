import { z } from 'zod';
import { printable } from '../domain/foreign-text.ts';
import type { PayTerms } from './lnurl-client.ts';

/** Longer than any invoice. */
const MAX_INVOICE_LENGTH = 8192;

const MAX_URL_LENGTH = 2_048;

const ERROR = z.object({
  status: z.string().regex(/^error$/i),
  reason: z.string().optional().catch(undefined),
});

const PAY_TERMS = z.object({
  tag: z.literal('payRequest'),
  callback: z.url({ protocol: /^https?$/ }).max(MAX_URL_LENGTH),
  minSendable: z.int().positive(),
  maxSendable: z.int().positive(),
});

const ISSUED = z.object({ pr: z.string().min(1).max(MAX_INVOICE_LENGTH) });

/** What a server says where it refuses (LUD-06); null where it does not. */
export function parseError(body: unknown): string | null {
  const { data } = ERROR.safeParse(body);
  return data === undefined ? null : printable(data.reason ?? '') || 'it gave no reason';
}

/** Reads the first answer of LUD-06; null where nobody can be paid by it. */
export function parsePayTerms(body: unknown): PayTerms | null {
  const { data } = PAY_TERMS.safeParse(body);
  return data === undefined || data.minSendable > data.maxSendable
    ? null
    : { callback: data.callback, minMsat: data.minSendable, maxMsat: data.maxSendable };
}

/** Reads the second answer of LUD-06; null where it has no invoice. */
export function parseIssued(body: unknown): string | null {
  return ISSUED.safeParse(body).data?.pr.toLowerCase() ?? null;
}

/** One line, without anything that a terminal would take for a command. */
