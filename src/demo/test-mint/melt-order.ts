import { z } from 'zod';
import { parseBody } from './body.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintSwitches } from './switches.ts';

/** An invoice that a wallet wants paid. */
export interface MeltOrder {
  /** The BOLT 11 invoice, in lower case. */
  request: string;
  /** Rounded up. */
  amountSat: number;
  /** Unix seconds. */
  expiresAt: number;
}

/** Reads a BOLT 11 invoice: what it asks for, and until when (Unix seconds); null where it is none. */
export type InvoiceReader = (
  request: string,
) => { amountMsat: number | null; expiresAt: number } | null;

/** Reads `POST /v1/melt/quote/bolt11` (NUT-05), refusing what a mint of this style refuses. */
export function readMeltOrder(
  body: unknown,
  switches: TestMintSwitches,
  readInvoice: InvoiceReader,
): MeltOrder {
  const order = parseBody(MELT_QUOTE_BODY, body);
  if (switches.meltDisabled) {
    throw new MintRefusal({ kind: 'melting_disabled' });
  }
  if (order.unit !== 'sat') {
    throw new MintRefusal({ kind: 'unit_unsupported' });
  }
  const request = order.request.toLowerCase();
  const invoice = readInvoice(request);
  if (invoice === null) {
    throw invalidInvoice(switches);
  }
  if (invoice.amountMsat === null) {
    throw new MintRefusal({ kind: 'invoice_amountless' });
  }
  const amountSat = Math.ceil(invoice.amountMsat / 1000);
  return { request, amountSat, expiresAt: invoice.expiresAt };
}

const MELT_QUOTE_BODY = z.object({ request: z.string(), unit: z.string() });

/** For cdk a body with an invoice that is none is no body that it knows. */
function invalidInvoice({ style }: TestMintSwitches): MintRefusal {
  if (style === 'nutshell') {
    return new MintRefusal({ kind: 'invoice_invalid' });
  }
  const issues = [{ path: ['request'], message: 'invalid invoice', isMissing: false }];
  return new MintRefusal({ kind: 'invalid_body', issues });
}
