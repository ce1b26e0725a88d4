import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { parseJson } from '../domain/foreign-text.ts';
import { isListOfTags } from '../domain/nostr-event.ts';

/** What a relay says to a client (NIP-01, NIP-42), as far as it answers anything. */
export type RelayMessage =
  | { kind: 'OK'; id: string; isAccepted: boolean; message: string }
  | { kind: 'EVENT'; subscription: string; event: Event }
  | { kind: 'EOSE'; subscription: string }
  | { kind: 'CLOSED'; subscription: string; message: string }
  | { kind: 'AUTH'; challenge: string };

/** A relay's challenge is signed and sent back; real ones are a few dozen characters. */
const MAX_CHALLENGE_LENGTH = 256;

/** The longest messages that are known have so many parts; nobody reads what comes after them. */
const MAX_PARTS = 4;

/**
 * Of an event, its tags and what is in them. Relay lists are what is read, and the longest name some
 * hundred relays; a signature that is good for more is not worth the time to check it.
 */
const MAX_TAG_PARTS = 2_500;

/** @returns null for everything that answers nothing: a NOTICE, what is malformed or unknown */
export function parseRelayMessage(text: string): RelayMessage | null {
  const message = parseJson(text);
  return Array.isArray(message)
    ? (MESSAGE.safeParse(message.slice(0, MAX_PARTS)).data ?? null)
    : null;
}

function isReadableTags(value: unknown): boolean {
  return isListOfTags(value) && value.length + value.flat().length <= MAX_TAG_PARTS;
}

const WORDS = z.string().catch('');

/** Its id and signature are not checked. */
const EVENT = z.object({
  id: z.hex().length(64),
  pubkey: z.hex().length(64),
  sig: z.hex().length(128),
  kind: z.int(),
  created_at: z.int().nonnegative(),
  tags: z.custom<string[][]>(isReadableTags),
  content: z.string(),
});

const MESSAGE = z.union([
  z
    .tuple([z.literal('OK'), z.string(), z.boolean()], z.unknown())
    .transform(([kind, id, isAccepted, message]) => ({
      kind,
      id,
      isAccepted,
      message: WORDS.parse(message),
    })),
  z
    .tuple([z.literal('EVENT'), z.string(), EVENT], z.unknown())
    .transform(([kind, subscription, event]) => ({ kind, subscription, event })),
  z
    .tuple([z.literal('EOSE'), z.string()], z.unknown())
    .transform(([kind, subscription]) => ({ kind, subscription })),
  z
    .tuple([z.literal('CLOSED'), z.string()], z.unknown())
    .transform(([kind, subscription, message]) => ({
      kind,
      subscription,
      message: WORDS.parse(message),
    })),
  z
    .tuple([z.literal('AUTH'), z.string().min(1).max(MAX_CHALLENGE_LENGTH)], z.unknown())
    .transform(([kind, challenge]) => ({ kind, challenge })),
]);
