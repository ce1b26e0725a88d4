import type { Event } from 'nostr-tools';
import { z } from 'zod';
import { isListOfTags, isWellFormedText } from '../nostr/events.ts';
import { formReadings, parseJson } from '../untrusted-text.ts';
import { normaliseRelayUrl } from './relay-url.ts';

/** What a zap request must match. */
export interface ZapRules {
  /** Hex. */
  recipient: string;
  /** Of the requested invoice. */
  amountMsat: number;
  /** The key that signs receipts, as discovery announces it (`nostrPubkey`), hex. */
  zapPubkey: string;
  /** Whether relays may be private and without TLS (development). */
  allowPrivateRelays: boolean;
}

export type ZapRequestReading =
  /** `text` is the event byte for byte as its sender wrote it, because a receipt repeats it. */
  | { outcome: 'valid'; text: string }
  /** `reason` says which rule is broken, and contains nothing of the request. */
  | { outcome: 'refused'; reason: string };

const ZAP_REQUEST_KIND = 9734;

/**
 * The event as its receipt repeats it: a JSON string with every quotation mark escaped, in UTF-8. Real ones
 * have some 600 bytes, with a hundred relays 4,000. Many relays accept messages of at most 16 KiB: this, an
 * `a` tag of 1 KiB, the longest invoice (8 KiB) and some 700 bytes of ids, keys and the signature fit.
 */
const MAX_BYTES = 6 * 1024;

/** In JSON. Relays commonly reject longer values in tags with a name of one letter. */
const MAX_COORDINATE_BYTES = 1_024;

/** Real ones have ten at most. */
const MAX_TAGS = 100;

/** Wallets name all relays of their user. */
const MAX_NAMED_RELAYS = 100;

/** A stranger makes this service connect to no more. */
const MAX_RELAYS_PER_ZAP = 20;

/** Some relays have a separate path for writing; a stranger must not name one host twenty times. */
const MAX_RELAYS_PER_HOST = 2;

/**
 * Checks a zap request before an invoice is created for it (NIP-57 appendix D): cheap checks first, the
 * signature last. Accepts extra tags and values. One usable relay is enough, because people also name
 * relays of their own network.
 *
 * @param candidates the one or two possible readings of the parameter (see {@link formReadings}). Each may
 *   still be encoded, as some wallets encode once too often. The first one with a valid signature counts; if
 *   there is none, the reason is that of the first candidate
 * @param verifyEvent checks id and signature
 */
export function readZapRequest(
  candidates: readonly string[],
  rules: ZapRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestReading {
  let refusal: ZapRequestReading | null = null;
  for (const candidate of new Set(candidates.flatMap(meaningsOf))) {
    const reading = readCandidate(candidate, rules, verifyEvent);
    if (reading.outcome === 'valid') {
      return reading;
    }
    refusal ??= reading;
  }
  return refusal ?? refused('There is no zap request.');
}

/**
 * Returns the usable relays of a stored zap request: normalised, distinct, in its order, at most 20, and at
 * most two of one host. In development, where every relay is on this machine, each port is a host.
 */
export function zapRequestRelays(text: string, options: { allowPrivate: boolean }): string[] {
  const event = zapRequest.safeParse(parseJson(text)).data;
  const countsByHost = new Map<string, number>();
  return usableRelays(event?.tags ?? [], options)
    .filter((relay) => {
      const { host, hostname } = new URL(relay);
      const party = options.allowPrivate ? host : hostname;
      const count = (countsByHost.get(party) ?? 0) + 1;
      countsByHost.set(party, count);
      return count <= MAX_RELAYS_PER_HOST;
    })
    .slice(0, MAX_RELAYS_PER_ZAP);
}

function readCandidate(
  text: string,
  rules: ZapRules,
  verifyEvent: (event: Event) => boolean,
): ZapRequestReading {
  if (jsonBytes(text) > MAX_BYTES) {
    return refused(
      `The zap request has more than ${MAX_BYTES} bytes where its receipt repeats it.`,
    );
  }
  const json = parseJson(text);
  if (json === undefined) {
    return refused('The zap request is not JSON. Encode it with encodeURIComponent, once.');
  }
  const { data: event, error } = zapRequest.safeParse(json);
  if (event === undefined) {
    return refused(`The zap request ${error.issues[0]?.message ?? 'is not an event'}.`);
  }
  const problem = brokenRule(event.tags, rules);
  if (problem !== null) {
    return refused(`The zap request ${problem}.`);
  }
  return verifyEvent(event)
    ? { outcome: 'valid', text }
    : refused('The id or the signature of the zap request is wrong.');
}

/** An encoded brace after whitespace, which may be encoded too. */
const ENCODED_START = /^(?:[\s+]|%20|%0[9ad])*%7b/i;

function meaningsOf(candidate: string): string[] {
  return ENCODED_START.test(candidate) ? formReadings(candidate) : [candidate];
}

/** The length of a text in JSON, without its quotation marks. */
function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - '""'.length;
}

