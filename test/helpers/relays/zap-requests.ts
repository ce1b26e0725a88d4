import {
  type Event,
  type EventTemplate,
  finalizeEvent,
  generateSecretKey,
  getPublicKey,
} from 'nostr-tools';
import { makeZapRequest } from 'nostr-tools/nip57';

/** The key with which the service signs zap receipts. */
export const TEST_ZAP_SECRET_KEY = '2a'.repeat(32);

/** The public key of {@link TEST_ZAP_SECRET_KEY}. */
export const TEST_ZAP_PUBKEY = getPublicKey(Buffer.from(TEST_ZAP_SECRET_KEY, 'hex'));

export interface ZapRequestOptions {
  /** The recipient's public key, in hex. */
  recipient: string;
  amountMsat: number;
  relays?: readonly string[];
  comment?: string;
  /** The note that the payer zaps. Without a note, the payer zaps the recipient's profile. */
  note?: Event;
  /** The payer's secret key. */
  sender?: Uint8Array;
  /** Additional tags. */
  tags?: readonly string[][];
  /** Changes the event before it is signed. */
  modifyTemplate?: (template: EventTemplate) => EventTemplate;
}

/** Creates and signs a zap request. @returns the event, and the same event as JSON text */
export function createZapRequest(options: ZapRequestOptions): { event: Event; text: string } {
  const { recipient, amountMsat, relays = ['wss://relay.example'], note, tags = [] } = options;
  const {
    comment = '',
    sender = generateSecretKey(),
    modifyTemplate = (template) => template,
  } = options;
  const zapParameters = { amount: amountMsat, relays: [...relays], comment };
  const template = makeZapRequest(
    note === undefined
      ? { ...zapParameters, pubkey: recipient }
      : { ...zapParameters, event: note },
  );
  const event = finalizeEvent(
    modifyTemplate({ ...template, tags: [...template.tags, ...tags] }),
    sender,
  );
  return { event, text: JSON.stringify(event) };
}

/** Returns the query of an invoice request that contains a zap request (NIP-57 appendix B). */
export function buildZapQuery(zapRequest: string, amountMsat: number): string {
  return `amount=${amountMsat}&nostr=${encodeURIComponent(zapRequest)}`;
}
