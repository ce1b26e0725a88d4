import { Refusal } from '../domain/errors.ts';
import { type SendableRange, sendableRange } from '../domain/lnurl.ts';
import type { MintInfo } from '../domain/mint-info.ts';
import type { Soon } from '../domain/soon.ts';
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
   * The operator's range narrowed by what the recipient's mint takes (LUD-06, NUT-06), at once where that is
   * known. A mint that was never reached narrows nothing: asking for an invoice will tell.
   *
   * @returns what fails with a Refusal where the recipient's mint takes no payments
   */
  rangeFor(recipient: Recipient): Soon<SendableRange> {
    const info = this.#mints.get(recipient.mintUrl);
    const range = info instanceof Promise ? null : this.#rangeWith(info);
    return range ?? this.#narrowed(info);
  }

  /**
   * As {@link rangeFor}, for an invoice, with what the mint says of itself: one that cannot say what it
   * takes cannot make an invoice either, and a payer is not kept waiting for a second failure.
   */
  async forInvoice(recipient: Recipient): Promise<{ range: SendableRange; mint: MintInfo }> {
    const mint = await this.#mints.get(recipient.mintUrl);
    if (mint === null) {
      throw mintTrouble();
    }
    return { range: await this.#narrowed(mint), mint };
  }

  /** Null where nothing can be paid. */
  #rangeWith(info: MintInfo | null): SendableRange | null {
    return info !== null && !info.mintsBolt11Sat ? null : sendableRange(this.#operatorRange, info);
  }

  async #narrowed(info: Soon<MintInfo | null>): Promise<SendableRange> {
    const range = this.#rangeWith(await info);
    if (range === null) {
      throw new Refusal('unavailable', 'The recipient cannot receive payments right now.');
    }
    return range;
  }
}

/** What a payer is told where the recipient's mint does not do its part. */
export function mintTrouble(): Refusal {
  return new Refusal(
    'unavailable',
    'The recipient’s mint cannot create an invoice right now. Try again later.',
  );
}