function hex(name: string, digits: number) {
  const pattern = new RegExp(`^[0-9a-f]{${digits}}$`);
  const error = `must have ${digits} lower-case hexadecimal digits as its '${name}'`;
  return z.string({ error }).regex(pattern, { error });
}

const SECONDS = "must have Unix seconds as its 'created_at'";

/** The shape of an event (NIP-01). The messages continue "The zap request". */
const zapRequest = z.object(
  {
    kind: z.literal(ZAP_REQUEST_KIND, { error: `must be of kind ${ZAP_REQUEST_KIND}` }),
    id: hex('id', 64),
    pubkey: hex('pubkey', 64),
    created_at: z.int(SECONDS).nonnegative(SECONDS),
    tags: z
      .custom<string[][]>(isListOfTags, "must have lists of well-formed text as its 'tags'")
      .refine((tags) => tags.length <= MAX_TAGS, `must have at most ${MAX_TAGS} tags`),
    content: z.custom<string>(isWellFormedText, "must have well-formed text as its 'content'"),
    sig: hex('sig', 128),
  },
  { error: 'must be a Nostr event, which is a JSON object' },
);

type Tags = readonly (readonly string[])[];

const EVENT_ID = /^[0-9a-f]{64}$/;

/** Kind, public key and `d` tag, which may be empty (NIP-01). */
const COORDINATE = /^(0|[1-9]\d{0,4}):[0-9a-f]{64}:/;

const MAX_KIND = 65_535;

/** Returns the first rule that the tags break, as the end of a sentence about the zap request; null if none. */
function brokenRule(tags: Tags, rules: ZapRules): string | null {
  const { recipient, amountMsat, zapPubkey, allowPrivateRelays } = rules;
  const recipients = valuesOf(tags, 'p');
  const amounts = valuesOf(tags, 'amount');
  const eventIds = valuesOf(tags, 'e');
  const coordinates = valuesOf(tags, 'a');
  const receiptKeys = valuesOf(tags, 'P');
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
      relayCount > MAX_NAMED_RELAYS,
      `must have at most ${MAX_NAMED_RELAYS} relays in its 'relays' tag`,
    ],
    [
      usableRelays(tags, { allowPrivate: allowPrivateRelays }).length === 0,
      "must have in its 'relays' tag at least one relay that can be reached: a wss:// URL of a public host",
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
      coordinates.some((text) => jsonBytes(text) > MAX_COORDINATE_BYTES),
      `must have an 'a' tag of at most ${MAX_COORDINATE_BYTES} bytes`,
    ],
    [receiptKeys.length > 1, "must have at most one 'P' tag"],
    [
      receiptKeys.some((key) => key !== zapPubkey),
      "must have the nostrPubkey of this address in its 'P' tag, if it has one",
    ],
  ];
  return problems.find(([isBroken]) => isBroken)?.[1] ?? null;
}

/** The first value of each tag with this name; empty if there is none. */
function valuesOf(tags: Tags, name: string): string[] {
  return tags.filter((tag) => tag[0] === name).map(([, value = '']) => value);
}

function usableRelays(tags: Tags, options: { allowPrivate: boolean }): string[] {
  const [, ...relays] = tags.find(([name]) => name === 'relays') ?? [];
  const usable = relays
    .map((relay) => normaliseRelayUrl(relay, options))
    .filter((relay) => relay !== null);
  return [...new Set(usable)];
}

function refused(reason: string): ZapRequestReading {
  return { outcome: 'refused', reason };
}
