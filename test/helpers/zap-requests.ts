import {
  type Event,
  type EventTemplate,
  finalizeEvent,
  generateSecretKey,
  getPublicKey,
} from 'nostr-tools';
import { makeZapRequest } from 'nostr-tools/nip57';

export const TEST_ZAP_SECRET_KEY = '2a'.repeat(32);

/** Its public key, which the LNURL-pay response announces. */
export const TEST_ZAP_PUBKEY = getPublicKey(Buffer.from(TEST_ZAP_SECRET_KEY, 'hex'));

/** A zap, with overrides for its request. */
export interface ZapRequestOptions {
  /** Hex. */
  recipient: string;
  amountMsat: number;
  relays?: readonly string[];
  comment?: string;
  /** The zapped note; the recipient by default. */
  note?: Event;
  sender?: Uint8Array;
  tags?: readonly string[][];
  modifyTemplate?: (template: EventTemplate) => EventTemplate;
}

/** Creates and signs a zap request with nostr-tools. */
export function createZapRequest(options: ZapRequestOptions): { event: Event; text: string } {
  const { recipient, amountMsat, relays = ['wss://relay.example'], note, tags = [] } = options;
  const {
    comment = '',
    sender = generateSecretKey(),
    modifyTemplate: change = (template) => template,
  } = options;
  const zapParameters = { amount: amountMsat, relays: [...relays], comment };
  const template = makeZapRequest(
    note === undefined
      ? { ...zapParameters, pubkey: recipient }
      : { ...zapParameters, event: note },
  );
  const event = finalizeEvent(change({ ...template, tags: [...template.tags, ...tags] }), sender);
  return { event, text: JSON.stringify(event) };
}

/** Returns the query of an invoice request (NIP-57 appendix B). */
export function buildZapQuery(text: string, amountMsat: number): string {
  return `amount=${amountMsat}&nostr=${encodeURIComponent(text)}`;
}
