import type { Event } from 'nostr-tools';
import { nostrEventSchema, type Tags, tagValues } from '../nostr/event-schema.ts';
import { normaliseRelayUrl } from '../relays/relay-url.ts';
import { decodeQueryValueCandidates, tryParseJson } from '../untrusted-text.ts';
import { RECEIPT_RELAY_LIMITS, ZAP_REQUEST_LIMITS } from './limits.ts';

export interface ZapRequestRules {
  recipient: string;
  amountMsat: number;
  zapPubkey: string;
  nowSeconds: number;
}

export type ZapRequestResult =
  /** `json` is the event exactly as its sender signed it. */
  | { outcome: 'valid'; json: string }
  /** The invoice is created, but its payment gets no receipt. */
  | { outcome: 'other_recipient' }
  /** `reason` contains no text from the request. */
  | { outcome: 'rejected'; reason: string };

/**
 * Validates a zap request before an invoice is created for it (NIP-57 appendix D). Accepts extra tags, and requests
 * without usable relays, because the operator's relays take the receipt, too.
 *
 * @param candidates the possible meanings of the parameter (see {@link decodeQueryValueCandidates}). Each may still
 *   be encoded, because some wallets encode zap requests twice. If none is valid, the first one's rejection is returned
 */
export function validateZapRequest(
  candidates: readonly string[],
  rules: ZapRequestRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestResult {
  const texts = new Set(candidates.flatMap(decodeCandidate));
  let firstRejection: ZapRequestResult | null = null;
  for (const text of texts) {
    const result = validateText(text, rules, verifyEvent);
    if (result.outcome !== 'rejected') {
      return result;
    }
    firstRejection ??= result;
  }
  return firstRejection ?? rejected('is missing');
}

function validateText(
  text: string,
  rules: ZapRequestRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestResult {
  const { maxBytes, maxTags } = ZAP_REQUEST_LIMITS;
  if (jsonByteLength(text) > maxBytes) {
    return rejected(`is too long: its receipt could not contain it in ${maxBytes} bytes`);
  }
  const parsed = tryParseJson(text);
  if (parsed === undefined) {
    return rejected('is not JSON. Encode it with encodeURIComponent, once');
  }
  const { data: event, error } = nostrEventSchema.safeParse(parsed);
  if (event === undefined) {
    return rejected(error.issues[0]?.message ?? 'is not an event');
  }
  if (event.kind !== 9_734) {
    return rejected('must be of kind 9734');
  }
  if (event.tags.length > maxTags) {
    return rejected(`must have at most ${maxTags} tags`);
  }
  const recipients = tagValues(event.tags, 'p');
  if (recipients.length !== 1) {
    return rejected("must have exactly one 'p' tag");
  }
  if (recipients[0] !== rules.recipient) {
    return { outcome: 'other_recipient' };
  }
  const violation = findViolation(event, rules);
  if (violation !== null) {
    return rejected(violation);
  }
  return verifyEvent(event)
    ? { outcome: 'valid', json: text }
    : rejected('has a wrong id or signature');
}

/** Returns the first violated rule, which continues the sentence "The zap request …"; null if no rule is violated. */
function findViolation({ created_at, tags }: Event, rules: ZapRequestRules): string | null {
  const { amountMsat, zapPubkey, nowSeconds } = rules;
  if (Math.abs(nowSeconds - created_at) > ZAP_REQUEST_LIMITS.maxAgeMinutes * 60) {
    return `must have a 'created_at' within ${ZAP_REQUEST_LIMITS.maxAgeMinutes} minutes of the time of this server`;
  }
  const repeatedName = ['amount', 'relays', 'e', 'P'].find(
    (name) => tagValues(tags, name).length > 1,
  );
  if (repeatedName !== undefined) {
    return `must have at most one '${repeatedName}' tag`;
  }
  const [amount = String(amountMsat)] = tagValues(tags, 'amount');
  if (amount !== String(amountMsat)) {
    return `must have the amount of the invoice in its 'amount' tag: ${amountMsat} millisatoshis`;
  }
  if (!tagValues(tags, 'e').every((id) => /^[0-9a-f]{64}$/.test(id))) {
    return "must have an event id, 64 lower-case hexadecimal digits, in its 'e' tag";
  }
  for (const coordinate of tagValues(tags, 'a')) {
    if (!isCoordinate(coordinate)) {
      return "must have <kind>:<public key in lower-case hex>:<d tag> in its 'a' tag";
    }
    if (jsonByteLength(coordinate) > ZAP_REQUEST_LIMITS.maxCoordinateBytes) {
      return `must have an 'a' tag of at most ${ZAP_REQUEST_LIMITS.maxCoordinateBytes} bytes`;
    }
  }
  if (tagValues(tags, 'P').some((key) => key !== zapPubkey)) {
    return "must have the nostrPubkey of this address in its 'P' tag, if it has one";
  }
  return null;
}

/** Returns whether a text identifies an addressable event: kind, public key and `d` tag, which may be empty (NIP-01). */
function isCoordinate(text: string): boolean {
  const [, kind] = /^(0|[1-9]\d{0,4}):[0-9a-f]{64}:/.exec(text) ?? [];
  return kind !== undefined && Number(kind) <= 65_535;
}

/** Returns the length of a text as a JSON string, without its quotation marks. */
function jsonByteLength(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - '""'.length;
}

function rejected(violation: string): ZapRequestResult {
  return { outcome: 'rejected', reason: `The zap request ${violation}.` };
}

/** Returns the usable relays of a zap request. If private networks are allowed, each port of a host counts as a host. */
export function extractReceiptRelays(
  tags: Tags,
  options: { allowPrivateNetworks: boolean },
): string[] {
  const [, ...listed] = tags.find(([name]) => name === 'relays') ?? [];
  const relays = listed
    .slice(0, RECEIPT_RELAY_LIMITS.maxListed)
    .flatMap((relay) => normaliseRelayUrl(relay, options) ?? []);
  const hostPart = options.allowPrivateNetworks ? 'host' : 'hostname';
  const relaysByHost = Map.groupBy(new Set(relays), (relay) => new URL(relay)[hostPart]);
  return [...relaysByHost.values()]
    .flatMap((relaysOfHost) => relaysOfHost.slice(0, RECEIPT_RELAY_LIMITS.maxPerHost))
    .slice(0, RECEIPT_RELAY_LIMITS.max);
}

/** An encoded opening brace, perhaps after whitespace, which may be encoded, too. */
const ENCODED_JSON_START = /^(?:[\s+]|%20|%0[9ad])*%7b/i;

function decodeCandidate(candidate: string): string[] {
  return ENCODED_JSON_START.test(candidate) ? decodeQueryValueCandidates(candidate) : [candidate];
}

/**
 * Escapes the `&` in the zap request of a URL. `encodeURI`, which an example of NIP-57 uses, leaves them as they are, so
 * that the rest of the JSON looks like further parameters.
 */
export function escapeZapRequestAmpersands(url: string): string {
  const parameter = /[?&]nostr=/.exec(url);
  if (parameter === null) {
    return url;
  }
  const start = parameter.index + parameter[0].length;
  const rest = url.slice(start);
  // The zap request ends with the first brace at which the text is JSON. Each attempt to parse it takes time.
  for (const brace of rest.matchAll(CLOSING_BRACE).take(4)) {
    const candidate = rest.slice(0, brace.index + brace[0].length);
    const texts = decodeQueryValueCandidates(candidate).flatMap(decodeCandidate);
    if (texts.some((text) => tryParseJson(text) !== undefined)) {
      const escaped = candidate.replaceAll('&', '%26');
      return url.slice(0, start) + escaped + rest.slice(candidate.length);
    }
  }
  return url;
}

/** A brace, perhaps encoded once or twice, at the end of a parameter. */
const CLOSING_BRACE = /(?:\}|%7d|%257d)(?=&|$)/gi;
