import { hash } from 'node:crypto';
import { tryParseJson } from '../untrusted-text.ts';
import { type NostrEvent, nostrEventSchema } from './event-schema.ts';
import type { EventVerifier } from './events.ts';

/** The request to which the event must belong. */
export interface Nip98Expectation {
  method: string;
  /** As the client sent it, not normalised. */
  pathname: string;
  /** Origins of this service. */
  origins: readonly string[];
  nowSeconds: number;
}

/**
 * Verifies the NIP-98 event of a request. Accepts the same event again, because wallets that send parallel requests
 * within one second create equal events. Accepts extra tags and all variants of base64, because clients differ.
 *
 * @param encoded the event in base64
 * @returns why the event is rejected; or its key and its `payload` tag, the hash of the body, which the caller checks
 */
export function verifyNip98(
  encoded: string,
  expected: Nip98Expectation,
  verifyEvent: EventVerifier,
): string | { pubkey: string; payloadHash: string | null } {
  const event = decodeEvent(encoded);
  if (event === null) {
    return 'The authorization is not a base64 encoded Nostr event.';
  }
  if (event.kind !== 27_235) {
    return 'The authorization event must be of kind 27235.';
  }
  if (Math.abs(expected.nowSeconds - event.created_at) > 60) {
    return 'The authorization event is too old or too far in the future.';
  }
  const findTag = (name: string) => event.tags.find(([tagName]) => tagName === name)?.[1];
  const url = findTag('u');
  if (url === undefined || !isSameResource(url, expected)) {
    return `The authorization event must sign ${expected.origins[0] ?? ''}${expected.pathname}.`;
  }
  if (findTag('method')?.toUpperCase() !== expected.method.toUpperCase()) {
    return `The authorization event must sign the method ${expected.method}.`;
  }
  if (!verifyEvent(event)) {
    return 'The signature of the authorization event is invalid.';
  }
  return { pubkey: event.pubkey, payloadHash: findTag('payload') ?? null };
}

/** Also accepts the hash of the compact JSON of the body, because some clients hash that but send spaced JSON. */
export function payloadHashMatches(payloadHash: string, body: Buffer): boolean {
  const signedHash = payloadHash.toLowerCase();
  if (signedHash === hash('sha256', body)) {
    return true;
  }
  const parsed = tryParseJson(body.toString('utf8'));
  return parsed !== undefined && signedHash === hash('sha256', JSON.stringify(parsed));
}

function decodeEvent(encoded: string): NostrEvent | null {
  const json = Buffer.from(encoded.trim(), 'base64').toString('utf8');
  return nostrEventSchema.safeParse(tryParseJson(json)).data ?? null;
}

function isSameResource(signedUrl: string, { origins, pathname }: Nip98Expectation): boolean {
  const [, origin = '', signedPathname = '/'] = URL_WITHOUT_QUERY.exec(signedUrl) ?? [];
  return (
    origins.includes(URL.parse(origin)?.origin ?? '') &&
    collapseSlashes(signedPathname) === collapseSlashes(pathname)
  );
}

/** Matches an origin and a path, without credentials, query or fragment. */
const URL_WITHOUT_QUERY = /^(https?:\/\/[^/\\@?#\s]+)(\/[^?#\s\\]*)?$/i;

/** Removes double and trailing slashes, as some proxies do. Keeps the path `/`. */
function collapseSlashes(pathname: string): string {
  return pathname.replace(/\/{2,}/g, '/').replace(/(.)\/$/, '$1');
}
