import {
  type Event,
  type EventTemplate,
  finalizeEvent,
  generateSecretKey,
  getPublicKey,
} from 'nostr-tools';
import { makeZapRequest } from 'nostr-tools/nip57';

export const TEST_ZAP_SECRET_KEY = '2a'.repeat(32);

/** Its public key, which discovery announces. */
export const TEST_ZAP_PUBKEY = getPublicKey(Buffer.from(TEST_ZAP_SECRET_KEY, 'hex'));

/** A zap, and how its request differs from the usual one. */
export interface ZapOrder {
  /** Hex. */
  recipient: string;
  amountMsat: number;
  relays?: readonly string[];
  comment?: string;
  /** The zapped note; by default, the recipient is zapped. */
  note?: Event;
  sender?: Uint8Array;
  tags?: readonly string[][];
  change?: (template: EventTemplate) => EventTemplate;
}

/** A zap request as nostr-tools makes it, signed. */
export function zapRequest(order: ZapOrder): { event: Event; text: string } {
  const { recipient, amountMsat, relays = ['wss://relay.example'], note, tags = [] } = order;
  const { comment = '', sender = generateSecretKey(), change = (template) => template } = order;
  const wish = { amount: amountMsat, relays: [...relays], comment };
  const template = makeZapRequest(
    note === undefined ? { ...wish, pubkey: recipient } : { ...wish, event: note },
  );
  const event = finalizeEvent(change({ ...template, tags: [...template.tags, ...tags] }), sender);
  return { event, text: JSON.stringify(event) };
}

/** The query of an invoice request (NIP-57 appendix B). */
export function zapQuery(text: string, amountMsat: number): string {
  return `amount=${amountMsat}&nostr=${encodeURIComponent(text)}`;
}
