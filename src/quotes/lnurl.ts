import type { MintInfo } from '../mints/mint-info.ts';

const MSAT_PER_SAT = 1_000;

/** What a payer may send, in millisatoshis (LUD-06 `minSendable`, `maxSendable`). */
export interface SendableRange {
  minMsat: number;
  maxMsat: number;
}

export type AmountProblem = 'not_whole_sats' | 'too_small' | 'too_large';

/**
 * Narrows the operator's range by what the recipient's mint takes, to whole sats.
 *
 * @param mint what the mint advertises; null where it is not known, and the operator's range stands
 * @returns the range, or null where nothing can be sent
 */
export function sendableRange(
  operator: SendableRange,
  mint: MintInfo | null,
): SendableRange | null {
  const minSat = Math.max(Math.ceil(operator.minMsat / MSAT_PER_SAT), mint?.minAmountSat ?? 1, 1);
  const maxSat = Math.min(
    Math.floor(operator.maxMsat / MSAT_PER_SAT),
    mint?.maxAmountSat ?? Number.POSITIVE_INFINITY,
  );
  return minSat > maxSat
    ? null
    : { minMsat: minSat * MSAT_PER_SAT, maxMsat: maxSat * MSAT_PER_SAT };
}

/** Checks an amount in millisatoshis; payers compare to the millisatoshi, so nothing is rounded. */
export function amountProblem(amountMsat: number, range: SendableRange): AmountProblem | null {
  if (amountMsat < range.minMsat) {
    return 'too_small';
  }
  if (amountMsat > range.maxMsat) {
    return 'too_large';
  }
  return amountMsat % MSAT_PER_SAT === 0 ? null : 'not_whole_sats';
}

/** Whole sats of an amount that {@link amountProblem} found nothing wrong with. */
export function toSat(amountMsat: number): number {
  return amountMsat / MSAT_PER_SAT;
}

/**
 * The sentence that names the recipient, which payers' wallets show.
 *
 * @param template the operator's; `{address}` stands for the address
 */
export function paymentText(address: string, template: string): string {
  return template.replaceAll('{address}', address);
}

/**
 * The `metadata` text of a discovery answer: exactly one `text/plain` (LUD-06), which is
 * {@link paymentText}, and the address (LUD-16 `text/identifier`).
 */
export function lnurlMetadata(address: string, template: string): string {
  return JSON.stringify([
    ['text/plain', paymentText(address, template)],
    ['text/identifier', address],
  ]);
}
