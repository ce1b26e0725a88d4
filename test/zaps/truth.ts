import type { Event } from 'nostr-tools';
import type { TestMint } from '../../src/demo/test-mint.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import type { StormRelay } from './relays.ts';

/** An invoice that a payer holds. */
export interface HeldInvoice {
  /** Of the plan, for messages: the ids of quotes are secrets. */
  number: number;
  recipient: TestWallet;
  /** BOLT 11. */
  request: string;
  /** The zap request as its sender signed it; null: an ordinary payment. */
  zapRequest: string | null;
  /** Those that are to have the receipt, once it is paid; the operator's among them. */
  relays: readonly StormRelay[];
  isPaid: boolean;
}

/** All that really happened, against which the service is held. */
export class Truth {
  readonly recipients: readonly TestWallet[];
  readonly #mint: TestMint;
  readonly #invoices = new Map<string, HeldInvoice>();

  constructor(mint: TestMint, recipients: readonly TestWallet[]) {
    this.#mint = mint;
    this.recipients = recipients;
  }

  get invoices(): HeldInvoice[] {
    return [...this.#invoices.values()];
  }

  /** Zaps that were paid: each has a receipt, or must get one. */
  get zaps(): HeldInvoice[] {
    return this.invoices.filter(({ isPaid, zapRequest }) => isPaid && zapRequest !== null);
  }

  hold(invoice: HeldInvoice): void {
    this.#invoices.set(invoice.request, invoice);
  }

  /** The invoice that a receipt is for; undefined where no payer got it. */
  invoiceOf(receipt: Event): HeldInvoice | undefined {
    return this.#invoices.get(tagOf(receipt, 'bolt11') ?? '');
  }

  /**
   * Pays an invoice at the mint.
   *
   * @throws where the mint has no such unpaid invoice
   */
  pay(invoice: HeldInvoice): void {
    this.#mint.pay(invoice.request);
    invoice.isPaid = true;
  }

  /** Which relays that are alive lack receipts, with the zaps that they lack. */
  missing(): { relay: StormRelay; zap: HeldInvoice }[] {
    const zaps = this.zaps;
    const alive = new Set(zaps.flatMap(({ relays }) => relays).filter(({ isDead }) => !isDead));
    return [...alive].flatMap((relay) => {
      const there = new Set([...relay.events.values()].map((event) => tagOf(event, 'bolt11')));
      return zaps
        .filter(({ request, relays }) => relays.includes(relay) && !there.has(request))
        .map((zap) => ({ relay, zap }));
    });
  }
}

/** The value of an event's first tag of a name. */
export function tagOf(event: Event, name: string): string | undefined {
  return event.tags.find(([first]) => first === name)?.[1];
}
