import type { Service } from '../../src/service.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import type { TimeScale } from './time-scale.ts';

/** A payer who asked once for an invoice. Times in unscaled seconds. */
export interface Payer {
  askedAt: number;
  answeredAt: number;
  /** Null if the service refused. */
  invoice: string | null;
}

/** How many payers come, and from where. */
export interface Demand {
  time: TimeScale;
  service: Service;
  /** Paid in turn. */
  recipients: readonly TestWallet[];
  perMinute: number;
  minutes: number;
  /** How many client addresses the payers have. Default 12. */
  addresses?: number;
  /** Called with each invoice as soon as its payer has it; awaited at the end. */
  onInvoice?: (invoice: string) => void | Promise<void>;
}

const ADDRESSES = 12;

/** What the service needs to tell the payers' addresses apart. */
export const TRUST_PAYERS_PROXY = { TRUST_PROXY: '127.0.0.1' };

/** Sends payers at a steady pace, whatever becomes of those before them. */
export async function sendPayers(demand: Demand): Promise<Payer[]> {
  const { time, perMinute, minutes } = demand;
  const startedAt = time.now();
  const payers: Promise<Payer>[] = [];
  for (let number = 0; number < perMinute * minutes; number += 1) {
    await time.sleep(Math.max(0, startedAt + (number * 60) / perMinute - time.now()));
    payers.push(askOnce(demand, number));
  }
  return Promise.all(payers);
}

async function askOnce(demand: Demand, number: number): Promise<Payer> {
  const { time, service, recipients, addresses = ADDRESSES, onInvoice } = demand;
  const npub = recipients[number % recipients.length]?.npub;
  const headers = { 'x-forwarded-for': `198.18.${number % addresses}.1` };
  const askedAt = time.now();
  const path = `/.well-known/lnurlp/${npub}?amount=21000`;
  const { body } = await request(service.url, path, { headers });
  const payer = { askedAt, answeredAt: time.now(), invoice: body.pr ?? null };
  if (payer.invoice !== null) {
    await onInvoice?.(payer.invoice);
  }
  return payer;
}

export function shareServed(payers: readonly Payer[]): number {
  return payers.filter(({ invoice }) => invoice !== null).length / payers.length;
}

export function askedBetween(payers: readonly Payer[], from: number, to = Infinity): Payer[] {
  return payers.filter(({ askedAt }) => askedAt >= from && askedAt < to);
}

/** The times of the invoices that payers got between two times, in order. */
export function invoiceTimes(payers: readonly Payer[], from: number, to = Infinity): number[] {
  return payers
    .flatMap(({ invoice, answeredAt }) => (invoice === null ? [] : [answeredAt]))
    .filter((at) => at >= from && at < to)
    .sort((a, b) => a - b);
}
