import type { Event, EventTemplate } from 'nostr-tools';
import { finalizeEvent, getPublicKey, setNostrWasm, verifyEvent } from 'nostr-tools/wasm';
import { initNostrWasm } from 'nostr-wasm';

export type EventVerifier = (event: Event) => boolean;

let wasmLoaded: Promise<void> | null = null;

/** Loads the WebAssembly code that signs and verifies events. It is four times as fast as JavaScript. */
function loadNostrWasm(): Promise<void> {
  wasmLoaded ??= initNostrWasm().then(setNostrWasm);
  return wasmLoaded;
}

export async function loadEventVerifier(): Promise<EventVerifier> {
  await loadNostrWasm();
  return verifyEvent;
}

export type EventSigner = Awaited<ReturnType<typeof loadEventSigner>>;

/**
 * Creates a signer of events (NIP-01). If it signs the same event again, the id is the same, but not the signature.
 *
 * @param secretKey a valid key, hex
 */
export async function loadEventSigner(secretKey: string) {
  await loadNostrWasm();
  const secretKeyBytes = Buffer.from(secretKey, 'hex');
  return {
    pubkey: getPublicKey(secretKeyBytes),
    // A copy, because `finalizeEvent` modifies its argument.
    sign: (template: EventTemplate): Event => finalizeEvent({ ...template }, secretKeyBytes),
  };
}

/**
 * Returns whether a value is a valid list of tags (NIP-01). Zod is not used, because it collects all issues and
 * throws if a hostile event has 100,000 of them.
 */
export function isTagList(value: unknown): value is string[][] {
  return (
    Array.isArray(value) &&
    value.every((tag: unknown) => Array.isArray(tag) && tag.every(isWellFormedString))
  );
}

/** Returns whether a value is a string without lone surrogates, which programs hash and store differently. */
export function isWellFormedString(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed();
}

/** Returns the value of the first tag with this name. */
export function findTagValue(tags: readonly (readonly string[])[], name: string): string | null {
  return tags.find((tag) => tag[0] === name)?.[1] ?? null;
}
