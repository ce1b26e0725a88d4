import type { Event, EventTemplate } from 'nostr-tools';
import { finalizeEvent, getPublicKey } from 'nostr-tools/wasm';
import { loadNostrWasm } from './event-verifier.ts';

/** Signs events as one Nostr identity (NIP-01). Two signatures of one event differ, its id does not. */
export interface EventSigner {
  /** Hex. */
  pubkey: string;
  sign(template: EventTemplate): Event;
}

/** @param secretKey hex, a valid one */
export async function loadEventSigner(secretKey: string): Promise<EventSigner> {
  await loadNostrWasm();
  const key = Buffer.from(secretKey, 'hex');
  return {
    pubkey: getPublicKey(key),
    // A copy: what is signed is written into it.
    sign: (template) => finalizeEvent({ ...template }, key),
  };
}
