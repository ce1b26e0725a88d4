import type { Event } from 'nostr-tools';
import { verifyEvent } from 'nostr-tools/wasm';
import { loadNostrWasm } from './nostr-wasm.ts';

/** Checks a Nostr event's id and signature (NIP-01). */
export type EventVerifier = (event: Event) => boolean;

/** Loads the signature check; call once, before the first event is looked at. */
export async function loadEventVerifier(): Promise<EventVerifier> {
  await loadNostrWasm();
  return verifyEvent;
}
