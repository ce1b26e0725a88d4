import { randomInt } from 'node:crypto';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Event, EventTemplate, UnsignedEvent } from 'nostr-tools';
import { GiftWrap, Seal } from 'nostr-tools/kinds';
import { encrypt, getConversationKey } from 'nostr-tools/nip44';
import { generateSecretKey, getEventHash } from 'nostr-tools/pure';
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

/**
 * Encrypts an event for its recipient, so that others see neither its content nor its author (NIP-59). Not with the
 * functions of nostr-tools, because they sign in JavaScript, and occupy the event loop for twice as long.
 */
export async function giftWrap(
  author: EventSigner,
  event: UnsignedEvent,
  recipient: string,
  nowSeconds: number,
): Promise<Event> {
  const rumor = { ...event, id: getEventHash(event) };
  // Up to two days ago, so that the times say nothing about that of the event.
  const createTime = () => nowSeconds - randomInt(2 * 24 * 60 * 60);
  const seal = author.sign({
    kind: Seal,
    created_at: createTime(),
    tags: [],
    content: author.encrypt(JSON.stringify(rumor), recipient),
  });
  await yieldToEventLoop();
  const throwaway = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
  return throwaway.sign({
    kind: GiftWrap,
    created_at: createTime(),
    tags: [['p', recipient]],
    content: throwaway.encrypt(JSON.stringify(seal), recipient),
  });
}
