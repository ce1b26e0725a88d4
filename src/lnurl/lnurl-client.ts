import { readInvoice } from '../domain/bolt11.ts';
import { parseJson } from '../domain/foreign-text.ts';
import type { LightningAddress } from '../domain/lightning-address.ts';
import type { SendableRange } from '../domain/lnurl.ts';
import type { GuardedFetch } from '../net/guarded-fetch.ts';
import { parseError, parseIssued, parsePayTerms } from './lnurl-answer.ts';

/** On what terms somebody can be paid (LUD-06). */
export interface PayTerms extends SendableRange {
  /** Where an invoice is to be had. */
  callback: string;
}

/** An invoice that was asked for, for just the amount. */
export interface PayoutInvoice {
  /** BOLT 11. */
  request: string;
  /** 64 hex characters. */
  paymentHash: string;
  /** Unix seconds. */
  expiresAt: number;
}

/** Why there is no answer that can be used. The reasons are for a person. */
export type LnurlFailure =
  /** The server said no, in its own words: short and printable. */
  | { outcome: 'refused'; reason: string }
  /** What it said cannot be used: it is not what LUD-06 demands. */
  | { outcome: 'invalid'; reason: string }
  | { outcome: 'unavailable'; reason: string };

/** Hosts of the machine itself: there is nobody to give them a certificate. */
const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/;

/** Room for the picture that metadata may hold: 100 kB and more, as text (LUD-06). */
const MAX_ANSWER_BYTES = 256 * 1024;

/** Asks the servers of Lightning addresses for invoices (LUD-06, LUD-16): strangers, all of them. */
export class LnurlClient {
  readonly #fetch: Pick<GuardedFetch, 'request'>;
  readonly #allowHttp: boolean;

  /** @param options.allowHttp whether loopback hosts are asked by http (development) */
  constructor(options: { fetch: Pick<GuardedFetch, 'request'>; allowHttp: boolean }) {
    this.#fetch = options.fetch;
    this.#allowHttp = options.allowHttp;
  }

  /** Asks on what terms an address can be paid. */
  async readPayTerms({
    user,
    host,
  }: Pick<LightningAddress, 'user' | 'host'>): Promise<
    { outcome: 'found'; terms: PayTerms } | LnurlFailure
  > {
    const scheme = this.#allowHttp && LOOPBACK_HOST.test(host) ? 'http' : 'https';
    const answer = await this.#ask(
      `${scheme}://${host}/.well-known/lnurlp/${encodeURIComponent(user)}`,
    );
    if (answer.outcome !== 'answered') {
      return answer;
    }
    const terms = parsePayTerms(answer.body);
    return terms === null
      ? { outcome: 'invalid', reason: 'it does not say how it can be paid' }
      : { outcome: 'found', terms };
  }

  /**
   * Asks for an invoice, and believes none that is for another amount.
   *
   * @param amountMsat within the terms
   */
  async requestInvoice(
    { callback }: PayTerms,
    amountMsat: number,
  ): Promise<{ outcome: 'issued'; invoice: PayoutInvoice } | LnurlFailure> {
    const url = new URL(callback);
    url.searchParams.set('amount', String(amountMsat));
    const answer = await this.#ask(url.href);
    if (answer.outcome !== 'answered') {
      return answer;
    }
    const request = parseIssued(answer.body);
    const facts = request === null ? null : readInvoice(request);
    if (request === null || facts === null) {
      return { outcome: 'invalid', reason: 'it gave no invoice' };
    }
    if (facts.amountMsat !== amountMsat) {
      return { outcome: 'invalid', reason: 'it gave an invoice for another amount' };
    }
    const { paymentHash, expiresAt } = facts;
    return { outcome: 'issued', invoice: { request, paymentHash, expiresAt } };
  }

  async #ask(url: string): Promise<{ outcome: 'answered'; body: unknown } | LnurlFailure> {
    const answer = await this.#fetch.request({
      method: 'GET',
      url,
      maxBodyBytes: MAX_ANSWER_BYTES,
    });
    if (answer.outcome === 'unreachable') {
      return { outcome: 'unavailable', reason: answer.reason };
    }
    const body = parseJson(answer.text);
    const refusal = parseError(body);
    if (refusal !== null) {
      return { outcome: 'refused', reason: refusal };
    }
    const isSuccess = answer.status >= 200 && answer.status < 300;
    return isSuccess
      ? { outcome: 'answered', body }
      : { outcome: 'unavailable', reason: `status ${answer.status}` };
  }
}
