import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { parseJson } from '../domain/foreign-text.ts';
import { isListOfTags } from '../domain/nostr-event.ts';

/** A message of a relay to a client that can answer something (NIP-01, NIP-42). */
export type RelayMessage =
  | { kind: 'OK'; id: string; isAccepted: boolean; message: string }
  | { kind: 'EVENT'; subscription: string; event: Event }
  | { kind: 'EOSE'; subscription: string }
  | { kind: 'CLOSED'; subscription: string; message: string }
  | { kind: 'AUTH'; challenge: string };

/** A relay's challenge is signed and sent back; real ones are a few dozen characters. */
const MAX_CHALLENGE_LENGTH = 256;

/** The longest known messages have four parts; later ones are ignored. */
const MAX_PARTS = 4;

/**
 * Tags of an event, and their values. The longest relay lists name some hundred relays; verifying the
 * signature of more would cost too much.
 */
const MAX_TAG_PARTS = 2_500;

/** @returns null for a NOTICE, and for a malformed or unknown message */
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
