import { randomBytes } from 'node:crypto';
import {
  type Event,
  type EventTemplate,
  finalizeEvent,
  generateSecretKey,
  getPublicKey,
} from 'nostr-tools';
import { makeZapRequest } from 'nostr-tools/nip57';
import { encodeInvoice } from '../../src/demo/test-mint/bolt11-encoder.ts';
import { CREATED_AT_MS } from './unpaid-quotes.ts';

/** The key that signs receipts in tests, for `ZAP_SECRET_KEY`. */
export const TEST_ZAP_SECRET_KEY = '2a'.repeat(32);

/** The same, as discovery announces it. */
export const TEST_ZAP_PUBKEY = getPublicKey(Buffer.from(TEST_ZAP_SECRET_KEY, 'hex'));

/** What is zapped, and what of the request should differ from the usual. */
export interface ZapOrder {
  /** Hex. */
  recipient: string;
  amountMsat: number;
  relays?: readonly string[];
  comment?: string;
  /** The note that is zapped; without it, the recipient is. */
  note?: Event;
  /** Who zaps; a stranger where nobody is named. */
  sender?: Uint8Array;
  /** Further tags. */
  tags?: readonly string[][];
  /** The last word before it is signed. */
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

/** What a wallet asks a callback for (NIP-57 appendix B). */
export function zapQuery(text: string, amountMsat: number): string {
  return `amount=${amountMsat}&nostr=${encodeURIComponent(text)}`;
}

/** An invoice of an hour, as a mint that knows nothing of the zap makes it. */
export function zapInvoice(amountMsat: number): string {
  return encodeInvoice(
    {
      amountMsat,
      createdAt: CREATED_AT_MS / 1000,
      expirySeconds: 3_600,
      paymentHash: randomBytes(32),
      paymentSecret: randomBytes(32),
      description: '',
    },
    Buffer.alloc(32, 7),
  );
}
