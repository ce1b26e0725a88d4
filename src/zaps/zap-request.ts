import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { KeyedCounter } from '../keyed-counters.ts';
import { isForbiddenHost } from '../net/public-address.ts';
import { normaliseServerUrl } from '../net/server-url.ts';
import { isTagList, isWellFormedString } from '../nostr/events.ts';
import { decodeQueryValueCandidates, tryParseJson } from '../untrusted-text.ts';

export interface ZapRequestRules {
  /** Hex. */
  recipient: string;
  /** The amount of the requested invoice. */
  amountMsat: number;
  /** The `nostrPubkey` of the LNURL response, which signs receipts; hex. */
  zapPubkey: string;
  /** Whether relays may have private addresses and no TLS (development). */
  allowPrivateNetworks: boolean;
}

export type ZapRequestResult =
  /** `json` is the event byte for byte as its sender signed it. The receipt contains it unchanged. */
  | { outcome: 'valid'; json: string }
  /** `reason` quotes nothing from the request. */
  | { outcome: 'rejected'; reason: string };

const ZAP_REQUEST_KIND = 9734;

/**
 * The size of the event in its receipt: a JSON string with escaped quotation marks, in UTF-8. Usual events have 600 bytes,
 * or 4,000 with a hundred relays. Many relays accept at most 16 KiB, enough for this event, an `a` tag of 1 KiB, the
 * longest invoice (8 KiB) and 700 bytes of ids, keys and the signature.
 */
const MAX_ZAP_REQUEST_BYTES = 6 * 1024;

/** Longer than any usual relay URL. A zap request can list a hundred of them. */
const MAX_RELAY_URL_LENGTH = 255;

/** In JSON. Relays commonly reject longer values of single-letter tags. */
const MAX_COORDINATE_BYTES = 1_024;

/** Usual zap requests have at most ten. */
const MAX_TAGS = 100;

/** Wallets list all relays of their user. */
const MAX_LISTED_RELAYS = 100;

/** Bounds the connections that one payer can cause. */
const MAX_RELAYS_PER_ZAP = 20;

/** Two, because some relays have a separate path for writing. */
const MAX_RELAYS_PER_HOST = 2;

/**
 * Validates a zap request before an invoice is created for it (NIP-57 appendix D): cheap checks first, the signature
 * last. Accepts extra tags. One usable relay is enough, because users also list relays in their own network.
 *
 * @param candidates the possible decodings of the parameter (see {@link decodeQueryValueCandidates}). Each may still be
 *   encoded, because some wallets encode it twice. The first valid one is used; if none is valid, the reason is that of
 *   the first one
 * @param verifyEvent checks id and signature
 */
export function validateZapRequest(
  candidates: readonly string[],
  rules: ZapRequestRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestResult {
  let firstFailure: ZapRequestResult | null = null;
  for (const candidate of new Set(candidates.flatMap(decodeCandidate))) {
    const result = validateCandidate(candidate, rules, verifyEvent);
    if (result.outcome === 'valid') {
      return result;
    }
    firstFailure ??= result;
  }
  return firstFailure ?? invalid('The zap request is missing.');
}

/**
 * Returns the usable relays of a stored zap request: normalised, distinct, at most 20, and at most two per host. In
 * development, where all relays are on one machine, each port counts as a host.
 */
export function extractReceiptRelays(
  zapRequestJson: string,
  options: { allowPrivateNetworks: boolean },
): string[] {
  const event = zapRequestSchema.safeParse(tryParseJson(zapRequestJson)).data;
  const relaysByHost = new KeyedCounter();
  return extractUsableRelays(event?.tags ?? [], options)
    .filter((relay) => {
      const { host, hostname } = new URL(relay);
      const hostKey = options.allowPrivateNetworks ? host : hostname;
      relaysByHost.increment(hostKey);
      return relaysByHost.get(hostKey) <= MAX_RELAYS_PER_HOST;
    })
    .slice(0, MAX_RELAYS_PER_ZAP);
}

/**
 * Normalises the URL of a relay, so that two spellings share one connection and one receipt (see
 * {@link normaliseServerUrl}). Keeps the query, where filtering relays identify users.
 *
 * @param options.allowPrivateNetworks also accepts ws://, any port and private addresses (development)
 * @returns null if the text is not the URL of a relay
 */
export function normaliseRelayUrl(
  untrustedText: string,
  { allowPrivateNetworks }: { allowPrivateNetworks: boolean },
): string | null {
  const url = normaliseServerUrl(untrustedText, {
    maxLength: MAX_RELAY_URL_LENGTH,
    secureProtocol: 'wss:',
    plainProtocol: 'ws:',
    allowInsecure: allowPrivateNetworks,
  });
  if (url === null || allowPrivateNetworks) {
    return url;
  }
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '');
  return isForbiddenHost(host) ? null : url;
}

