import { type Event, verifyEvent } from 'nostr-tools';
import type { Findings } from '../faults/findings.ts';
import type { CheckName } from './findings.ts';
import type { KeptDelivery } from './outbox.ts';
import type { StormRelay } from './relays.ts';
import { type HeldInvoice, type Truth, tagOf } from './truth.ts';

/** What a check looks at, and where it notes what is wrong. */
export interface Evidence {
  truth: Truth;
  relays: readonly StormRelay[];
  /** Who signs receipts, hex. */
  zapPubkey: string;
  findings: Findings<CheckName>;
}

/** Holds what the relays have against what was paid. */
export function checkReceipts(evidence: Evidence): void {
  const { truth, relays, findings } = evidence;
  for (const { relay, zap } of truth.missing()) {
    findings.note('arrived', `the relay '${relay.name}' lacks the receipt of zap ${zap.number}`);
  }
  const texts = new Map<HeldInvoice, Set<string>>();
  for (const relay of relays) {
    for (const event of relay.events.values()) {
      const invoice = truth.invoiceOf(event);
      if (invoice === undefined || !isDue(invoice, relay)) {
        findings.note('nothingElse', `the relay '${relay.name}' has ${describe(event, invoice)}`);
        continue;
      }
      const seen = texts.get(invoice) ?? new Set();
      texts.set(invoice, seen.add(textOf(event)));
      checkEvent(evidence, invoice, event);
    }
  }
  for (const [{ number }, { size }] of texts) {
    if (size !== 1) {
      findings.note('single', `zap ${number} has ${size} receipts`);
    }
  }
}

function isDue({ isPaid, zapRequest, relays }: HeldInvoice, relay: StormRelay): boolean {
  return isPaid && zapRequest !== null && relays.includes(relay);
}

function checkEvent({ zapPubkey, findings }: Evidence, invoice: HeldInvoice, event: Event): void {
  const note = (problem: string) => findings.note('facts', `zap ${invoice.number}: ${problem}`);
  if (event.kind !== 9735 || event.pubkey !== zapPubkey || event.content !== '') {
    note('its receipt is no zap receipt of the service');
  }
  if (!verifyEvent(event)) {
    note('the signature of its receipt is wrong');
  }
  if (tagOf(event, 'description') !== invoice.zapRequest) {
    note('its receipt has another zap request');
  }
  if (tagOf(event, 'p') !== invoice.recipient.pubkey) {
    note('its receipt is for another recipient');
  }
}

/** Holds the receipts against the recipients' lists, each read from the process at `origin`. */
export async function checkLists(evidence: Evidence, origin: string): Promise<void> {
  const { truth, relays, findings } = evidence;
  const receipts = new Map(
    relays.flatMap(({ events }) =>
      [...events.values()].map((event) => [tagOf(event, 'bolt11'), event] as const),
    ),
  );
  for (const recipient of truth.recipients) {
    const listed = await recipient.at(origin).listQuotes();
    for (const invoice of truth.zaps.filter((zap) => zap.recipient === recipient)) {
      const quote = listed.find((each) => each['request'] === invoice.request);
      const receipt = receipts.get(invoice.request);
      if (quote?.['zapRequest'] !== invoice.zapRequest) {
        findings.note('facts', `zap ${invoice.number} is listed without its zap request`);
      }
      if (receipt !== undefined && receipt.created_at !== quote?.['paidAt']) {
        const times = `its receipt is of ${receipt.created_at}, the list says ${quote?.['paidAt']}`;
        findings.note('facts', `zap ${invoice.number}: ${times}`);
      }
    }
  }
}

/** Holds what the service wrote down against what the relays have. */
export function checkOutbox(
  { truth, relays, findings }: Evidence,
  deliveries: readonly KeptDelivery[],
): void {
  const byUrl = new Map(relays.map((relay) => [relay.url, relay]));
  for (const { receipt, relay: url, state } of deliveries) {
    const relay = byUrl.get(url);
    const expected = relay?.isDead === true ? 'open' : 'accepted';
    const isThere = relay?.events.has(receipt) === true;
    if (state !== expected || isThere !== (state === 'accepted')) {
      const name = relay?.name ?? 'that nobody named';
      findings.note('outbox', `a receipt is ${state} at the relay '${name}', there: ${isThere}`);
    }
  }
  const receipts = new Set(deliveries.map(({ receipt }) => receipt));
  const { zaps } = truth;
  if (receipts.size !== zaps.length) {
    findings.note('outbox', `${receipts.size} receipts are kept, for ${zaps.length} zaps`);
  }
}

/** Without what the library keeps beside the fields. */
function textOf({ id, pubkey, created_at, kind, tags, content, sig }: Event): string {
  return JSON.stringify({ id, pubkey, created_at, kind, tags, content, sig });
}

function describe(event: Event, invoice: HeldInvoice | undefined): string {
  if (invoice === undefined) {
    return `an event of kind ${event.kind} for an invoice that no payer has`;
  }
  const { number, isPaid, zapRequest } = invoice;
  const why = isPaid ? 'which did not name it' : 'which is unpaid';
  return `a receipt of payment ${number}, ${zapRequest === null ? 'which is no zap' : why}`;
}
