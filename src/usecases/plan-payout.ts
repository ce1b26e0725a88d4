import { blankCount } from '../domain/blank-count.ts';
import { chooseWorth, mostWorthSat, worthSat } from '../domain/choose-proofs.ts';
import type { Keyset, Proof } from '../domain/ecash.ts';
import type { LightningAddress } from '../domain/lightning-address.ts';
import type { MeltDetail } from '../domain/withdrawal.ts';
import { chooseKeyset } from '../ecash/outputs.ts';
import { inputFeeSat } from '../ecash/proofs.ts';
import type { LnurlClient, LnurlFailure, PayoutInvoice, PayTerms } from '../lnurl/lnurl-client.ts';
import type { MeltQuote } from '../mint/ecash-answer.ts';
import type { EcashClient } from '../mint/ecash-client.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';
import type { MintClient } from '../mint/mint-client.ts';

const MSAT_PER_SAT = 1_000;

/**
 * To pay out all there is, the fee reserve of one quote says how much is left for the next; it hardly
 * grows while the amount falls, so that the second one fits as a rule.
 */
const MAX_QUOTES = 4;

/** A payment that can be asked for. */
export interface PlannedPayout {
  outcome: 'planned';
  amountSat: number;
  inputs: Proof[];
  detail: MeltDetail;
}

/** Why nothing can be paid out, and nothing was. */
export type PayoutProblem =
  /** Of the server of the Lightning address. */
  | { outcome: 'recipient_failed'; failure: LnurlFailure }
  /** What the recipient takes, in whole sats; `amountSat` is what there was for them. */
  | { outcome: 'out_of_range'; minSat: number; maxSat: number; amountSat: number }
  /** `neededSat` is with all fees, `availableSat` what there is after the mint's fee for it. */
  | { outcome: 'short'; neededSat: number; availableSat: number }
  /** The mint will not pay this invoice, in its own words. */
  | { outcome: 'mint_refused'; reason: string }
  | { outcome: 'mint_unavailable'; reason: string }
  | { outcome: 'too_slow' };

/**
 * Finds out how a Lightning address can be paid with the proofs of one mint (LUD-06, LUD-16, NUT-05).
 * Nothing is spent by it: what it asked for is forgotten by those it asked.
 */
export class PlanPayout {
  readonly #lnurl: Pick<LnurlClient, 'readPayTerms' | 'requestInvoice'>;
  readonly #mints: Pick<EcashClient, 'createMeltQuote'>;
  readonly #keysets: Pick<KeysetCache, 'refresh'>;
  readonly #infos: Pick<MintClient, 'readInfo'>;

  constructor(parts: {
    lnurl: Pick<LnurlClient, 'readPayTerms' | 'requestInvoice'>;
    mints: Pick<EcashClient, 'createMeltQuote'>;
    keysets: Pick<KeysetCache, 'refresh'>;
    infos: Pick<MintClient, 'readInfo'>;
  }) {
    this.#lnurl = parts.lnurl;
    this.#mints = parts.mints;
    this.#keysets = parts.keysets;
    this.#infos = parts.infos;
  }

  /**
   * @param wish.free the proofs that may be spent
   * @param wish.amountSat null: as much as there is, less all fees
   * @param wish.isLate whether it has taken too long already; asked between requests
   */
  async plan(wish: PayoutWish): Promise<PlannedPayout | PayoutProblem> {
    const info = await this.#infos.readInfo(wish.mintUrl);
    if (info.outcome === 'found' && !info.info.meltsBolt11Sat) {
      return {
        outcome: 'mint_refused',
        reason: 'it pays none, or keeps the change (NUT-05, NUT-08)',
      };
    }
    const found = await this.#lnurl.readPayTerms(wish.to);
    if (found.outcome !== 'found') {
      return { outcome: 'recipient_failed', failure: found };
    }
    // Asked anew: outputs of a keyset that is not active any more would be refused with the payment.
    const keysets = await this.#keysets.refresh(wish.mintUrl);
    const change = keysets === null ? null : chooseKeyset(keysets);
    if (keysets === null || change === null || !areKnown(wish.free, keysets)) {
      return { outcome: 'mint_unavailable', reason: 'it does not tell its keysets' };
    }
    const feeSat = (proofs: readonly Proof[]) => inputFeeSat(proofs, keysets);
    const purse = { ...wish, terms: found.terms, changeKeysetId: change.id, feeSat };
    return wish.amountSat === null
      ? this.#planAll(purse)
      : this.#planExactly(purse, wish.amountSat);
  }