/** Returns a URL that may be logged: without the query, which can contain user ids or access tokens. */
export function stripQuery(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

function validateCandidate(
  text: string,
  rules: ZapRequestRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestResult {
  if (jsonByteLength(text) > MAX_ZAP_REQUEST_BYTES) {
    return invalid(
      `The zap request is too long: its receipt could not contain it in ${MAX_ZAP_REQUEST_BYTES} bytes.`,
    );
  }
  const parsed = tryParseJson(text);
  if (parsed === undefined) {
    return invalid('The zap request is not JSON. Encode it with encodeURIComponent, once.');
  }
  const { data: event, error } = zapRequestSchema.safeParse(parsed);
  if (event === undefined) {
    return invalid(`The zap request ${error.issues[0]?.message ?? 'is not an event'}.`);
  }
  const violation = findViolation(event.tags, rules);
  if (violation !== null) {
    return invalid(`The zap request ${violation}.`);
  }
  return verifyEvent(event)
    ? { outcome: 'valid', json: text }
    : invalid('The zap request has a wrong id or signature.');
}

/** An encoded brace, perhaps after whitespace. */
const ENCODED_JSON_START = /^(?:[\s+]|%20|%0[9ad])*%7b/i;

function decodeCandidate(candidate: string): string[] {
  return ENCODED_JSON_START.test(candidate) ? decodeQueryValueCandidates(candidate) : [candidate];
}

/** Returns the length of a text in JSON, without its quotation marks. */
function jsonByteLength(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - '""'.length;
}

function hexSchema(name: string, digits: number) {
  const pattern = new RegExp(`^[0-9a-f]{${digits}}$`);
  const error = `must have ${digits} lower-case hexadecimal digits as its '${name}'`;
  return z.string({ error }).regex(pattern, { error });
}

const CREATED_AT_ERROR = "must have Unix seconds as its 'created_at'";

/** An event (NIP-01). Each message continues the sentence "The zap request …". */
const zapRequestSchema = z.object(
  {
    kind: z.literal(ZAP_REQUEST_KIND, { error: `must be of kind ${ZAP_REQUEST_KIND}` }),
    id: hexSchema('id', 64),
    pubkey: hexSchema('pubkey', 64),
    created_at: z.int(CREATED_AT_ERROR).nonnegative(CREATED_AT_ERROR),
    tags: z
      .custom<string[][]>(isTagList, "must have lists of well-formed text as its 'tags'")
      .refine((tags) => tags.length <= MAX_TAGS, `must have at most ${MAX_TAGS} tags`),
    content: z.custom<string>(isWellFormedString, "must have well-formed text as its 'content'"),
    sig: hexSchema('sig', 128),
  },
  { error: 'must be a Nostr event, which is a JSON object' },
);

type Tags = readonly (readonly string[])[];

const EVENT_ID = /^[0-9a-f]{64}$/;

/** Kind, public key and `d` tag; the `d` tag may be empty (NIP-01). */
const COORDINATE = /^(0|[1-9]\d{0,4}):[0-9a-f]{64}:/;

const MAX_KIND = 65_535;

/** Returns the first broken rule, which continues the sentence "The zap request …"; null if none is broken. */
function findViolation(tags: Tags, rules: ZapRequestRules): string | null {
  const { recipient, amountMsat, zapPubkey, allowPrivateNetworks } = rules;
  const recipients = tagValues(tags, 'p');
  const amounts = tagValues(tags, 'amount');
  const eventIds = tagValues(tags, 'e');
  const coordinates = tagValues(tags, 'a');
  const receiptSignerKeys = tagValues(tags, 'P');
  const relayLists = tags.filter(([name]) => name === 'relays');
  const relayCount = (relayLists[0]?.length ?? 0) - 1;
  const problems: readonly [isBroken: boolean, problem: string][] = [
    [recipients.length !== 1, "must have exactly one 'p' tag"],
    [
      recipients[0] !== recipient,
      "must have the public key of this address, in lower-case hex, in its 'p' tag",
    ],
    [amounts.length > 1, "must have at most one 'amount' tag"],
    [
      amounts.some((amount) => amount !== String(amountMsat)),
      `must have the amount of the invoice in its 'amount' tag: ${amountMsat} millisatoshis`,
    ],
    [relayLists.length !== 1, "must have exactly one 'relays' tag"],
    [
      relayCount > MAX_LISTED_RELAYS,
      `must have at most ${MAX_LISTED_RELAYS} relays in its 'relays' tag`,
    ],
    [
      extractUsableRelays(tags, { allowPrivateNetworks }).length === 0,
      "must have at least one wss:// URL of a public host in its 'relays' tag",
    ],
    [eventIds.length > 1, "must have at most one 'e' tag"],
    [
      !eventIds.every((id) => EVENT_ID.test(id)),
      "must have an event id, 64 lower-case hexadecimal digits, in its 'e' tag",
    ],
    [
      !coordinates.every((text) => Number(COORDINATE.exec(text)?.[1] ?? Infinity) <= MAX_KIND),
      "must have <kind>:<public key in lower-case hex>:<d tag> in its 'a' tag",
    ],
    [
      coordinates.some((text) => jsonByteLength(text) > MAX_COORDINATE_BYTES),
      `must have an 'a' tag of at most ${MAX_COORDINATE_BYTES} bytes`,
    ],
    [receiptSignerKeys.length > 1, "must have at most one 'P' tag"],
    [
      receiptSignerKeys.some((key) => key !== zapPubkey),
      "must have the nostrPubkey of this address in its 'P' tag, if it has one",
    ],
  ];
  return problems.find(([isBroken]) => isBroken)?.[1] ?? null;
}

/** Returns the first value of each tag with this name. */
function tagValues(tags: Tags, name: string): string[] {
  return tags.filter((tag) => tag[0] === name).map(([, value = '']) => value);
}

function extractUsableRelays(tags: Tags, options: { allowPrivateNetworks: boolean }): string[] {
  const [, ...relays] = tags.find(([name]) => name === 'relays') ?? [];
  return [...new Set(relays.flatMap((relay) => normaliseRelayUrl(relay, options) ?? []))];
}

function invalid(reason: string): ZapRequestResult {
  return { outcome: 'rejected', reason };
}
