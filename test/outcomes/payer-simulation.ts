import type { Service } from '../../src/service.ts';
import { requestJson, type TestWallet } from '../helpers/test-wallet.ts';
import type { TimeScale } from './time-scale.ts';

/** One payer's invoice request. Times are in unscaled seconds. */
export interface PayerResult {
  requestedAt: number;
  respondedAt: number;
  /** Null if the service returned an error. */
  invoice: string | null;
}

export interface PayerLoad {
  time: TimeScale;
  service: Service;
  /** Paid in round-robin order. */
  recipients: readonly TestWallet[];
  perMinute: number;
  minutes: number;
  /** Number of distinct client addresses. Default 12. */
  addressCount?: number;
  /** Called for each invoice as soon as the payer receives it; awaited at the end. */
  onInvoice?: (invoice: string) => void | Promise<void>;
}

const DEFAULT_ADDRESS_COUNT = 12;

/** Makes the service use the payers' addresses from `X-Forwarded-For`. */
export const TRUST_PROXY_ENV = { TRUST_PROXY: '127.0.0.1' };

/** Starts payers at a constant rate without waiting for earlier ones (open-loop load). */
export async function simulatePayers(load: PayerLoad): Promise<PayerResult[]> {
  const { time, perMinute, minutes } = load;
  const startedAt = time.nowSeconds();
  const payers: Promise<PayerResult>[] = [];
  for (let number = 0; number < perMinute * minutes; number += 1) {
    await time.sleepSeconds(Math.max(0, startedAt + (number * 60) / perMinute - time.nowSeconds()));
    payers.push(requestInvoiceOnce(load, number));
  }
  return Promise.all(payers);
}

async function requestInvoiceOnce(load: PayerLoad, number: number): Promise<PayerResult> {
  const { time, service, recipients, addressCount = DEFAULT_ADDRESS_COUNT, onInvoice } = load;
  const npub = recipients[number % recipients.length]?.npub;
  const headers = { 'x-forwarded-for': `198.18.${number % addressCount}.1` };
  const requestedAt = time.nowSeconds();
  const path = `/.well-known/lnurlp/${npub}?amount=21000`;
  const { body } = await requestJson(service.url, path, { headers });
  const result = { requestedAt, respondedAt: time.nowSeconds(), invoice: body.pr ?? null };
  if (result.invoice !== null) {
    await onInvoice?.(result.invoice);
  }
  return result;
}

export function calculateServedShare(payers: readonly PayerResult[]): number {
  return payers.filter(({ invoice }) => invoice !== null).length / payers.length;
}

export function filterRequestedBetween(
  payers: readonly PayerResult[],
  from: number,
  to = Infinity,
): PayerResult[] {
  return payers.filter(({ requestedAt }) => requestedAt >= from && requestedAt < to);
}

/** Returns the sorted times at which payers received invoices from `from` until before `to`. */
export function listInvoiceTimes(
  payers: readonly PayerResult[],
  from: number,
  to = Infinity,
): number[] {
  return payers
    .flatMap(({ invoice, respondedAt }) => (invoice === null ? [] : [respondedAt]))
    .filter((at) => at >= from && at < to)
    .sort((a, b) => a - b);
}
