import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { KeyedCounter } from '../keyed-counter.ts';
import { isForbiddenHost } from '../net/public-address.ts';
import { normaliseServerUrl } from '../net/server-url.ts';
import {
  decodeQueryValueCandidates,
  isTagList,
  tryDecodeUriComponent,
  tryParseJson,
} from '../untrusted-text.ts';

export interface ZapRequestRules {
  /** Hex. */
  recipient: string;
  /** The amount for which the payer requests an invoice. */
  amountMsat: number;
  /** The key that signs receipts, which is `nostrPubkey` in the LNURL response; hex. */
  zapPubkey: string;
  nowSeconds: number;
}

export type ZapRequestResult =
  /** `json` is the event exactly as its sender signed it. The receipt contains it unchanged. */
  | { outcome: 'valid'; json: string }
  /** It is for another key. The payment is an ordinary one, without a receipt. */
  | { outcome: 'other_recipient' }
  /** `reason` contains no text from the request. */
  | { outcome: 'rejected'; reason: string };

const ZAP_REQUEST_KIND = 9734;

/**
 * The size of the zap request in its receipt, where it is a JSON string with escaped quotation marks. Usual zap
 * requests have 600 bytes, or 4,000 with a hundred relays. Many relays accept receipts of at most 16 KiB. These have
 * room for the zap request, an `a` tag of 1 KiB, the longest invoice (8 KiB) and 700 bytes of ids, keys and the
 * signature.
 */
const MAX_ZAP_REQUEST_BYTES = 6 * 1024;

/** Longer than any usual relay URL. Limited, because a zap request can list a hundred URLs. */
const MAX_RELAY_URL_LENGTH = 255;

/**
 * How old a zap request may be when the invoice is requested, or how far in the future. Wallets sign it just before.
 * Otherwise anyone could use published zap requests again.
 */
const MAX_ZAP_REQUEST_AGE_MINUTES = 10;

/** The size of an `a` tag's value in JSON. Relays commonly reject longer values of single-letter tags. */
const MAX_COORDINATE_BYTES = 1_024;

/** Usual zap requests have at most ten tags. */
const MAX_TAGS = 100;

/** Wallets list all relays of their users. Further relays are ignored. */
const MAX_LISTED_RELAYS = 100;

/** Limits the connections that one zap can cause. */
const MAX_RELAYS_PER_ZAP = 20;

/** Two, because some relays have separate paths for reading and writing. */
const MAX_RELAYS_PER_HOST = 2;

