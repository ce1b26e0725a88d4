import { randomInt } from 'node:crypto';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Event, UnsignedEvent } from 'nostr-tools';
import { GiftWrap, Seal } from 'nostr-tools/kinds';
import { generateSecretKey, getEventHash } from 'nostr-tools/pure';
import { type EventSigner, loadEventSigner } from './events.ts';

const MAX_AGE_SECONDS = 2 * 24 * 60 * 60;

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
  // The times say nothing about that of the event.
  const createTime = () => nowSeconds - randomInt(MAX_AGE_SECONDS);
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
