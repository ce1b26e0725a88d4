import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { EventVerifier } from './events.ts';

/** How far a NIP-98 event's `created_at` may be from our clock, either way (NIP-98). */
const NIP98_TOLERANCE_SECONDS = 60;

const HTTP_AUTH_KIND = 27_235;

/** An origin and a path as they are written: no user, query or fragment, and nothing to be resolved. */
const BARE_URL = /^(https?:\/\/[^/\\@?#\s]+)(\/[^?#\s\\]*)?$/i;

export interface Nip98Expectation {
  method: string;
  /** The request's path as it was sent, without its query (spec.md section 5). */
  pathname: string;
  /** The public origins of this service; a signed url may be on any of them. */
  origins: readonly string[];
  nowSeconds: number;
}

export type Nip98Result =
  | {
      outcome: 'valid';
      /** Hex. */
      pubkey: string;
      /** The hash that the signer gives for the request's body, where there is one. */
      payload: string | null;
    }
  | { outcome: 'refused'; reason: string };

/**
 * Checks a NIP-98 event against the request that it came with.
 *
 * No cache of event ids: wallets page and call in parallel within one second, and such events are
 * equal. Extra tags and every spelling of base64 are accepted, because clients differ.
 *
 * @param encoded the `Authorization` value behind `Nostr `
 */
export function verifyNip98(
  encoded: string,
  expected: Nip98Expectation,
  verifyEvent: EventVerifier,
): Nip98Result {
  const event = decodeEvent(encoded);
  if (event === null) {
    return refused('The authorization is not a base64 encoded Nostr event.');
  }
  if (event.kind !== HTTP_AUTH_KIND) {
    return refused(`The authorization event must be of kind ${HTTP_AUTH_KIND}.`);
  }
  if (Math.abs(expected.nowSeconds - event.created_at) > NIP98_TOLERANCE_SECONDS) {
    return refused('The authorization event is too old or too far in the future.');
  }
  const url = tagValue(event.tags, 'u');
  if (url === null || !isSameResource(url, expected)) {
    return refused(
      `The authorization event must sign ${expected.origins[0] ?? ''}${expected.pathname}.`,
    );
  }
  if (tagValue(event.tags, 'method')?.toUpperCase() !== expected.method.toUpperCase()) {
    return refused(`The authorization event must sign the method ${expected.method}.`);
  }
  if (!verifyEvent(event)) {
    return refused('The signature of the authorization event is invalid.');
  }
  return { outcome: 'valid', pubkey: event.pubkey, payload: tagValue(event.tags, 'payload') };
}

/**
 * Whether a `payload` tag fits the body. Some clients hash compact JSON and send spaced JSON,
 * so the compact form of the same document counts too.
 */
export function payloadMatches(payload: string, body: Buffer): boolean {
  const claimed = payload.toLowerCase();
  return claimed === sha256(body) || claimed === sha256(compactJson(body));
}

const nostrEvent = z.object({
  id: z.string().regex(/^[0-9a-f]{64}$/),
  pubkey: z.string().regex(/^[0-9a-f]{64}$/),
  sig: z.string().regex(/^[0-9a-f]{128}$/),
  kind: z.number().int().nonnegative(),
  created_at: z.number().int().nonnegative(),
  content: z.string(),
  tags: z.array(z.array(z.string())),
});

function decodeEvent(encoded: string): z.infer<typeof nostrEvent> | null {
  try {
    const text = Buffer.from(encoded.trim(), 'base64').toString('utf8');
    return nostrEvent.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

function tagValue(tags: string[][], name: string): string | null {
  return tags.find((tag) => tag[0] === name)?.[1] ?? null;
}

function isSameResource(signedUrl: string, expected: Nip98Expectation): boolean {
  const [, origin = '', pathname = '/'] = BARE_URL.exec(signedUrl) ?? [];
  return (
    isOneOf(expected.origins, origin) && routedPath(pathname) === routedPath(expected.pathname)
  );
}

/** Whether one of our origins is meant; nearly every wallet writes it as we do. */
function isOneOf(origins: readonly string[], origin: string): boolean {
  return (
    origins.includes(origin) || (URL.canParse(origin) && origins.includes(new URL(origin).origin))
  );
}

/** The route that a path leads to: a doubled or trailing slash, which proxies fold, means nothing. */
function routedPath(pathname: string): string {
  return pathname.replace(/\/{2,}/g, '/').replace(/(.)\/$/, '$1');
}

function compactJson(body: Buffer): Buffer {
  try {
    return Buffer.from(JSON.stringify(JSON.parse(body.toString('utf8'))));
  } catch {
    return body;
  }
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function refused(reason: string): Nip98Result {
  return { outcome: 'refused', reason };
}
