import type { Event } from 'nostr-tools';
import { setNostrWasm, verifyEvent } from 'nostr-tools/wasm';
import { initNostrWasm } from 'nostr-wasm';

/** Checks a Nostr event's id and signature (NIP-01). */
export type EventVerifier = (event: Event) => boolean;

/** Loads the WebAssembly signature check; call once, before the first event is looked at. */
export async function loadEventVerifier(): Promise<EventVerifier> {
  setNostrWasm(await initNostrWasm());
  return verifyEvent;
}
