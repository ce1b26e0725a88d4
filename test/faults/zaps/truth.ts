import type { Event } from 'nostr-tools';
import type { TestMint } from '../../../demo/test-mint.ts';
import type { TestWallet } from '../../helpers/wallet.ts';
import type { StormRelay } from './relays.ts';

/** An invoice that a payer holds. */
export interface HeldInvoice {
  number: number;
  recipient: TestWallet;
  /** BOLT 11. */
  request: string;
  /** As its sender signed it; null: an ordinary payment. */
  zapRequest: string | null;
  /** Relays that must get the receipt once it is paid. */
  relays: readonly StormRelay[];
  isPaid: boolean;
}

/** What really happened, with which the service is compared. */
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

  /** Paid zaps. */
  get zaps(): HeldInvoice[] {
    return this.invoices.filter(({ isPaid, zapRequest }) => isPaid && zapRequest !== null);
  }

  hold(invoice: HeldInvoice): void {
    this.#invoices.set(invoice.request, invoice);
  }

  /** The invoice of a receipt; undefined if no payer got it. */
  invoiceOf(receipt: Event): HeldInvoice | undefined {
    return this.#invoices.get(tagOf(receipt, 'bolt11') ?? '');
  }

  /** @throws if the mint has no such unpaid invoice */
  pay(invoice: HeldInvoice): void {
    this.#mint.pay(invoice.request);
    invoice.isPaid = true;
  }

  /** Receipts that live relays lack. */
  missing(): { relay: StormRelay; zap: HeldInvoice }[] {
    const { zaps } = this;
    const living = new Set(zaps.flatMap(({ relays }) => relays).filter(({ isDead }) => !isDead));
    return [...living].flatMap((relay) => {
      const events = [...relay.relay.events.values()];
      const there = new Set(events.map((event) => tagOf(event, 'bolt11')));
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
