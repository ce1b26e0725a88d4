import type { Clock } from '../domain/clock.ts';
import type { Store } from '../store/store.ts';
import { OpenInvoicesOfPayers } from './open-invoices-of-payers.ts';
import { OpenInvoicesOfRecipients } from './open-invoices-of-recipients.ts';
import type { OpenPlace } from './open-place.ts';

/** Bounds the invoices that can be paid and are not, by who asked for them and by whom they would pay. */
export class OpenInvoices {
  readonly #payers: OpenInvoicesOfPayers;
  readonly #recipients: OpenInvoicesOfRecipients;

  /** @param parts.perAddress and `perRecipient`: 0 is no bound */
  constructor(parts: {
    quotes: Pick<Store['quotes'], 'countOpen' | 'findUnpaid'>;
    perAddress: number;
    perRecipient: number;
    clock: Clock;
  }) {
    const { quotes, clock } = parts;
    this.#payers = new OpenInvoicesOfPayers({ quotes, limit: parts.perAddress, clock });
    this.#recipients = new OpenInvoicesOfRecipients({ quotes, limit: parts.perRecipient, clock });
  }

  /**
   * Leave to make one invoice.
   *
   * @param pubkey of the recipient
   * @param network whom requests from the payer's address are counted for
   * @throws Refusal where too many are open
   */
  async take(pubkey: string, network: string): Promise<OpenPlace> {
    const ofPayer = await this.#payers.take(network);
    try {
      const ofRecipient = await this.#recipients.take(pubkey);
      return {
        settle: (issued) => {
          ofPayer.settle(issued);
          ofRecipient.settle(issued);
        },
      };
    } catch (error) {
      ofPayer.settle(null);
      throw error;
    }
  }
}
