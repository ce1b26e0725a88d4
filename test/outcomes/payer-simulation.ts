import type { Service } from '../../src/service.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import type { TimeScale } from './time-scale.ts';

/** One payer's invoice request. Times are in seconds of the {@link TimeScale}. */
export interface PayerResult {
  requestedAtSeconds: number;
  respondedAtSeconds: number;
  invoice: string | null;
}

export interface PayerLoad {
  time: TimeScale;
  service: Service;
  recipients: readonly RecipientClient[];
  payersPerMinute: number;
  minutes: number;
  /** How many client addresses the payers use. Default: 12. */
  addressCount?: number;
  /** Called as soon as a payer receives an invoice. The simulation waits for the returned promises. */
  onInvoice?: (invoice: string) => void | Promise<void>;
}

const DEFAULT_ADDRESS_COUNT = 12;

/** Makes the service trust the client addresses in `X-Forwarded-For`. */
export const TRUST_PROXY_ENV = { TRUST_PROXY: '127.0.0.1' };

/** Starts payers at a constant rate, without waiting until earlier payers have their invoices. */
export async function simulatePayers(load: PayerLoad): Promise<PayerResult[]> {
  const { time, payersPerMinute, minutes } = load;
  const startedAtSeconds = time.nowSeconds();
  const payers: Promise<PayerResult>[] = [];
  for (let payerIndex = 0; payerIndex < payersPerMinute * minutes; payerIndex += 1) {
    await time.sleepSeconds(
      Math.max(0, startedAtSeconds + (payerIndex * 60) / payersPerMinute - time.nowSeconds()),
    );
    payers.push(requestInvoice(load, payerIndex));
  }
  return Promise.all(payers);
}

async function requestInvoice(load: PayerLoad, payerIndex: number): Promise<PayerResult> {
  const { time, service, recipients, addressCount = DEFAULT_ADDRESS_COUNT, onInvoice } = load;
  const npub = recipients[payerIndex % recipients.length]?.npub;
  const headers = { 'x-forwarded-for': `198.18.${payerIndex % addressCount}.1` };
  const requestedAtSeconds = time.nowSeconds();
  const path = `/.well-known/lnurlp/${npub}?amount=21000`;
  const { body } = await requestJson(service.url, path, { headers });
  const result = {
    requestedAtSeconds,
    respondedAtSeconds: time.nowSeconds(),
    invoice: body.pr ?? null,
  };
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
  return payers.filter(
    ({ requestedAtSeconds }) => requestedAtSeconds >= from && requestedAtSeconds < to,
  );
}

/** Returns the sorted times at which payers received invoices from `from` until before `to`. */
export function listInvoiceTimes(
  payers: readonly PayerResult[],
  from: number,
  to = Infinity,
): number[] {
  return payers
    .flatMap(({ invoice, respondedAtSeconds }) => (invoice === null ? [] : [respondedAtSeconds]))
    .filter((atSeconds) => atSeconds >= from && atSeconds < to)
    .sort((a, b) => a - b);
}