/**
 * Validates a zap request before an invoice is created for it (NIP-57 appendix D). Verifies the signature last,
 * because that is expensive. Accepts extra tags, and requests without usable relays, because the operator's relays
 * take the receipt, too.
 *
 * @param candidates the possible meanings of the parameter (see {@link decodeQueryValueCandidates}). Each may still
 *   be encoded, because some wallets encode zap requests twice. Returns the first valid candidate, or the rejection
 *   of the first candidate if none is valid
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
    if (result.outcome !== 'rejected') {
      return result;
    }
    firstFailure ??= result;
  }
  return firstFailure ?? rejected('The zap request is missing.');
}

/**
 * Returns the usable relays of a stored zap request, normalised and without duplicates: at most
 * {@link MAX_RELAYS_PER_ZAP}, and at most {@link MAX_RELAYS_PER_HOST} on one host. With private networks allowed,
 * each port counts as a host.
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
 * Normalises the URL of a relay (see {@link normaliseServerUrl}), so that all spellings of a URL share one connection
 * and one delivery. Keeps the query, with which some relays identify their users.
 *
 * @param options.allowPrivateNetworks for development: also accepts ws://, any port and private addresses
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

/** Removes the query, which may contain user ids or access tokens, so that the URL may be logged. */
export function stripQuery(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

const ZAP_REQUEST_PARAMETER = /[?&]nostr=/;

/** Decoding an invalid part takes several microseconds. */
const MAX_ZAP_REQUEST_AMPERSANDS = 256;

/**
 * Escapes the `&` in a zap request. `encodeURI`, which an example of NIP-57 uses, leaves them as they are, so that the
 * rest of the JSON looks like further parameters.
 *
 * @param url of a request
 */
export function escapeZapRequestAmpersands(url: string): string {
  const parameter = ZAP_REQUEST_PARAMETER.exec(url);
  if (parameter === null) {
    return url;
  }
  const start = parameter.index + parameter[0].length;
  const parts = url.slice(start).split('&', MAX_ZAP_REQUEST_AMPERSANDS + 1);
  const json = parts.slice(0, countJsonParts(parts)).join('&');
  return url.slice(0, start) + json.replaceAll('&', '%26') + url.slice(start + json.length);
}

/** Returns how many of the encoded parts, joined by `&`, are a JSON object; 1 if none ends the object. */
function countJsonParts(parts: readonly string[]): number {
  const [firstPart = ''] = parts;
  const isEncodedTwice = ENCODED_JSON_START.test(tryDecodeUriComponent(firstPart));
  let depth = 0;
  let isInString = false;
  for (const [index, part] of parts.entries()) {
    const once = tryDecodeUriComponent(part);
    const text = isEncodedTwice ? tryDecodeUriComponent(once) : once;
    for (let i = 0; i < text.length; i += 1) {
      const character = text[i];
      if (isInString) {
        // The character after a backslash does not end the string.
        i += character === '\\' ? 1 : 0;
        isInString = character !== '"';
      } else if (character === '"') {
        isInString = true;
      } else if (character === '{' || character === '[') {
        depth += 1;
      } else if (character === '}' || character === ']') {
        depth -= 1;
      }
    }
    if (depth <= 0 && !isInString) {
      return index + 1;
    }
  }
  return 1;
}

function validateCandidate(
  text: string,
  rules: ZapRequestRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestResult {
  if (jsonByteLength(text) > MAX_ZAP_REQUEST_BYTES) {
    return rejected(
      `The zap request is too long: its receipt could not contain it in ${MAX_ZAP_REQUEST_BYTES} bytes.`,
    );
  }
  const parsed = tryParseJson(text);
  if (parsed === undefined) {
    return rejected('The zap request is not JSON. Encode it with encodeURIComponent, once.');
  }
  const { data: event, error } = zapRequestSchema.safeParse(parsed);
  if (event === undefined) {
    return rejected(`The zap request ${error.issues[0]?.message ?? 'is not an event'}.`);
  }
  const recipients = tagValues(event.tags, 'p');
  if (recipients.length !== 1) {
    return rejected("The zap request must have exactly one 'p' tag.");
  }
  if (recipients[0] !== rules.recipient) {
    return { outcome: 'other_recipient' };
  }
  const violation = findViolation(event, rules);
  if (violation !== null) {
    return rejected(`The zap request ${violation}.`);
  }
  return verifyEvent(event)
    ? { outcome: 'valid', json: text }
    : rejected('The zap request has a wrong id or signature.');
}

/** An encoded opening brace, perhaps after whitespace. */
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

/** Each error message continues the sentence "The zap request …". */
const zapRequestSchema = z.object(
  {
    kind: z.literal(ZAP_REQUEST_KIND, { error: `must be of kind ${ZAP_REQUEST_KIND}` }),
    id: hexSchema('id', 64),
    pubkey: hexSchema('pubkey', 64),
    created_at: z.int(CREATED_AT_ERROR).nonnegative(CREATED_AT_ERROR),
    tags: z
      .custom<string[][]>(isTagList, "must have lists of text as its 'tags'")
      .refine((tags) => tags.length <= MAX_TAGS, `must have at most ${MAX_TAGS} tags`),
    content: z.string("must have text as its 'content'"),
    sig: hexSchema('sig', 128),
  },
  { error: 'must be a Nostr event, which is a JSON object' },
);

type Tags = readonly (readonly string[])[];

const EVENT_ID = /^[0-9a-f]{64}$/;

/** The coordinate of an addressable event: kind, public key and `d` tag, which may be empty (NIP-01). */
const COORDINATE = /^(0|[1-9]\d{0,4}):[0-9a-f]{64}:/;

const MAX_KIND = 65_535;

/** Returns the first violated rule, which continues the sentence "The zap request …"; null if no rule is violated. */
function findViolation(
  { created_at, tags }: z.infer<typeof zapRequestSchema>,
  rules: ZapRequestRules,
): string | null {
  const { amountMsat, zapPubkey, nowSeconds } = rules;
  const amounts = tagValues(tags, 'amount');
  const eventIds = tagValues(tags, 'e');
  const coordinates = tagValues(tags, 'a');
  const receiptSignerKeys = tagValues(tags, 'P');
  const relayLists = tags.filter(([name]) => name === 'relays');
  const checks: readonly [isViolated: boolean, rule: string][] = [
    [
      Math.abs(nowSeconds - created_at) > MAX_ZAP_REQUEST_AGE_MINUTES * 60,
      `must have a 'created_at' within ${MAX_ZAP_REQUEST_AGE_MINUTES} minutes of the time of this server`,
    ],
    [amounts.length > 1, "must have at most one 'amount' tag"],
    [
      amounts.some((amount) => amount !== String(amountMsat)),
      `must have the amount of the invoice in its 'amount' tag: ${amountMsat} millisatoshis`,
    ],
    [relayLists.length > 1, "must have at most one 'relays' tag"],
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
  return checks.find(([isViolated]) => isViolated)?.[1] ?? null;
}

/** Returns the first value of each tag with this name. */
function tagValues(tags: Tags, name: string): string[] {
  return tags.filter((tag) => tag[0] === name).map(([, value = '']) => value);
}

function extractUsableRelays(tags: Tags, options: { allowPrivateNetworks: boolean }): string[] {
  const [, ...relays] = tags.find(([name]) => name === 'relays') ?? [];
  const listed = relays.slice(0, MAX_LISTED_RELAYS);
  return [...new Set(listed.flatMap((relay) => normaliseRelayUrl(relay, options) ?? []))];
}

function rejected(reason: string): ZapRequestResult {
  return { outcome: 'rejected', reason };
}
