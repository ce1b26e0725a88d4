import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { parseJson } from '../domain/foreign-text.ts';

/** What a relay says to a client (NIP-01, NIP-42), as far as it answers anything. */
export type RelayMessage =
  | { kind: 'OK'; id: string; isAccepted: boolean; message: string }
  | { kind: 'EVENT'; subscription: string; event: Event }
  | { kind: 'EOSE'; subscription: string }
  | { kind: 'CLOSED'; subscription: string; message: string }
  | { kind: 'AUTH'; challenge: string };

/** A relay's challenge is signed and sent back; real ones are a few dozen characters. */
const MAX_CHALLENGE_LENGTH = 256;

/** @returns null for everything that answers nothing: a NOTICE, what is malformed or unknown */
export function parseRelayMessage(text: string): RelayMessage | null {
  return MESSAGE.safeParse(parseJson(text)).data ?? null;
}

const WORDS = z.string().catch('');

/** Its id and signature are not checked. */
const EVENT = z.object({
  id: z.hex().length(64),
  pubkey: z.hex().length(64),
  sig: z.hex().length(128),
  kind: z.int(),
  created_at: z.int().nonnegative(),
  tags: z.array(z.array(z.string())),
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
