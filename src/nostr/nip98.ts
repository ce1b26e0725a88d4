import { hash } from 'node:crypto';
import { tryParseJson } from '../untrusted-text.ts';
import { type NostrEvent, nostrEventSchema } from './event-schema.ts';
import type { EventVerifier } from './events.ts';

const HTTP_AUTH_KIND = 27_235;

/** Matches an origin and a path, without credentials, query or fragment. */
const URL_WITHOUT_QUERY = /^(https?:\/\/[^/\\@?#\s]+)(\/[^?#\s\\]*)?$/i;

export interface Nip98Expectation {
  method: string;
  /** The path of the request as the client sent it, without the query. */
  pathname: string;
  /** The public origins of this service. The signed URL may have any of them. */
  origins: readonly string[];
  nowSeconds: number;
}

/** `payloadHash` is the `payload` tag, the signed hash of the body; null if absent. */
type Nip98Result =
  | { outcome: 'valid'; pubkey: string; payloadHash: string | null }
  | { outcome: 'rejected'; reason: string };

/**
 * Verifies the NIP-98 event of a request. Accepts the same event again, because wallets that send parallel requests
 * within one second create equal events. Accepts extra tags and all variants of base64, because clients differ.
 *
 * @param encoded the `Authorization` value after `Nostr `
 */
export function verifyNip98(
  encoded: string,
  expected: Nip98Expectation,
  verifyEvent: EventVerifier,
): Nip98Result {
  const event = decodeEvent(encoded);
  if (event === null) {
    return rejected('The authorization is not a base64 encoded Nostr event.');
  }
  if (event.kind !== HTTP_AUTH_KIND) {
    return rejected(`The authorization event must be of kind ${HTTP_AUTH_KIND}.`);
  }
  if (Math.abs(expected.nowSeconds - event.created_at) > 60) {
    return rejected('The authorization event is too old or too far in the future.');
  }
  // The first tag of each name counts.
  const tags = new Map(event.tags.toReversed().map(([name, value]) => [name, value]));
  const url = tags.get('u');
  if (url === undefined || !isSameResource(url, expected)) {
    return rejected(
      `The authorization event must sign ${expected.origins[0] ?? ''}${expected.pathname}.`,
    );
  }
  if (tags.get('method')?.toUpperCase() !== expected.method.toUpperCase()) {
    return rejected(`The authorization event must sign the method ${expected.method}.`);
  }
  if (!verifyEvent(event)) {
    return rejected('The signature of the authorization event is invalid.');
  }
  return { outcome: 'valid', pubkey: event.pubkey, payloadHash: tags.get('payload') ?? null };
}

/** Also accepts the hash of the body as compact JSON, because some clients hash compact JSON but send spaced JSON. */
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

/** Removes double and trailing slashes, as some proxies do. */
function collapseSlashes(pathname: string): string {
  return pathname.replace(/\/{2,}/g, '/').replace(/(.)\/$/, '$1');
}

function rejected(reason: string): Nip98Result {
  return { outcome: 'rejected', reason };
}
