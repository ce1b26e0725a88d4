import { Refusal } from '../domain/errors.ts';
import { type SendableRange, sendableRange } from '../domain/lnurl.ts';
import type { MintInfo } from '../domain/mint-info.ts';
import type { MintInfoCache } from '../mint/mint-info-cache.ts';
import type { Recipient } from './recipients.ts';

/** What payers may send to a recipient. */
export class PaymentTerms {
  readonly #mints: Pick<MintInfoCache, 'get'>;
  readonly #operatorRange: SendableRange;

  constructor(mints: Pick<MintInfoCache, 'get'>, operatorRange: SendableRange) {
    this.#mints = mints;
    this.#operatorRange = operatorRange;
  }

  /**
   * Returns the operator's range, narrowed by the limits of the recipient's mint (LUD-06, NUT-06). A mint that
   * never answered narrows nothing: the request for an invoice will show whether it works.
   *
   * @throws Refusal if the mint does not accept payments
   */
  async rangeFor(recipient: Recipient): Promise<SendableRange> {
    return this.#narrowed(await this.#mints.get(recipient.mintUrl));
  }

  /**
   * Returns the range and the mint's info for an invoice.
   *
   * @throws Refusal if the mint does not accept payments, or never answered: then it cannot create an invoice
   *   either, and the payer need not wait for a second failure
   */
  async forInvoice(recipient: Recipient): Promise<{ range: SendableRange; mint: MintInfo }> {
    const mint = await this.#mints.get(recipient.mintUrl);
    if (mint === null) {
      throw mintTrouble();
    }
    return { range: this.#narrowed(mint), mint };
  }

  #narrowed(info: MintInfo | null): SendableRange {
    const range = info?.mintsBolt11Sat === false ? null : sendableRange(this.#operatorRange, info);
    if (range === null) {
      throw new Refusal('unavailable', 'The recipient cannot receive payments right now.');
    }
    return range;
  }
}

/** The error of a payer whose recipient has a mint that does not work. */
export function mintTrouble(): Refusal {
  return new Refusal(
    'unavailable',
    'The recipient’s mint cannot create an invoice right now. Try again later.',
  );
}