  async #planExactly(purse: Purse, amountSat: number): Promise<PlannedPayout | PayoutProblem> {
    const quoted = await this.#quote(purse, amountSat);
    if (quoted.outcome !== 'quoted') {
      return quoted;
    }
    return this.#fit(purse, quoted) ?? short(purse, quoted);
  }

  async #planAll(purse: Purse): Promise<PlannedPayout | PayoutProblem> {
    const availableSat = mostWorthSat(purse.free, purse.feeSat);
    const { maxSat } = wholeSats(purse.terms);
    let amountSat = Math.min(availableSat, maxSat);
    let last: Quoted | null = null;
    for (let turn = 0; turn < MAX_QUOTES; turn += 1) {
      if (last !== null && amountSat < 1) {
        return short(purse, last);
      }
      const quoted = await this.#quote(purse, amountSat);
      if (quoted.outcome !== 'quoted') {
        return quoted;
      }
      const planned = this.#fit(purse, quoted);
      if (planned !== null) {
        return planned;
      }
      last = quoted;
      amountSat = Math.min(amountSat - 1, availableSat - quoted.quote.feeReserveSat);
    }
    return last === null ? { outcome: 'too_slow' } : short(purse, last);
  }

  /** An invoice for this amount, and what the mint asks for to pay it. */
  async #quote(purse: Purse, amountSat: number): Promise<Quoted | PayoutProblem> {
    const { minSat, maxSat } = wholeSats(purse.terms);
    if (amountSat < minSat || amountSat > maxSat) {
      return { outcome: 'out_of_range', minSat, maxSat, amountSat };
    }
    if (purse.isLate()) {
      return { outcome: 'too_slow' };
    }
    const issued = await this.#lnurl.requestInvoice(purse.terms, amountSat * MSAT_PER_SAT);
    if (issued.outcome !== 'issued') {
      return { outcome: 'recipient_failed', failure: issued };
    }
    if (purse.isLate()) {
      return { outcome: 'too_slow' };
    }
    const { invoice } = issued;
    const answer = await this.#mints.createMeltQuote(purse.mintUrl, invoice.request);
    switch (answer.outcome) {
      case 'created':
        return answer.quote.amountSat === amountSat
          ? { outcome: 'quoted', invoice, quote: answer.quote }
          : { outcome: 'mint_refused', reason: 'it asks for another amount than the invoice' };
      case 'refused':
        return { outcome: 'mint_refused', reason: answer.detail || 'it gave no reason' };
      case 'rate_limited':
        return { outcome: 'mint_unavailable', reason: 'rate limited' };
      case 'unavailable':
        return { outcome: 'mint_unavailable', reason: answer.reason };
    }
  }

  /** @returns null where there is not enough for amount, reserve and fee */
  #fit(purse: Purse, { quote, invoice }: Quoted): PlannedPayout | null {
    const { amountSat, feeReserveSat, quoteId, expiresAt } = quote;
    const inputs = chooseWorth(purse.free, amountSat + feeReserveSat, purse.feeSat);
    if (inputs === null) {
      return null;
    }
    const overSat = worthSat(inputs, purse.feeSat) - amountSat;
    return {
      outcome: 'planned',
      amountSat,
      inputs,
      detail: {
        kind: 'lightning',
        to: purse.to.text,
        paymentHash: invoice.paymentHash,
        quoteId,
        feeReserveSat,
        payableUntilMs: Math.min(expiresAt ?? invoice.expiresAt, invoice.expiresAt) * 1000,
        blanks: { keysetId: purse.changeKeysetId, count: blankCount(overSat) },
      },
    };
  }
}

/** What is to be paid out. */
export interface PayoutWish {
  mintUrl: string;
  to: LightningAddress;
  free: readonly Proof[];
  amountSat: number | null;
  isLate: () => boolean;
}

/** The wish, with what was learnt for it. */
interface Purse extends PayoutWish {
  terms: PayTerms;
  changeKeysetId: string;
  feeSat: (proofs: readonly Proof[]) => number;
}

interface Quoted {
  outcome: 'quoted';
  invoice: PayoutInvoice;
  quote: MeltQuote;
}

/** Whether all that proofs are of is among these keysets: else their fee is not known. */
export function areKnown(proofs: readonly Proof[], keysets: readonly Keyset[]): boolean {
  const ids = new Set(keysets.map(({ id }) => id));
  return proofs.every(({ id }) => ids.has(id));
}

function short(purse: Purse, { quote }: Quoted): PayoutProblem {
  return {
    outcome: 'short',
    neededSat: quote.amountSat + quote.feeReserveSat,
    availableSat: mostWorthSat(purse.free, purse.feeSat),
  };
}

function wholeSats({ minMsat, maxMsat }: PayTerms): { minSat: number; maxSat: number } {
  return {
    minSat: Math.max(Math.ceil(minMsat / MSAT_PER_SAT), 1),
    maxSat: Math.floor(maxMsat / MSAT_PER_SAT),
  };
}
