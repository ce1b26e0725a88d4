import type { Event, EventTemplate } from 'nostr-tools';
import { encrypt, getConversationKey } from 'nostr-tools/nip44';
import { finalizeEvent, getPublicKey, setNostrWasm, verifyEvent } from 'nostr-tools/wasm';
import { initNostrWasm } from 'nostr-wasm';

export type EventVerifier = (event: Event) => boolean;

let wasmLoaded: Promise<void> | undefined;

/** Loads the WebAssembly version, which is four times as fast as the one in JavaScript. */
function loadNostrWasm(): Promise<void> {
  wasmLoaded ??= initNostrWasm().then(setNostrWasm);
  return wasmLoaded;
}

export async function loadEventVerifier(): Promise<EventVerifier> {
  await loadNostrWasm();
  return verifyEvent;
}

export type EventSigner = Awaited<ReturnType<typeof loadEventSigner>>;

/** Creates a signer of events. Two signatures of the same template have the same event id, but differ. */
export async function loadEventSigner(secretKey: string) {
  await loadNostrWasm();
  const secretKeyBytes = Buffer.from(secretKey, 'hex');
  return {
    pubkey: getPublicKey(secretKeyBytes),
    // A copy, because `finalizeEvent` modifies its argument.
    sign: (template: EventTemplate): Event => finalizeEvent({ ...template }, secretKeyBytes),
    /** Encrypts a text for the owner of another key (NIP-44). */
    encrypt: (text: string, pubkey: string): string =>
      encrypt(text, getConversationKey(secretKeyBytes, pubkey)),
  };
}
