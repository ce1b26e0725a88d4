import { type Event, verifyEvent } from 'nostr-tools';
import type { Storm } from '../storm.ts';
import type { StormRelay } from './relays.ts';
import { type HeldInvoice, type Truth, tagOf } from './truth.ts';

export const CHECKS = {
  arrived: 'every live relay has the receipt of every paid zap that named it',
  single: 'a payment has one receipt, the same at every relay',
  nothingElse: 'no relay has a receipt of anything else, or one that it should not have',
  facts: 'a receipt agrees with the zap request and the list, and its signature is valid',
  outbox: 'every accepted receipt is recorded, and only deliveries to the dead relay are left',
};

/** What the checks compare. */
export interface Evidence extends Storm {
  truth: Truth;
  relays: readonly StormRelay[];
  /** Signs receipts, hex. */
  zapPubkey: string;
}

/** A row of the service's outbox. */
export interface Delivery {
  /** The id of the event. */
  receipt: string;
  relay: string;
  state: string;
}

/** Compares the receipts at the relays with what was paid. */
export function checkReceipts({ truth, relays, zapPubkey, findings }: Evidence): void {
  for (const { relay, zap } of truth.missing()) {
    findings.note('arrived', `the relay '${relay.name}' lacks the receipt of zap ${zap.number}`);
  }
  const ids = new Map<HeldInvoice, string>();
  for (const relay of relays) {
    for (const event of relay.relay.events.values()) {
      const invoice = truth.invoiceOf(event);
      if (invoice?.isPaid !== true || !invoice.relays.includes(relay)) {
        const what = `an event of kind ${event.kind} for payment ${invoice?.number}`;
        findings.note('nothingElse', `the relay '${relay.name}' has ${what}`);
        continue;
      }
      if ((ids.get(invoice) ?? event.id) !== event.id) {
        findings.note('single', `zap ${invoice.number} has several receipts`);
      }
      ids.set(invoice, event.id);
      if (!isRight(event, invoice, zapPubkey)) {
        findings.note('facts', `the receipt of zap ${invoice.number} is wrong`);
      }
    }
  }
}

function isRight(event: Event, invoice: HeldInvoice, zapPubkey: string): boolean {
  return (
    event.kind === 9735 &&
    event.pubkey === zapPubkey &&
    event.content === '' &&
    verifyEvent(event) &&
    tagOf(event, 'description') === invoice.zapRequest &&
    tagOf(event, 'p') === invoice.recipient.pubkey
  );
}

/** Compares the receipts with the recipients' lists. */
export async function checkLists({ site, truth, relays, findings }: Evidence): Promise<void> {
  const origin = site.processes[0]?.origin ?? '';
  const events = relays.flatMap(({ relay }) => [...relay.events.values()]);
  const receipts = new Map(events.map((event) => [tagOf(event, 'bolt11'), event]));
  for (const recipient of truth.recipients) {
    const listed = await recipient.at(origin).listQuotes();
    for (const zap of truth.zaps.filter((each) => each.recipient === recipient)) {
      const quote = listed.find((each) => each['request'] === zap.request);
      const paidAt = receipts.get(zap.request)?.created_at;
      if (quote?.['zapRequest'] !== zap.zapRequest || quote['paidAt'] !== paidAt) {
        findings.note('facts', `zap ${zap.number}: the list does not agree with the receipt`);
      }
    }
  }
}

/** Compares the outbox with what the relays have. */
export function checkOutbox(
  { truth, relays, findings }: Evidence,
  deliveries: readonly Delivery[],
): void {
  for (const { receipt, relay: url, state } of deliveries) {
    const relay = relays.find((each) => each.url === url);
    const expected = relay?.isDead === true ? 'open' : 'accepted';
    const isThere = relay?.relay.events.has(receipt) === true;
    if (state !== expected || isThere !== (state === 'accepted')) {
      findings.note('outbox', `a receipt is ${state} at '${relay?.name}', there: ${isThere}`);
    }
  }
  const receipts = new Set(deliveries.map(({ receipt }) => receipt));
  if (receipts.size !== truth.zaps.length) {
    findings.note('outbox', `${receipts.size} receipts for ${truth.zaps.length} zaps`);
  }
}
