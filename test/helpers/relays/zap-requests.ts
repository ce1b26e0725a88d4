import {
  type Event,
  type EventTemplate,
  finalizeEvent,
  generateSecretKey,
  getPublicKey,
} from 'nostr-tools';
import { makeZapRequest } from 'nostr-tools/nip57';
import { requestJson } from '../recipients/recipient-client.ts';

export const TEST_ZAP_SECRET_KEY = '2a'.repeat(32);

export const TEST_ZAP_PUBKEY = getPublicKey(Buffer.from(TEST_ZAP_SECRET_KEY, 'hex'));

export interface ZapRequestOptions {
  recipient: string;
  amountMsat: number;
  relays?: readonly string[];
  comment?: string;
  /** The note that the payer zaps. Without a note, the payer zaps the recipient's profile. */
  note?: Event;
  sender?: Uint8Array;
  tags?: readonly string[][];
  modifyTemplate?: (template: EventTemplate) => EventTemplate;
}

/** Creates and signs a zap request. @returns the event, and the same event as JSON text */
export function createZapRequest(options: ZapRequestOptions): { event: Event; text: string } {
  const { recipient, amountMsat, relays = ['wss://relay.example'], note, tags = [] } = options;
  const { comment = '', modifyTemplate = (template) => template } = options;
  const zapParameters = { amount: amountMsat, relays: [...relays], comment };
  const template = makeZapRequest(
    note === undefined
      ? { ...zapParameters, pubkey: recipient }
      : { ...zapParameters, event: note },
  );
  const event = finalizeEvent(
    modifyTemplate({ ...template, tags: [...template.tags, ...tags] }),
    options.sender ?? generateSecretKey(),
  );
  return { event, text: JSON.stringify(event) };
}

/** Returns the query of an invoice request that contains a zap request (NIP-57 appendix B). */
export function buildZapQuery(zapRequest: string, amountMsat: number): string {
  return `amount=${amountMsat}&nostr=${encodeURIComponent(zapRequest)}`;
}

export async function requestZapInvoice(
  origin: string,
  { npub, pubkey }: { npub: string; pubkey: string },
  options: Partial<ZapRequestOptions> = {},
) {
  const { amountMsat = 21_000 } = options;
  const { event, text } = createZapRequest({ recipient: pubkey, ...options, amountMsat });
  const path = `/.well-known/lnurlp/${npub}?${buildZapQuery(text, amountMsat)}`;
  const { body } = await requestJson(origin, path);
  if (body.pr === undefined) {
    throw new Error(`the service returned no invoice: ${JSON.stringify(body)}`);
  }
  return { event, text, pr: body.pr as string };
}
